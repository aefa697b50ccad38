"""How little any plan can cost whose drop rates lie between given ones: a lower bound over all orders at once.

Implements: planemqx, section IV-A, whose planner searches orders and drop rates; the bound is ours.
Differs:    what a category is delivered depends on the *set* of categories above it, not on their order, and falls
            with every drop rate. So its cost below each set, with everything dropped at its most, is at most
            its cost in any plan of the box, and a walk through the sets (Held and Karp) has the best order.
Symbols:    F(T) -> (residual + pairs) / (1 - load) of set T; a set is a number, bit c for category c.
Checked by: tests/plan/test_bound.py

Why the order above does not matter. In `queues._priority`, V_k (1 - sigma_k) = rho_k F_{k-1} + own_k with
F_k = R + V_0 + ... + V_k gives F_k (1 - sigma_k) = F_{k-1} (1 - sigma_{k-1}) + own_k, hence
F_k = (R + own_0 + ... + own_k) / (1 - sigma_k). The sum of own work counts every pair of copies of one batch once,
whoever is first, so it is one of the set too. A copy waits (F_k + B)/(1 - sigma_{k-1}) with B the work of its batch
above it: again of the set.

Why more drops are never later. R, the pairs, sigma and B are sums of shares kept, with no minus sign. Where a link
may be saturated, what it serves of the classes below makes up R; then only so much of it counts as must be there: the
work of the set itself, and for the rest of the time the stream with the least residual time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.compiled import compiled
from firelane.plan.cost import MILLION, MOST_LATE, MOST_TERM
from firelane.plan.requirements import ROUNDING, Requirements
from firelane.predict.many import Streams
from firelane.scenario.model import LEAST_SPARE

HAIR = 1e-4  # millionths: no rounding error lifts the bound over the cost it bounds


class Bounds(NamedTuple):
    """The requirements as arrays, in the order of their categories."""

    first: Ints  # where those of each category begin, and the end
    category: Ints
    is_loss: Flags
    together: Flags
    bound: Floats
    weight: Floats
    start: Ints
    rows: Ints


class Box(NamedTuple):
    """The drop rates of categories, from the least to the most."""

    least: Floats
    most: Floats


def bounds_of(wanted: Requirements) -> Bounds:
    """The requirements for `lower_bound`."""
    bounds = sorted(wanted.bounds, key=lambda one: one.category)
    asked = replace(wanted, bounds=tuple(bounds)).targets
    category = np.array([one.category for one in bounds], np.int64)
    return Bounds(
        first=np.searchsorted(category, np.arange(len(wanted.categories) + 1)),
        category=category,
        is_loss=asked.is_loss,
        together=asked.together,
        bound=np.array([one.bound for one in bounds], np.float64),
        weight=np.array([one.weight for one in bounds], np.float64),
        start=asked.start,
        rows=asked.rows,
    )


def is_exact(streams: Streams) -> bool:
    """Does the bound hold for these streams, whatever the plan?

    Not if filters of one subscriber in different categories overlap, if stages before the link draw batches apart, or
    if copies of one batch come at different rates: then sets of categories do not say everything.
    """
    claims = zip(streams.claim_start[:-1].tolist(), streams.claim_start[1:].tolist(), strict=True)
    overlap = any(len(set(streams.claim_group[first:last].tolist())) > 1 for first, last in claims)
    lane = np.repeat(np.arange(len(streams.lane_start) - 1), np.diff(streams.lane_start))
    same = (np.diff(lane) == 0) & (np.diff(streams.topic) == 0)
    alike = np.isclose(np.diff(streams.rate_hz), 0, atol=1e-12)
    return not overlap and not len(streams.late_s) and bool(np.all(alike | ~same))


def stream_groups(streams: Streams) -> Ints:
    """The set of categories that claim each stream."""
    claims = zip(streams.claim_start[:-1].tolist(), streams.claim_start[1:].tolist(), strict=True)
    sets = [set(streams.claim_group[first:last].tolist()) for first, last in claims]
    return np.array([sum(1 << group for group in one) for one in sets], np.int64)


@compiled
def best_order(violated: Ints, late: Ints) -> tuple[int, int, Ints]:
    """The least sums over all orders, violations first, and the order; rows are sets above, columns categories."""
    sets, count = violated.shape
    most = np.int64(1) << 62
    sum_violated, sum_late = np.full(sets, most), np.full(sets, most)
    last = np.zeros(sets, np.int64)
    sum_violated[0], sum_late[0] = 0, 0
    for above in range(sets):
        for one in range(count):
            both = above | (1 << one)
            if both != above:
                bad, slow = sum_violated[above] + violated[above, one], sum_late[above] + late[above, one]
                if bad < sum_violated[both] or (bad == sum_violated[both] and slow < sum_late[both]):
                    sum_violated[both], sum_late[both], last[both] = bad, slow, one
    order = np.empty(count, np.int64)
    rest = sets - 1
    for place in range(count - 1, -1, -1):
        order[place] = last[rest]
        rest ^= 1 << last[rest]
    return sum_violated[sets - 1], sum_late[sets - 1], order


@compiled
def set_costs(s: Streams, member: Ints, asked: Bounds, box: Box) -> tuple[Ints, Ints]:
    """For every set above and every category not in it: at least so many of its bounds missed, and so late."""
    count = len(box.least)
    sets = 1 << count
    value = np.zeros((len(asked.bound), sets))
    weight = np.zeros((len(asked.bound), sets))
    most_kept, least_kept = np.empty(len(s.topic)), np.empty(len(s.topic))
    for i in range(len(s.topic)):
        low, high = 1.0, 1.0
        for claim in range(s.claim_start[i], s.claim_start[i + 1]):
            low, high = min(low, box.least[s.claim_group[claim]]), min(high, box.most[s.claim_group[claim]])
        most_kept[i], least_kept[i] = 1.0 - low, 1.0 - high
    for lane in range(len(s.lane_start) - 1):
        if s.lane_start[lane] < s.lane_start[lane + 1]:
            _lane(
                s, s.lane_start[lane], s.lane_start[lane + 1], member, asked, least_kept, most_kept, sets, value, weight
            )
    violated, late = np.zeros((sets, count), np.int64), np.zeros((sets, count), np.int64)
    for one in range(len(asked.bound)):
        for above in range(sets):
            found = value[one, above]
            if asked.together[one] and weight[one, above] > 0:
                found = found / weight[one, above]
            if asked.is_loss[one] and asked.together[one]:
                found = max(0.0, 1.0 - found) if weight[one, above] > 0 else 0.0
            category = asked.category[one]
            if not found <= asked.bound[one] * (1 + 2 * ROUNDING) + 1e-15:
                violated[above, category] += 1
            if not asked.is_loss[one]:
                late[above, category] += _late(found, asked.bound[one], asked.weight[one])
    return violated, late


@compiled
def _late(delay: float, bound: float, weight: float) -> int:
    times = MOST_LATE
    if bound > 0 and delay < MOST_LATE * bound:
        times = delay / bound
    return int(max(0.0, np.rint(min(weight * times * MILLION, MOST_TERM) - HAIR)))


@compiled
def _lane(
    s: Streams,
    first: int,
    last: int,
    member: Ints,
    asked: Bounds,
    kept: Floats,  # of each stream at the least
    most_kept: Floats,
    sets: int,
    value: Floats,
    weight: Floats,
) -> None:
    """Add what one link means for every bound below every set."""
    batch, batches = np.zeros(last - first, np.int64), 0
    most_load, least_residual = 0.0, np.inf
    for i in range(first, last):
        if i > first and s.topic[i] != s.topic[i - 1]:
            batches += 1
        batch[i - first] = batches
        most_load += s.rate_hz[i] * most_kept[i] * s.service_s[i]
        if s.rate_hz[i] > 0 and s.service_s[i] > 0:
            least_residual = min(least_residual, s.second_s2[i] / 2 / s.service_s[i])
    load, residual, pairs = np.zeros(sets), np.zeros(sets), np.zeros(sets)
    copies = np.zeros((sets, batches + 1))
    for one in range(1, sets):
        for i in range(first, last):
            if member[i] & one:
                rate = s.rate_hz[i] * kept[i]
                load[one] += rate * s.service_s[i]
                residual[one] += rate * s.second_s2[i] / 2
                pairs[one] += rate * s.second_s2[i] * copies[one, batch[i - first]]
                copies[one, batch[i - first]] += kept[i]
    settles = most_load < 1.0 - LEAST_SPARE
    certain = min(1.0, load[sets - 1])  # work a second that is done for sure
    late, carried = np.zeros(s.rows), np.zeros(s.rows)
    got, due = np.zeros(s.rows), np.zeros(s.rows)
    own = np.empty(last - first, np.int64)
    category = 0
    while (1 << category) < sets:
        mine, claimed = 1 << category, 0
        for i in range(first, last):
            if member[i] & mine:
                own[claimed] = i
                claimed += 1
        for above in range(sets):
            if above & mine or not claimed:
                continue
            both = above | mine
            found = residual[sets - 1]
            if not settles:
                found = residual[both] + max(0.0, certain - load[both]) * least_residual
            spare, spare_above = 1.0 - load[both], 1.0 - load[above]
            found = (found + pairs[both]) / spare if spare > LEAST_SPARE else np.nan
            own_load = 0.0
            for i in own[:claimed]:
                if not member[i] & above:
                    own_load += s.rate_hz[i] * most_kept[i] * s.service_s[i]
            served = min(1.0, max(0.0, spare_above) / own_load) if own_load > 0 else 1.0
            for i in own[:claimed]:
                sent = s.rate_hz[i] * most_kept[i] * s.gain[i]
                if member[i] & above:
                    _claimed(s, i, category, sent, got, due)
                    continue
                _claimed(s, i, category, sent * served, got, due)
                in_above, in_both = copies[above, batch[i - first]], copies[both, batch[i - first]]
                ahead = (in_above + max(0.0, in_both - in_above - kept[i]) / 2) * s.service_s[i]
                delay = s.before_s[i] + (found + ahead) / spare_above + s.service_s[i] if spare_above > 0 else np.nan
                if len(s.late_s):
                    delay -= min(s.late_s[i], ahead)
                if s.rate_hz[i] > 0 and kept[i] > 0:
                    rate = max(s.rate_hz[i] * kept[i] * s.gain[i], 1e-300)
                    row = _first_claim(s, i, category)
                    late[row] += delay * rate
                    carried[row] += rate
            _gather(asked, category, above, late, carried, got, due, value, weight)
            for i in own[:claimed]:
                for claim in range(s.claim_start[i], s.claim_start[i + 1]):
                    row = s.claim_row[claim]
                    late[row], carried[row], got[row], due[row] = 0.0, 0.0, 0.0, 0.0
        category += 1


@compiled
def _first_claim(s: Streams, i: int, category: int) -> int:
    for claim in range(s.claim_start[i], s.claim_start[i + 1]):
        if s.claim_group[claim] == category:
            return s.claim_row[claim]  # type: ignore[no-any-return]
    return -1


@compiled
def _claimed(s: Streams, i: int, category: int, delivered: float, got: Floats, due: Floats) -> None:
    for claim in range(s.claim_start[i], s.claim_start[i + 1]):
        if s.claim_group[claim] == category:
            got[s.claim_row[claim]] += delivered
            due[s.claim_row[claim]] += s.published_hz[i]


@compiled
def _gather(
    asked: Bounds,
    category: int,
    above: int,
    late: Floats,
    carried: Floats,
    got: Floats,
    due: Floats,
    value: Floats,
    weight: Floats,
) -> None:
    """From subscriptions to the bounds of their category."""
    for one in range(asked.first[category], asked.first[category + 1]):
        for row in asked.rows[asked.start[one] : asked.start[one + 1]]:
            if asked.together[one]:
                value[one, above] += got[row] if asked.is_loss[one] else late[row]
                weight[one, above] += due[row] if asked.is_loss[one] else carried[row]
            elif asked.is_loss[one]:
                if due[row] > 0:
                    value[one, above] = max(value[one, above], 1.0 - got[row] / due[row])
            elif carried[row] > 0:
                mean = late[row] / carried[row]
                if np.isnan(mean) or np.isnan(value[one, above]):
                    value[one, above] = np.nan
                else:
                    value[one, above] = max(value[one, above], mean)
