"""Which requirements conflict: a set that no plan meets, of which none can be left out without one that does.

The more is dropped, the less late everything is, so it is enough to look at plans that drop of every category as much
as the bounds of the set let it: one vector of drop rates, all orders at once. Only where a category is on several links
this may be too much: one that is full loses more than the others, so less is tried too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from firelane.arrays import Flags, Floats
from firelane.plan.bound import Box, best_order, bounds_of, stream_groups
from firelane.plan.levels import MOST_DROP
from firelane.plan.requirements import Requirements
from firelane.plan.sets import set_costs
from firelane.predict.many import ManyPlans

PARTS = (1.0, 0.5, 0.0)  # of what a category bears
MOST_LOWERED = 3  # each by itself, of FEW_CATEGORIES at most; more are lowered together, as it would take too long
FEW_CATEGORIES = 7


def conflict(wanted: Requirements, plans: ManyPlans) -> list[int]:
    """The places of conflicting requirements by prediction; none, if a plan meets them all."""
    member = stream_groups(plans.streams)
    spread = _on_several_links(wanted)

    def met(chosen: list[int]) -> bool:
        some = wanted.only(chosen)
        return any(fits(some, rates) for rates in _drop_rates(some, spread))

    def fits(some: Requirements, rates: Floats) -> bool:
        violated, late = set_costs(plans.streams, member, bounds_of(some), Box(least=rates, most=rates))
        missed, _, order = best_order(violated, late)
        values = plans.values(some.targets, np.argsort(order)[None, :], rates[None, :])
        return missed == 0 and not some.violated(values).any()

    return _irreducible(len(wanted.bounds), met)


def _drop_rates(some: Requirements, spread: Flags) -> Iterator[Floats]:
    """All that the bounds let every category be dropped; then less of those that are on several links."""
    most = np.minimum(np.nan_to_num(some.most_drop, nan=MOST_DROP), MOST_DROP)
    less = np.flatnonzero(spread & (some.most_drop > 0))
    alone = not len(less) or (len(less) <= MOST_LOWERED and len(most) <= FEW_CATEGORIES)
    together = [(part,) * len(less) for part in PARTS]
    for parts in product(PARTS, repeat=len(less)) if alone else together:
        rates = most.copy()
        rates[less] *= parts
        yield rates


def _on_several_links(wanted: Requirements) -> Flags:
    links = [np.unique(wanted.routes.subscription_lane[wanted.group == one]) for one in range(len(wanted.categories))]
    return np.array([len(one) > 1 for one in links], np.bool_)


def conflict_among(violated: Flags) -> list[int]:
    """The same by what each of some plans (rows) misses."""
    return _irreducible(violated.shape[1], lambda chosen: bool(np.any(~violated[:, chosen].any(axis=1))))


def _irreducible(count: int, met: Callable[[list[int]], bool]) -> list[int]:
    """Leave out one after the other what is not needed for the conflict; the last ones first, as wishes come last."""
    chosen = list(range(count))
    if met(chosen):
        return []
    for one in reversed(range(count)):
        rest = [other for other in chosen if other != one]
        if not met(rest):
            chosen = rest
    return chosen
