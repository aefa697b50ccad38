"""The compiled queues against a plain event-by-event simulation written independently of them."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firelane.histogram import BUCKETS, bucket_of
from firelane.simulate.kernel import NONE, Links, Queues, Tally, alias_table, fifo, still_queued, transmit

CLASSES = 16


@dataclass(frozen=True)
class Copy:
    time: float
    stream: int
    service: float
    lost: bool


@dataclass
class Stream:
    link: int
    klass: int
    latest: bool


def links_of(streams: list[Stream], buffers: list[int]) -> Links:
    n = len(streams)
    return Links(
        stream_link=np.array([s.link for s in streams], np.int32),
        stream_class=np.array([s.klass for s in streams], np.int32),
        stream_row=np.arange(n, dtype=np.int32),
        stream_latest=np.array([s.latest for s in streams], np.bool_),
        stream_drop=np.zeros(n),
        stream_loss=np.zeros(n),
        per_byte_s=np.zeros(n),
        overhead_s=np.zeros(n),
        propagation_s=np.full(len(buffers), 0.25),
        buffer=np.array(buffers, np.int64),
    )


def empty_queues(links: int, streams: int, entries: int) -> Queues:
    """Room for so many entries besides those in which the rings of the classes close."""
    rings = links * CLASSES
    after = np.arange(1, rings + entries + 1, dtype=np.uint32)
    after[:rings] = np.arange(rings)
    after[-1] = NONE
    return Queues(
        free_at=np.zeros(links),
        waiting=np.zeros(links, np.int64),
        classes=np.zeros(links, np.uint32),
        born=np.zeros(rings + entries),
        service=np.zeros(rings + entries),
        stream=np.zeros(rings + entries, np.int32),
        after=after,
        before=np.arange(rings + entries, dtype=np.uint32),
        held=np.full(streams, NONE, np.uint32),
        pool=np.array([rings], np.uint32),
    )


def empty_tally(streams: int) -> Tally:
    counts = [np.zeros(streams, np.int64) for _ in range(5)]
    return Tally(*counts, np.zeros(streams), np.zeros(streams), np.zeros((streams, BUCKETS), np.uint32))


def compiled(streams: list[Stream], buffers: list[int], copies: list[Copy]) -> tuple[Tally, np.ndarray, Queues]:
    """Run the trace, then move every link's clock to the time of the last arrival."""
    queues, tally = empty_queues(len(buffers), len(streams), len(copies) + 1), empty_tally(len(streams))
    last = copies[-1].time
    clocks = [Copy(last, stream, 0.0, False) for stream in range(len(streams))]
    time = np.array([c.time for c in [*copies, *clocks]])
    coded = np.array([-1 - c.stream if c.lost else c.stream for c in [*copies, *clocks]], np.int32)
    service = np.array([c.service for c in [*copies, *clocks]])
    kept = np.arange(len(time)) < len(copies)
    done, _ = transmit(links_of(streams, buffers), queues, tally, len(time), time, time, coded, service, kept)
    assert done == len(time)
    return tally, still_queued(queues, len(streams)), queues


def reference(streams: list[Stream], buffers: list[int], copies: list[Copy]) -> dict[str, Counter]:
    """A heap of events, a sorted list per link: everything the compiled version is not."""
    counts: dict[str, Counter] = {
        k: Counter() for k in ("delivered", "lost", "overflow", "superseded", "queued", "delay")
    }
    waiting: list[list[tuple[int, int, Copy]]] = [[] for _ in buffers]
    busy = [False] * len(buffers)
    events = [(c.time, 1, n, c) for n, c in enumerate(copies)]  # arrivals before starts at one instant
    heapq.heapify(events)
    last = max((c.time for c in copies), default=0.0)

    def start(link: int, now: float) -> None:
        if waiting[link] and not busy[link]:
            _, _, chosen = waiting[link].pop(0)
            busy[link] = True
            done = now + chosen.service
            heapq.heappush(events, (done, 0, link, None))
            stream = chosen.stream
            if chosen.lost:
                counts["lost"][stream] += 1
            else:
                counts["delivered"][stream] += 1
                counts["delay"][stream] += done - chosen.time + 0.25

    while events:
        now = events[0][0]
        if now > last:
            break
        while events and events[0][0] == now:  # everything that happens at this instant, then serve
            _, kind, number, copy = heapq.heappop(events)
            if kind == 0:
                busy[number] = False
                continue
            stream = streams[copy.stream]
            queue, link = waiting[stream.link], stream.link
            same = [i for i, (_, _, c) in enumerate(queue) if c.stream == copy.stream]
            if stream.latest and same:
                counts["superseded"][copy.stream] += 1
                queue[same[0]] = (queue[same[0]][0], queue[same[0]][1], copy)
                continue
            room = buffers[link] + (0 if busy[link] else 1)
            if len(queue) >= room:
                worst = max(queue, key=lambda item: (item[0], item[1]))
                if worst[0] <= stream.klass:
                    counts["overflow"][copy.stream] += 1
                    continue
                queue.remove(worst)
                counts["overflow"][worst[2].stream] += 1
            queue.append((stream.klass, number, copy))
            queue.sort(key=lambda item: (item[0], item[1]))
        if now < last:
            for link in range(len(buffers)):
                start(link, now)
    for queue in waiting:
        for _, _, copy in queue:
            counts["queued"][copy.stream] += 1
    return counts


