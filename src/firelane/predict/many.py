"""Many plans at once: what subscriptions get when groups of them are ranked and dropped in this way or that.

The formulas are those of `queues.fan_out_delay_s`, in compiled loops over plans, links and batches; a prediction of one
of these plans says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.compiled import compiled
from firelane.predict.run import before_link, moments
from firelane.scenario.model import LEAST_SPARE, MOST_PRIORITIES
from firelane.scenario.routes import Routes
from firelane.scenario.upstream import upstream


class Streams(NamedTuple):
    """Streams in the order of their links and topics, and the claims on them; a group is a set of subscriptions."""

    lane_start: Ints  # where the streams of each link begin, and the end
    topic: Ints
    rate_hz: Floats  # before drops
    published_hz: Floats
    service_s: Floats
    second_s2: Floats
    before_s: Floats  # propagation and the stages before the link
    late_s: Floats  # how long after the first of its batch a copy comes; empty if all come together
    gain: Floats  # 1 - the link's loss
    claim_start: Ints  # where the claims on each stream begin, and the end
    claim_row: Ints  # the subscription that claims it
    claim_group: Ints
    rows: int


class Targets(NamedTuple):
    """What is asked of each plan: mean delays or losses of subscriptions; of all together, or of the worst of them."""

    is_loss: Flags
    together: Flags
    start: Ints  # where the rows of each target begin, and the end
    rows: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ManyPlans:
    """A scenario whose subscriptions are in groups, each with one class and one drop rate."""

    routes: Routes
    streams: Streams

    def values(self, targets: Targets, rank: Ints, drop_rate: Floats) -> Floats:
        """For every plan (a row of the class and of the drop rate of each group) the value of every target.

        NaN is the delay of what does not settle; 0 that of subscriptions to which nothing is due.
        """
        result = np.empty((len(rank), len(targets.is_loss)))
        _evaluate(self.streams, targets, np.ascontiguousarray(rank), np.ascontiguousarray(drop_rate), result)
        return result


def many_plans(routes: Routes, group: Ints) -> ManyPlans:
    """The scenario made ready; `group` is that of each subscription."""
    r, before = routes, upstream(routes)
    order = np.lexsort((r.stream_topic, r.stream_lane))
    before_s, late_s = before_link(r, before)
    service, second = moments(r, r.stream_topic, *r.service_s())
    propagation = np.array([lane.link.propagation_s for lane in r.lanes])[r.stream_lane]
    gain = 1 - np.array([lane.link.loss for lane in r.lanes])[r.stream_lane]
    claims = np.bincount(r.claim_stream, minlength=len(r.stream_topic))
    first = np.cumsum(claims) - claims
    position = np.concatenate([np.arange(first[i], first[i] + claims[i]) for i in order.tolist()] or [np.empty(0)])
    row = r.claim_subscription[position.astype(np.int64)]
    streams = Streams(
        lane_start=_starts(np.bincount(r.stream_lane, minlength=len(r.lanes))),
        topic=r.stream_topic[order],
        rate_hz=before.stream_rate_hz[order],
        published_hz=r.published_hz[order],
        service_s=service[order],
        second_s2=second[order],
        before_s=(before_s + propagation)[order],
        late_s=np.empty(0) if late_s is None else late_s[order],
        gain=gain[order],
        claim_start=_starts(claims[order]),
        claim_row=row,
        claim_group=np.asarray(group, np.int64)[row],
        rows=len(r.filters),
    )
    return ManyPlans(routes=r, streams=streams)


def targets(asked: Sequence[tuple[bool, bool, Ints]]) -> Targets:
    """From (is a loss, of all together, the subscriptions) of each."""
    return Targets(
        is_loss=np.array([loss for loss, _, _ in asked], np.bool_),
        together=np.array([together for _, together, _ in asked], np.bool_),
        start=_starts(np.array([len(rows) for _, _, rows in asked], np.int64)),
        rows=np.concatenate([rows for _, _, rows in asked]).astype(np.int64) if asked else np.empty(0, np.int64),
    )


def _starts(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@compiled
def _evaluate(s: Streams, asked: Targets, rank: Ints, drop_rate: Floats, result: Floats) -> None:
    count = len(s.topic)
    klass, owner = np.empty(count, np.int64), np.empty(count, np.int64)
    kept, delay, delivered = np.empty(count), np.empty(count), np.empty(count)
    late, carried = np.empty(s.rows), np.empty(s.rows)
    got, due = np.empty(s.rows), np.empty(s.rows)
    for plan in range(len(rank)):
        carriers(s, rank[plan], drop_rate[plan], klass, kept, owner)
        for lane in range(len(s.lane_start) - 1):
            _queue(s, s.lane_start[lane], s.lane_start[lane + 1], klass, kept, delay, delivered)
        late[:], carried[:], got[:], due[:] = 0.0, 0.0, 0.0, 0.0
        for i in range(count):
            if s.rate_hz[i] > 0 and kept[i] > 0:
                weight = max(delivered[i], 1e-300)
                late[owner[i]] += delay[i] * weight
                carried[owner[i]] += weight
            for claim in range(s.claim_start[i], s.claim_start[i + 1]):
                got[s.claim_row[claim]] += delivered[i]
                due[s.claim_row[claim]] += s.published_hz[i]
        for one in range(len(asked.is_loss)):
            rows = asked.rows[asked.start[one] : asked.start[one + 1]]
            if asked.is_loss[one]:
                result[plan, one] = _loss(rows, got, due, asked.together[one])
            else:
                result[plan, one] = _delay(rows, late, carried, asked.together[one])


@compiled
def carriers(s: Streams, rank: Ints, drop_rate: Floats, klass: Ints, kept: Floats, owner: Ints) -> None:
    """Who carries each stream: of its claims the best class, then the lowest drop rate (as `Routes.owners`)."""
    for i in range(len(s.topic)):
        best, lowest, which = np.int64(MOST_PRIORITIES), 2.0, np.int64(-1)
        least = 1.0
        for claim in range(s.claim_start[i], s.claim_start[i + 1]):
            group = s.claim_group[claim]
            drop = drop_rate[group]
            least = min(least, drop)
            if rank[group] < best or (rank[group] == best and drop < lowest):
                best, lowest, which = rank[group], drop, s.claim_row[claim]
        klass[i], kept[i], owner[i] = best, 1.0 - least, which


@compiled
def _queue(s: Streams, first: int, last: int, klass: Ints, kept: Floats, delay: Floats, delivered: Floats) -> None:
    """One link: see `queues._priority` for the formulas."""
    load, second, own = np.zeros(MOST_PRIORITIES), np.zeros(MOST_PRIORITIES), np.zeros(MOST_PRIORITIES)
    ahead, behind = np.empty(last - first), np.empty(last - first)
    _own_batches(s, first, last, klass, kept, ahead, behind)
    for i in range(first, last):
        rate = s.rate_hz[i] * kept[i]
        load[klass[i]] += rate * s.service_s[i]
        second[klass[i]] += rate * s.second_s2[i]
    if len(s.late_s):
        ahead += max(0.0, 1.0 - load.sum()) * behind
    for i in range(first, last):
        own[klass[i]] += s.rate_hz[i] * kept[i] * s.second_s2[i] * ahead[i - first]
    residual, above = 0.0, 0.0
    served, before, wait = np.ones(MOST_PRIORITIES), np.empty(MOST_PRIORITIES), np.empty(MOST_PRIORITIES)
    for k in range(MOST_PRIORITIES):
        spare = max(0.0, 1.0 - above)
        if load[k] > spare:
            served[k] = spare / load[k]
        before[k] = above
        residual += second[k] / 2 * served[k]
        above += load[k]
    found = residual
    for k in range(MOST_PRIORITIES):
        spare = 1.0 - before[k] - load[k]
        found = found + (load[k] * found + own[k]) / spare if spare > LEAST_SPARE else np.nan
        wait[k] = found
    for i in range(first, last):
        k, work = klass[i], ahead[i - first] * s.service_s[i]
        delivered[i] = s.rate_hz[i] * kept[i] * served[k] * s.gain[i]
        delay[i] = np.nan
        if before[k] < 1.0:
            delay[i] = s.before_s[i] + (wait[k] + work) / (1.0 - before[k]) + s.service_s[i]
        if len(s.late_s):
            delay[i] -= _smaller_of(s.late_s[i], max(0.0, work))


@compiled
def _own_batches(s: Streams, first: int, last: int, klass: Ints, kept: Floats, ahead: Floats, behind: Floats) -> None:
    """Copies of its batch that each stream's copy finds before it, and what late starts change of that (`fan_out`)."""
    by_class = np.empty(MOST_PRIORITIES)
    start = first
    while start < last:
        by_class[:] = 0.0
        end = start
        while end < last and s.topic[end] == s.topic[start]:
            by_class[klass[end]] += kept[end]
            end += 1
        total = by_class.sum()
        for i in range(start, end):
            higher = by_class[: klass[i]].sum()
            same = max(0.0, by_class[klass[i]] - kept[i])
            lower = max(0.0, total - higher - by_class[klass[i]])
            ahead[i - first] = higher + same / 2
            behind[i - first] = (lower - higher) / (1.0 + higher + same + lower)
        start = end


@compiled
def _smaller_of(one_s: float, other_s: float) -> float:
    both = np.hypot(one_s, other_s)
    return one_s * other_s / both if both > 0 else 0.0


@compiled
def _delay(rows: Ints, late: Floats, carried: Floats, together: bool) -> float:
    if together:
        weight = carried[rows].sum()
        return late[rows].sum() / weight if weight > 0 else 0.0
    worst = 0.0
    for row in rows:
        if carried[row] > 0:
            delay = late[row] / carried[row]
            if np.isnan(delay):
                return np.nan
            worst = max(worst, delay)
    return worst


@compiled
def _loss(rows: Ints, got: Floats, due: Floats, together: bool) -> float:
    if together:
        wanted = due[rows].sum()
        return max(0.0, 1.0 - got[rows].sum() / wanted) if wanted > 0 else 0.0
    worst = 0.0
    for row in rows:
        if due[row] > 0:
            worst = max(worst, 1.0 - got[row] / due[row])
    return worst
