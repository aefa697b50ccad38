"""One seeded run of the system: publications in chunks through the stages to the links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.errors import FirelaneError
from firelane.scenario.model import MOST_PRIORITIES
from firelane.simulate.kernel import NONE, Queues, Tally, count_topics, fan_out, fifo, publish, still_queued, transmit
from firelane.simulate.system import MOST_ENTRIES, System

CHUNK_COPIES = 100_000
WARM_UP = 0.1  # share of the run that is simulated but not counted

Rng = np.random.Generator


@dataclass(slots=True)
class Outcome:
    """What one replication counted."""

    tally: Tally
    published: Ints  # per traffic topic
    publisher_lost: Ints
    queued: Ints  # per stream
    window_s: float
    events: int
    seconds: float
    stage_topic_s: dict[str, Floats] = field(default_factory=dict)  # mean by traffic topic
    stage_stream_s: dict[str, Floats] = field(default_factory=dict)  # mean by stream


def replicate(
    system: System, *, publications: int, seed: np.random.SeedSequence, progress: Callable[[int], None]
) -> Outcome:
    """Simulate so many publications and count what became of their copies."""
    run = _Run(system, publications, np.random.Generator(np.random.SFC64(seed)))
    started = perf_counter()
    left = publications
    while left > 0:
        count = min(run.chunk, left)
        run.step(count)
        left -= count
        progress(count)
    run.finish()
    return run.outcome(perf_counter() - started)


class _Run:
    """The state of one replication between chunks."""

    def __init__(self, system: System, publications: int, rng: Rng) -> None:
        self._system = system
        self._rng = rng
        traffic = system.traffic
        self._counted_from = WARM_UP * publications * traffic.mean_gap_s
        copies = len(traffic.copy_stream) / max(1, len(traffic.copy_start) - 1)
        self.chunk = int(np.clip(CHUNK_COPIES / max(copies, 0.1), 64, 65_536))
        self._clock = 0.0
        self._events = 0
        self._tally = system.tally()
        self._queues = system.queues(4096)
        topics, streams = len(traffic.copy_start) - 1, len(traffic.copy_stream)
        self._published = np.zeros(topics, np.int64)
        self._lost = np.zeros(topics, np.int64)
        stages = system.stages
        self._publisher_free = np.zeros(len(stages.publisher_loss))
        self._broker_free = np.zeros(1)
        self._out_free = np.zeros(int(stages.stream_subscriber.max(initial=0)) + 1)
        self._switch_free = np.zeros(len(stages.switch_s))
        self._early = _Held()
        self._late = _Held()
        self._topic_sums = {name: np.zeros(topics) for name in ("publisher", "broker_in")}
        self._stream_sums = {name: np.zeros(streams) for name in ("broker_out", "switch")}
        self._stream_copies = np.zeros(streams)

    def step(self, count: int) -> None:
        """Publish so many messages and carry everything as far as time allows."""
        time, source, size = np.empty(count), np.empty(count, np.int64), np.empty(count)
        self._clock = publish(self._rng, self._system.traffic, self._clock, time, source, size)
        self._carry(time, source, size, horizon=self._clock)

    def finish(self) -> None:
        """Let what the stages before the links still hold arrive, and the links send up to the end."""
        if self._system.stages.any:
            self._carry(np.empty(0), np.empty(0, np.int64), np.empty(0), horizon=np.inf)
        _, stream = np.unique(self._system.links.stream_link, return_index=True)
        end = np.full(len(stream), self._clock)
        never = np.zeros(len(stream), np.bool_)
        self._transmit(len(stream), end, end, stream.astype(np.int32), np.zeros(len(stream)), never)

    def _carry(self, time: Floats, source: Ints, size: Floats, *, horizon: float) -> None:
        """Nothing still to come can arrive before `horizon`, so messages up to it are safe to order."""
        system, stages = self._system, self._system.stages
        if len(stages.publisher_lane):
            time, source, size = self._early.release(horizon, *self._publisher(time, source, size))
        copies = count_topics(system.traffic, source, time, self._counted_from, self._published)
        ready = time
        if stages.broker_in_s:
            ready = time.copy()
            service = self._rng.standard_exponential(len(ready)) * stages.broker_in_s
            fifo(np.zeros(len(ready), np.int64), service, self._broker_free, ready)
            self._add_topics("broker_in", source, ready - time, time)
        born, arrive = np.empty(copies), np.empty(copies)
        stream, service, kept = np.empty(copies, np.int32), np.empty(copies), np.empty(copies, np.bool_)
        n = fan_out(self._rng, system.traffic, system.links, stages.any, self._counted_from, self._tally,
                    time, ready, source, size, born, arrive, stream, service, kept)  # fmt: skip
        if stages.broker_out_s or stages.switch_s.any():
            self._stages_after(horizon, born, arrive, stream, service, kept)
        else:
            self._transmit(n, born, arrive, stream, service, kept)

    def _publisher(self, time: Floats, source: Ints, size: Floats) -> tuple[Floats, Ints, Floats]:
        """Through the publishers' links: FIFO, then errors and propagation (section 3.1.3)."""
        stages = self._system.stages
        lane = stages.publisher_lane[source]
        service = size * stages.publisher_per_byte_s[source] + stages.publisher_overhead_s[source]
        ready = time.copy()
        fifo(lane, service, self._publisher_free, ready)
        ready += stages.publisher_propagation_s[lane]
        self._add_topics("publisher", source, ready - time, ready)
        lost = self._rng.random(len(ready)) < stages.publisher_loss[lane]
        if lost.any():
            count_topics(self._system.traffic, source[lost], ready[lost], self._counted_from, self._lost)
        return ready[~lost], source[~lost], size[~lost]

    def _stages_after(
        self, horizon: float, born: Floats, arrive: Floats, stream: Any, service: Floats, kept: Any
    ) -> None:
        """Out of the broker and into the switch; order is restored wherever several queues merge."""
        system, stages = self._system, self._system.stages
        which = np.where(stream < 0, -1 - stream, stream)
        if stages.broker_out_s:
            before = arrive.copy()
            draw = self._rng.standard_exponential(len(arrive)) * stages.broker_out_s
            fifo(stages.stream_subscriber[which], draw, self._out_free, arrive)
            self._add_streams("broker_out", which, arrive - before, born, kept)
            arrive, born, stream, service, kept = self._late.release(horizon, arrive, born, stream, service, kept)
            which = np.where(stream < 0, -1 - stream, stream)
        link = system.links.stream_link[which]
        if stages.switch_s.any():
            before = arrive.copy()
            draw = self._rng.standard_exponential(len(arrive)) * stages.switch_s[link]
            fifo(link, draw, self._switch_free, arrive)
            self._add_streams("switch", which, arrive - before, born, kept)
        self._transmit(len(arrive), born, arrive, stream, service, kept)

    def _transmit(self, copies: int, born: Floats, arrive: Floats, stream: Any, service: Floats, kept: Any) -> None:
        at = 0
        while at < copies:
            done, events = transmit(self._system.links, self._queues, self._tally, self._counted_from, copies - at,
                                    born[at:], arrive[at:], stream[at:], service[at:], kept[at:])  # fmt: skip
            at += done
            self._events += events
            if at < copies:
                self._queues = _grown(self._queues)

    def _add_topics(self, stage: str, source: Ints, delay: Floats, born: Floats) -> None:
        counted = born >= self._counted_from
        topic = self._system.traffic.source_topic[source[counted]]
        sums = self._topic_sums[stage]
        sums += np.bincount(topic, delay[counted], minlength=len(sums))
        self._events += 2 * len(delay)

    def _add_streams(self, stage: str, which: Ints, delay: Floats, born: Floats, kept: Any) -> None:
        counted = kept & (born >= self._counted_from)
        sums = self._stream_sums[stage]
        sums += np.bincount(which[counted], delay[counted], minlength=len(sums))
        self._events += 2 * len(delay)

    def outcome(self, seconds: float) -> Outcome:
        """Everything counted, with means where sums were kept."""
        streams = len(self._system.traffic.copy_stream)
        arrived = np.maximum(1, self._published)
        offered = (self._published[self._system.stream_published] - self._tally.policy).astype(float)
        return Outcome(
            tally=self._tally,
            published=self._published + self._lost,
            publisher_lost=self._lost,
            queued=still_queued(self._queues, self._counted_from, streams),
            window_s=self._clock - self._counted_from,
            events=self._events,
            seconds=seconds,
            stage_topic_s={
                "publisher": self._topic_sums["publisher"] / np.maximum(1, self._published + self._lost),
                "broker_in": self._topic_sums["broker_in"] / arrived,
            },
            stage_stream_s={name: sums / np.maximum(1, offered) for name, sums in self._stream_sums.items()},
        )