@st.composite
def traces(draw):
    links = draw(st.integers(1, 3))
    streams = [
        Stream(draw(st.integers(0, links - 1)), draw(st.integers(0, 4)), draw(st.booleans()))
        for _ in range(draw(st.integers(1, 8)))
    ]
    buffers = [draw(st.integers(1, 6)) for _ in range(links)]
    # Times and services are multiples of 1/8, so that sums are exact and instants coincide often.
    time, copies = 0, []
    for _ in range(draw(st.integers(1, 60))):
        time += draw(st.sampled_from([0, 0, 1, 2, 5]))
        stream = draw(st.integers(0, len(streams) - 1))
        copies.append(Copy(time / 8, stream, draw(st.integers(1, 16)) / 8, draw(st.booleans()) and draw(st.booleans())))
    return streams, buffers, copies


@settings(max_examples=300)
@given(traces())
def test_the_compiled_queues_do_what_an_event_by_event_simulation_does(trace):
    streams, buffers, copies = trace
    tally, queued, _ = compiled(streams, buffers, copies)
    expected = reference(streams, buffers, copies)
    for one in range(len(streams)):
        got = {
            "delivered": tally.delivered[one],
            "lost": tally.lost[one],
            "overflow": tally.overflow[one],
            "superseded": tally.superseded[one],
            "queued": queued[one],
            "delay": tally.delay_sum[one],
        }
        assert got == {name: count[one] for name, count in expected.items()}


@settings(max_examples=200)
@given(traces())
def test_no_message_is_lost_in_silence_and_no_buffer_overrun(trace):
    streams, buffers, copies = trace
    tally, queued, queues = compiled(streams, buffers, copies)
    total = tally.delivered + tally.lost + tally.overflow + tally.superseded + queued
    assert total.tolist() == [sum(c.stream == s for c in copies) for s in range(len(streams))]
    assert all(waiting <= limit + 1 for waiting, limit in zip(queues.waiting, buffers, strict=True))
    assert tally.histogram.sum() == tally.delivered.sum()


def test_a_full_pool_stops_the_loop_without_losing_its_place():
    streams, copies = [Stream(0, 0, False)], [Copy(0.0, 0, 1.0, False)] * 5
    queues, tally = empty_queues(1, 1, 3), empty_tally(1)
    zeros, service = np.zeros(5), np.ones(5)
    done, _ = transmit(links_of(streams, [100]), queues, tally, 5, zeros, zeros, np.zeros(5, np.int32), service,
                       np.ones(5, np.bool_))  # fmt: skip
    assert done == 3
    assert queues.waiting[0] == 3
    assert len(copies) == 5


def test_waiting_messages_seen_by_poisson_arrivals_are_rate_times_wait():
    """Little's law, with the mean number waiting observed at arrivals (PASTA), not derived from delays."""
    rng = np.random.default_rng(7)
    arrivals = 120_000
    streams = [Stream(0, klass, False) for klass in (0, 0, 1, 2)]
    links, queues, tally = links_of(streams, [10**6]), empty_queues(1, 4, 4096), empty_tally(4)
    time = np.cumsum(rng.standard_exponential(arrivals))
    stream = rng.integers(0, 4, arrivals).astype(np.int32)
    service = rng.standard_exponential(arrivals) * 0.7
    found = 0
    kept = np.ones(1, np.bool_)
    for i in range(arrivals):
        at = slice(i, i + 1)
        transmit(links, queues, tally, 1, time[at], time[at], stream[at], service[at], kept)
        # The arrival itself is now among those waiting, or about to be sent by an idle link.
        found += queues.waiting[0] - 1
    sent = tally.delivered.sum()
    wait = (tally.delay_sum.sum() - tally.busy_sum.sum()) / sent - 0.25
    assert found / arrivals == pytest.approx(sent / time[-1] * wait, rel=0.03)


def test_fifo_servers_follow_lindleys_recursion():
    rng = np.random.default_rng(3)
    ready = np.sort(rng.uniform(0, 10, 200))
    server, service = rng.integers(-1, 3, 200), rng.uniform(0, 0.3, 200)
    left = ready.copy()
    fifo(server, service, np.zeros(3), left)
    for one in range(3):
        mine = np.flatnonzero(server == one)
        done = 0.0
        for i in mine:
            done = max(done, ready[i]) + service[i]
            assert left[i] == done
    assert (left[server < 0] == ready[server < 0]).all()


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=50))
def test_an_alias_table_gives_every_source_its_share(weights):
    weight = np.array(weights)
    keep, other = alias_table(weight)
    share = keep.copy()
    np.add.at(share, other, 1 - keep)
    assert share / len(weight) == pytest.approx(weight / weight.sum(), rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(1e-9, 1e5), min_size=1, max_size=30))
def test_the_kernel_and_the_histogram_agree_on_buckets(delays):
    streams = [Stream(0, 0, False)]
    copies = [Copy(float(1e6 * i), 0, d, False) for i, d in enumerate(delays)]
    tally, _, _ = compiled(streams, [1], [*copies, Copy(1e9, 0, 1.0, False)])
    # The clock's own rounding may move a delay, so the delays are taken back from the sums one by one.
    seen = np.array([(c.time + c.service) - c.time + 0.25 for c in copies])
    expected = np.bincount(bucket_of(seen), minlength=BUCKETS)
    assert (tally.histogram[0] == expected).all()
