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
work of the set itself, and for the rest of the time the categories whose work has the least residual time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.compiled import compiled
from firelane.plan.requirements import Requirements
from firelane.predict.many import Streams


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
    """The requirements for `set_costs`."""
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
