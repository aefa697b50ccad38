"""The compiled loops: publications, their copies, FIFO stages, and strict-priority link queues.

Everything is arrays in, arrays out, and works in chunks, so memory does not grow with the run. A link
queue is a linked list per class in one shared pool, with a bit mask of the classes that wait. Between two
arrivals a link is simply run forward to the present, so there is no event heap; an event is one arrival
or departure of one copy at one queue.

Implements: firedex, section 3.1 (the queues) and 5.3 (a buffer of k messages with push-out).
Differs:    the message in service is outside the buffer; the newest of the lowest class is pushed out.
Symbols:    k -> buffer.
Checked by: tests/agreement/test_prediction_equals_simulation.py, tests/simulate/test_kernel.py
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from firelane.compiled import compiled
from firelane.histogram import BUCKETS, OFFSET, SHIFT
from firelane.scenario.model import MOST_PRIORITIES

EXPONENTIAL, FIXED, EMPIRICAL = range(3)
CLASSES = np.uint32(MOST_PRIORITIES)
NONE = np.uint32(0xFFFF_FFFF)  # no entry of the pool
F = npt.NDArray[np.float64]
I = npt.NDArray[np.int64]  # noqa: E741


class Traffic(NamedTuple):
    """What is published and which copies it makes: sources by alias table, streams by topic."""

    mean_gap_s: float
    alias_keep: F  # probability of keeping the drawn source
    alias_other: I  # else this one
    source_topic: I
    size_kind: I  # per topic
    size_mean: F
    sample_start: I  # empirical sizes: samples[start[t] : start[t + 1]]
    samples: F
    copy_start: I  # streams of topic t: copy_start[t] : copy_start[t + 1], listed in copy_stream
    copy_stream: npt.NDArray[np.int32]


class Links(NamedTuple):
    """Per stream how it is carried, per link how it is buffered."""

    stream_link: npt.NDArray[np.int32]
    stream_class: npt.NDArray[np.int32]
    stream_row: npt.NDArray[np.int32]  # the subscription whose histogram it counts in
    stream_latest: npt.NDArray[np.bool_]  # a newer message replaces the one still queued
    stream_drop: F  # share dropped on purpose
    stream_loss: F  # share lost on the link after transmission
    per_byte_s: F
    overhead_s: F
    propagation_s: F  # per link
    buffer: I  # per link: messages that may wait


class Queues(NamedTuple):
    """The state of all link queues. Entries live in a pool chained by `after` and `before`.

    The messages of a class form a ring that closes in entry link * CLASSES + class, which is no message: `after` it
    comes the first, `before` it the last, and itself when none wait. So no end of a list is a special case,
    which saves the loops branches that the processor could only guess. Indices are unsigned, as numba would
    otherwise let every one of them count from the end.
    """

    free_at: F  # when each link has finished what it is sending
    waiting: I  # messages queued per link
    classes: npt.NDArray[np.uint32]  # bit k set: class k has messages
    born: F  # per entry: when the message arrived at the exchange
    service: F
    stream: npt.NDArray[np.int32]  # the stream, or -1 - stream if it will be lost on the link
    after: npt.NDArray[np.uint32]
    before: npt.NDArray[np.uint32]
    held: npt.NDArray[np.uint32]  # per stream with `latest`: its queued entry, or NONE
    pool: npt.NDArray[np.uint32]  # [first free entry, or NONE]


class Tally(NamedTuple):
    """What happened to copies since counting began."""

    delivered: I  # per stream, as all but the histogram
    lost: I
    policy: I
    overflow: I
    superseded: I
    delay_sum: F
    busy_sum: F  # seconds of transmission
    histogram: npt.NDArray[np.uint32]  # per row (subscription) and bucket


@compiled
def alias_table(weight: F) -> tuple[F, I]:
    """Vose's alias table: draw i uniformly, keep it with probability keep[i], else take other[i]."""
    n = weight.shape[0]
    keep = weight * (n / weight.sum())
    other = np.arange(n)
    small = np.flatnonzero(keep < 1.0)
    large = np.flatnonzero(keep >= 1.0)
    stack = np.empty(n, np.int64)
    stack[: small.shape[0]] = small
    top = small.shape[0]
    at = 0
    while top > 0 and at < large.shape[0]:
        top -= 1
        poor, rich = stack[top], large[at]
        other[poor] = rich
        keep[rich] -= 1.0 - keep[poor]
        if keep[rich] < 1.0:
            stack[top] = rich
            top += 1
            at += 1
    for i in range(top):  # left over by rounding alone
        keep[stack[i]] = 1.0
    return keep, other


