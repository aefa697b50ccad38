"""One seeded run of the system: publications in chunks through the stages to the links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


class Delays:
    """Sums and counts of the delays in one stage, per topic or stream; of what has left it."""

    def __init__(self, places: int) -> None:
        self.sum = np.zeros(places)
        self.count = np.zeros(places)

    def add(self, place: Ints, delay: Floats) -> None:
        """Some more."""
        self.sum += np.bincount(place, delay, minlength=len(self.sum))
        self.count += np.bincount(place, minlength=len(self.sum))


@dataclass(slots=True)
class Outcome:
    """What happened in one replication after its warm-up.

    Per stream, waiting_before + published = delivered + lost + dropped for any reason + queued.
    """

    tally: Tally
    published: Ints  # per traffic topic
    publisher_lost: Ints
    waiting_before: Ints  # per stream, when counting began, wherever it waited
    queued: Ints  # the same at the end
    window_s: float
    events: int
    seconds: float
    stages: dict[str, Delays]  # of publisher and broker_in by traffic topic, of broker_out and switch by stream


def replicate(
    system: System, *, publications: int, seed: np.random.SeedSequence, progress: Callable[[int], None]
) -> Outcome:
    """Simulate so many publications and count what became of their copies."""
    run = _Run(system, np.random.Generator(np.random.SFC64(seed)))
    started = perf_counter()
    warm_up = int(WARM_UP * publications)
    for phase in (warm_up, publications - warm_up):
        run.begin_counting()
        for count in _chunks(phase, run.chunk):
            run.step(count)
            progress(count)
    return run.outcome(perf_counter() - started)


def _chunks(total: int, most: int) -> Iterator[int]:
    for start in range(0, total, most):
        yield min(most, total - start)


class _Run:
    """The state of one replication between chunks."""

    def __init__(self, system: System, rng: Rng) -> None:
        self._system = system
        self._rng = rng
        traffic = system.traffic
        copies = len(traffic.copy_stream) / max(1, len(traffic.copy_start) - 1)
        self.chunk = int(np.clip(CHUNK_COPIES / max(copies, 0.1), 64, 65_536))
        self._clock = 0.0
        self._events = 0
        self._queues = system.queues(4096)
        topics, streams = len(traffic.copy_start) - 1, len(traffic.copy_stream)
        stages = system.stages
        self._publisher_free = np.zeros(len(stages.publisher_loss))
        self._broker_free = np.zeros(1)
        self._out_free = np.zeros(int(stages.stream_subscriber.max(initial=0)) + 1)
        self._switch_free = np.zeros(len(stages.switch_s))
        self._held = {name: _Held() for name in ("publisher", "broker_in", "broker_out", "switch")}
        self._topics, self._streams = topics, streams
        self.begin_counting()

    def begin_counting(self) -> None:
        """From here on everything counts, also what becomes of messages that wait now."""
        self._tally = self._system.tally()  # links that lag behind the clock count into this one
        self._run_links()
        self._tally = self._system.tally()
        self._counted_from = self._clock
        self._published = np.zeros(self._topics, np.int64)
        self._lost = np.zeros(self._topics, np.int64)
        self._means = {name: Delays(self._topics) for name in ("publisher", "broker_in")}
        self._means |= {name: Delays(self._streams) for name in ("broker_out", "switch")}
        self._waiting_before = self._waiting()

    def step(self, count: int) -> None:
        """Publish so many messages and carry everything as far as time allows.

        Nothing still to come can arrive anywhere before the clock, so messages up to it are safe to order;
        the others are held in their stage.
        """
        traffic, stages = self._system.traffic, self._system.stages
        time, source, size = np.empty(count), np.empty(count, np.int64), np.empty(count)
        self._clock = publish(self._rng, traffic, self._clock, time, source, size)
        born = time
        copies = count_topics(traffic, source, self._published)
        if len(stages.publisher_lane):
            time, source, size = self._publisher(time, source, size)
            born = time  # delays run from the arrival at the exchange
        if stages.broker_in_s:
            time, born, source, size = self._broker_in(time, source, size)
        if stages.any:
            copies = count_topics(traffic, source, np.zeros(self._topics, np.int64))
        self._fan_out(copies, time, born, source, size)

    def _run_links(self) -> None:
        """Let every link send up to the present."""
        _, stream = np.unique(self._system.links.stream_link, return_index=True)
        end = np.full(len(stream), self._clock)
        never = np.zeros(len(stream), np.bool_)
        self._transmit(len(stream), end, end, stream.astype(np.int32), np.zeros(len(stream)), never)

    def _publisher(self, time: Floats, source: Ints, size: Floats) -> tuple[Any, ...]:
        """Through the publishers' links: FIFO, then errors and propagation (section 3.1.3)."""
        stages, traffic = self._system.stages, self._system.traffic
        lane = stages.publisher_lane[source]
        service = size * stages.publisher_per_byte_s[source] + stages.publisher_overhead_s[source]
        ready = time.copy()
        fifo(lane, service, self._publisher_free, ready)
        # Propagation delays a whole Poisson stream alike, which changes nothing but the delay itself.
        delay = ready - time + stages.publisher_propagation_s[lane]
        ready, source, size, delay = self._held["publisher"].release(self._clock, ready, source, size, delay)
        self._add("publisher", traffic.source_topic[source], delay)
        stays = self._rng.random(len(ready)) >= stages.publisher_loss[stages.publisher_lane[source]]
        count_topics(traffic, source[~stays], self._lost)
        return ready[stays], source[stays], size[stays]

    def _broker_in(self, time: Floats, source: Ints, size: Floats) -> tuple[Any, ...]:
        ready = time.copy()
        service = self._rng.standard_exponential(len(ready)) * self._system.stages.broker_in_s
        fifo(np.zeros(len(ready), np.int64), service, self._broker_free, ready)
        ready, born, source, size = self._held["broker_in"].release(self._clock, ready, time, source, size)
        self._add("broker_in", self._system.traffic.source_topic[source], ready - born)
        return ready, born, source, size

    def _fan_out(self, copies: int, time: Floats, born: Floats, source: Ints, size: Floats) -> None:
        """Copies of what the broker has taken in, and on with them to their links."""
        system, stages = self._system, self._system.stages
        copy_born, ready = np.empty(copies), np.empty(copies)
        stream, service, kept = np.empty(copies, np.int32), np.empty(copies), np.empty(copies, np.bool_)
        staged = bool(stages.broker_out_s or stages.switch_s.any())
        n = fan_out(self._rng, system.traffic, system.links, staged, self._tally,
                    born, time, source, size, copy_born, ready, stream, service, kept)  # fmt: skip
        columns: tuple[Any, ...] = (ready, copy_born, stream, service, kept)
        if stages.broker_out_s:
            subscriber = stages.stream_subscriber[_named(stream)]
            columns = self._pass("broker_out", subscriber, stages.broker_out_s, self._out_free, columns)
        if stages.switch_s.any():
            link = system.links.stream_link[_named(columns[2])]
            columns = self._pass("switch", link, stages.switch_s[link], self._switch_free, columns)
        ready, copy_born, stream, service, kept = columns
        self._transmit(len(ready) if staged else n, copy_born, ready, stream, service, kept)

    def _pass(self, stage: str, server: Any, mean_s: Any, free_at: Floats, columns: tuple[Any, ...]) -> tuple[Any, ...]:
        """Copies through FIFO servers with exponential service; order is restored where several merge."""
        before, born, stream, service, kept = columns
        ready = before.copy()
        fifo(server, self._rng.standard_exponential(len(ready)) * mean_s, free_at, ready)
        ready, born, stream, service, kept, delay = self._held[stage].release(
            self._clock, ready, born, stream, service, kept, ready - before
        )
        self._add(stage, _named(stream)[kept], delay[kept])
        return ready, born, stream, service, kept

    def _transmit(self, copies: int, born: Floats, arrive: Floats, stream: Any, service: Floats, kept: Any) -> None:
        at = 0
        while at < copies:
            done, events = transmit(self._system.links, self._queues, self._tally, copies - at,
                                    born[at:], arrive[at:], stream[at:], service[at:], kept[at:])  # fmt: skip
            at += done
            self._events += events
            if at < copies:
                self._queues = _grown(self._queues)

    def _add(self, stage: str, place: Ints, delay: Floats) -> None:
        self._means[stage].add(place, delay)
        self._events += 2 * len(delay)

    def outcome(self, seconds: float) -> Outcome:
        """Everything counted up to now."""
        self._run_links()
        return Outcome(
            tally=self._tally,
            published=self._published,
            publisher_lost=self._lost,
            waiting_before=self._waiting_before,
            queued=self._waiting(),
            window_s=self._clock - self._counted_from,
            events=self._events,
            seconds=seconds,
            stages=self._means,
        )

    def _waiting(self) -> Ints:
        """Copies of each stream that wait for their link, or in a stage before it."""
        by_topic = np.zeros(self._topics, np.int64)
        for name, source in (("publisher", 1), ("broker_in", 2)):
            if (columns := self._held[name].columns) is not None:
                count_topics(self._system.traffic, columns[source], by_topic)
        count = still_queued(self._queues, self._streams) + by_topic[self._system.stream_published]
        for name in ("broker_out", "switch"):
            if (columns := self._held[name].columns) is not None:
                count = count + np.bincount(_named(columns[2][columns[4]]), minlength=self._streams)
        return np.asarray(count, np.int64)