class _Held:
    """Messages whose turn has not come: a later one may still arrive before them."""

    def __init__(self) -> None:
        self._columns: tuple[Any, ...] | None = None

    def release(self, horizon: float, *columns: Any) -> tuple[Any, ...]:
        """Of these and the held messages (first column: time), those up to `horizon`, in order."""
        if self._columns is not None:
            columns = tuple(np.concatenate(pair) for pair in zip(self._columns, columns, strict=True))
        order = np.argsort(columns[0], kind="stable")
        ripe = int(np.searchsorted(columns[0], horizon, side="right", sorter=order))
        self._columns = tuple(column[order[ripe:]] for column in columns)
        return tuple(column[order[:ripe]] for column in columns)


def _grown(queues: Queues) -> Queues:
    """The same queues with twice the entries, the new ones free."""
    old = len(queues.born)
    messages = old - MOST_PRIORITIES * len(queues.free_at)
    if messages > MOST_ENTRIES:
        raise FirelaneError(f"more than {MOST_ENTRIES:,} messages wait in the simulated queues; give the links "
                            "a buffer, or lower the load with `firelane tune`")  # fmt: skip

    def doubled(column: Any) -> Any:
        return np.concatenate([column, np.zeros_like(column)])

    grown = queues._replace(**{name: doubled(getattr(queues, name)) for name in
                               ("born", "service", "stream", "after", "before")})  # fmt: skip
    grown.after[old:] = np.arange(old + 1, 2 * old + 1)
    grown.after[-1] = NONE
    grown.pool[0] = old
    return grown