@compiled
def publish(rng: Any, t: Traffic, clock: float, time: F, source: I, size: F) -> float:
    """Fill the arrays with the next publications in order of time; returns the clock after them."""
    sources = t.alias_keep.shape[0]
    for i in range(time.shape[0]):
        clock += rng.standard_exponential() * t.mean_gap_s
        drawn = rng.random() * sources
        one = int(drawn)
        if drawn - one >= t.alias_keep[one]:
            one = t.alias_other[one]
        topic = t.source_topic[one]
        kind = t.size_kind[topic]
        if kind == EXPONENTIAL:
            size[i] = rng.standard_exponential() * t.size_mean[topic]
        elif kind == FIXED:
            size[i] = t.size_mean[topic]
        else:
            first = t.sample_start[topic]
            size[i] = t.samples[first + int(rng.random() * (t.sample_start[topic + 1] - first))]
        time[i] = clock
        source[i] = one
    return clock


@compiled
def count_topics(t: Traffic, source: I, count: I) -> int:
    """Count publications per topic; returns how many copies they all make before drops."""
    copies = 0
    for one in source:
        topic = t.source_topic[one]
        copies += t.copy_start[topic + 1] - t.copy_start[topic]
        count[topic] += 1
    return copies


@compiled
def _share_of_hash(message: Any, stream: Any) -> float:
    """A number in [0, 1) from the identities of a message and a stream: splitmix64's finaliser."""
    z = message ^ (np.uint64(stream) * np.uint64(0xD1B54A32D192ED03))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def fan_out(
    rng: Any, t: Traffic, links: Links, staged: bool, tally: Tally,
    born: F, ready: F, source: I, size: F,
    copy_born: F, copy_ready: F, copy_stream: npt.NDArray[np.int32], copy_service: F, copy_kept: npt.NDArray[np.bool_],
) -> int:  # fmt: skip
    """Copies of publications, each batch from a random start in a random direction.

    That makes every pair of copies come in either order with probability 1/2, all that the mean delays
    depend on, for one random number a publication. Copies dropped by policy are left out, unless stages
    before the link still have to carry them (`staged`), which then come with `copy_kept` false.
    """
    copy_start, copies_of, source_topic = t.copy_start, t.copy_stream, t.source_topic
    stream_drop, stream_loss = links.stream_drop, links.stream_loss
    per_byte_s, overhead_s, policy = links.per_byte_s, links.overhead_s, tally.policy
    n = np.uint64(0)
    for i in range(born.shape[0]):
        topic = source_topic[source[i]]
        first = np.uint64(copy_start[topic])
        copies = np.uint64(copy_start[topic + 1]) - first
        if copies == 0:
            continue
        luck = rng.random()
        message = np.uint64(luck * 18446744073709551616.0) * np.uint64(0x9E3779B97F4A7C15)
        turn = np.uint64(luck * (2 * copies))
        place = first + (turn >> np.uint64(1))
        end = first + copies
        step = np.uint64(1) if turn & np.uint64(1) else copies - np.uint64(1)
        since, at, length = born[i], ready[i], size[i]
        for _ in range(copies):
            stream = np.uint32(copies_of[place])
            place += step
            place -= copies if place >= end else np.uint64(0)
            # No branch on chance here: write the copy, and move on only if it stays.
            kept = _share_of_hash(message, stream) >= stream_drop[stream]
            policy[stream] += not kept
            gone = stream_loss[stream] > 0.0 and _share_of_hash(~message, stream) < stream_loss[stream]
            copy_born[n] = since
            copy_ready[n] = at
            copy_stream[n] = ~np.int32(stream) if gone else np.int32(stream)
            copy_service[n] = length * per_byte_s[stream] + overhead_s[stream]
            copy_kept[n] = kept
            n += np.uint64(kept or staged)
    return int(n)


@compiled
def fifo(server: npt.NDArray[Any], service: F, free_at: F, ready: F) -> None:
    """Pass messages, in order of time, through FIFO servers (-1: none); `ready` becomes when each leaves."""
    for i in range(ready.shape[0]):
        one = server[i]
        if one < 0:
            continue
        start = ready[i] if ready[i] > free_at[one] else free_at[one]
        free_at[one] = start + service[i]
        ready[i] = start + service[i]


@intrinsic  # type: ignore[untyped-decorator]
def _lowest_bit(typing: Any, mask: Any) -> Any:
    """The number of the lowest set bit of a mask that is not zero, in one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint32(types.uint32), generate


@intrinsic  # type: ignore[untyped-decorator]
def _leading_zeros(typing: Any, mask: Any) -> Any:
    """How many of the 32 bits of a mask that is not zero stand above its highest set bit."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint32(types.uint32), generate


@compiled
def _bucket(delay: float) -> Any:
    """`histogram.bucket_of` for one delay."""
    bucket = (np.float64(delay).view(np.int64) >> SHIFT) - OFFSET
    return 0 if bucket < 0 else BUCKETS - 1 if bucket >= BUCKETS else bucket