def _named(stream: Any) -> Any:
    """The stream of each copy, also of those marked as lost on the link."""
    return np.where(stream < 0, -1 - stream, stream)


class _Held:
    """Messages whose turn has not come: a later one may still arrive before them."""

    def __init__(self) -> None:
        self.columns: tuple[Any, ...] | None = None

    def release(self, horizon: float, *columns: Any) -> tuple[Any, ...]:
        """Of these and the held messages (first column: time), those up to `horizon`, in order."""
        if self.columns is not None:
            columns = tuple(np.concatenate(pair) for pair in zip(self.columns, columns, strict=True))
            if len(columns[0]) > MOST_ENTRIES:
                raise too_many_waiting()
        order = np.argsort(columns[0], kind="stable")
        ripe = int(np.searchsorted(columns[0], horizon, side="right", sorter=order))
        self.columns = tuple(column[order[ripe:]] for column in columns)
        return tuple(column[order[:ripe]] for column in columns)


def too_many_waiting() -> FirelaneError:
    """Where a simulation stops instead of filling the memory."""
    return FirelaneError(f"more than {MOST_ENTRIES:,} messages wait in the simulated queues; simulate fewer "
                         "publications, give the links a buffer, or lower the load")  # fmt: skip


def _grown(queues: Queues) -> Queues:
    """The same queues with twice the entries, the new ones free."""
    old = len(queues.born)
    messages = old - MOST_PRIORITIES * len(queues.free_at)
    if messages > MOST_ENTRIES:
        raise too_many_waiting()

    def doubled(column: Any) -> Any:
        return np.concatenate([column, np.zeros_like(column)])

    grown = queues._replace(**{name: doubled(getattr(queues, name)) for name in
                               ("born", "service", "stream", "after", "before")})  # fmt: skip
    grown.after[old:] = np.arange(old + 1, 2 * old + 1)
    grown.after[-1] = NONE
    grown.pool[0] = old
    return grown