@compiled
def transmit(
    links: Links, q: Queues, tally: Tally, copies: int,
    born: F, ready: F, stream: npt.NDArray[np.int32], service: F, kept: npt.NDArray[np.bool_],
) -> tuple[int, int]:  # fmt: skip
    """Queue copies, in order of time per link, and send by strict priority without pre-emption.

    A copy that is not kept only moves its link's clock on. Returns (copies handled, events); stops early
    when the pool is empty, for the caller to grow it.

    One long function on purpose: arrays taken from a tuple inside a callee cost numba a pair of atomic
    reference counts each, which made this loop twenty times slower when it was five functions.
    """
    stream_link, stream_class, stream_row = links.stream_link, links.stream_class, links.stream_row
    stream_latest, propagation_s, buffer = links.stream_latest, links.propagation_s, links.buffer
    free_at, waiting, classes = q.free_at, q.waiting, q.classes
    q_born, q_service, q_stream = q.born, q.service, q.stream
    after, before, held, pool = q.after, q.before, q.held, q.pool
    delivered, lost, overflow, superseded = tally.delivered, tally.lost, tally.overflow, tally.superseded
    delay_sum, busy_sum, histogram = tally.delay_sum, tally.busy_sum, tally.histogram
    events = 0
    free = pool[0]
    for i in range(copies):
        if free == NONE:
            pool[0] = free
            return i, events
        now = ready[i]
        coming = stream[i]
        one = np.uint32(coming if coming >= 0 else -1 - coming)
        link = np.uint32(stream_link[one])
        # The link's state stays in local variables: stores to arrays would force it to be read again.
        until, mask, queued = free_at[link], classes[link], waiting[link]
        # Start, highest class first, what the link could start before now. What arrives at this very
        # instant waits with the rest of its batch until time moves on, and is then served by class.
        while until < now and mask != 0:
            klass = _lowest_bit(mask)
            ring = np.uint32(link * CLASSES + klass)
            entry = after[ring]
            following = after[entry]
            after[ring] = following
            before[following] = ring
            mask ^= np.uint32(following == ring) << klass
            queued -= 1
            after[entry] = free
            free = entry
            events += 1
            length, coded, since = q_service[entry], q_stream[entry], q_born[entry]
            until += length
            sent = np.uint32(coded if coded >= 0 else -1 - coded)
            if stream_latest[sent]:
                held[sent] = NONE
            if coded < 0:
                lost[sent] += 1
            else:
                delay = until - since + propagation_s[link]
                delivered[sent] += 1
                delay_sum[sent] += delay
                busy_sum[sent] += length
                histogram[np.uint32(stream_row[sent]), np.uint32(_bucket(delay))] += np.uint32(1)
        if not kept[i]:
            free_at[link], classes[link], waiting[link] = until, mask, queued
            continue
        events += 1
        until = max(until, now)  # it was idle until now
        klass = np.uint32(stream_class[one])
        enters = True
        if stream_latest[one] and held[one] != NONE:
            entry = held[one]
            superseded[one] += 1
            q_born[entry] = born[i]
            q_service[entry] = service[i]
            q_stream[entry] = coming
            enters = False
        elif queued >= buffer[link] + (until == now):  # a free link takes one more
            lowest = np.uint32(31) - _leading_zeros(mask)
            if lowest <= klass:
                overflow[one] += 1
                enters = False
            else:
                ring = np.uint32(link * CLASSES + lowest)
                entry = before[ring]
                coded = q_stream[entry]
                victim = np.uint32(coded if coded >= 0 else -1 - coded)
                overflow[victim] += 1
                if stream_latest[victim]:
                    held[victim] = NONE
                previous = before[entry]
                before[ring] = previous
                after[previous] = ring
                mask ^= np.uint32(previous == ring) << lowest
                queued -= 1
                after[entry] = free
                free = entry
        if enters:
            entry = free
            free = after[entry]
            ring = np.uint32(link * CLASSES + klass)
            last = before[ring]
            q_born[entry] = born[i]
            q_service[entry] = service[i]
            q_stream[entry] = coming
            after[entry] = ring
            before[entry] = last
            after[last] = entry
            before[ring] = entry
            mask |= np.uint32(1) << klass
            queued += 1
            if stream_latest[one]:
                held[one] = entry
        free_at[link], classes[link], waiting[link] = until, mask, queued
    pool[0] = free
    return copies, events


@compiled
def still_queued(q: Queues, streams: int) -> I:
    """How many messages of each stream wait."""
    count = np.zeros(streams, np.int64)
    for ring in range(int(CLASSES) * len(q.free_at)):
        entry = q.after[ring]
        while entry != ring:
            coded = q.stream[entry]
            count[coded if coded >= 0 else -1 - coded] += 1
            entry = q.after[entry]
    return count
