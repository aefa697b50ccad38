"""Which requirements conflict: a set that no plan meets, of which none can be left out without one that does.

The more is dropped, the less late everything is, so it is enough to look at plans that drop of every category as much
as the bounds of the set let it: one vector of drop rates, all orders at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from firelane.arrays import Flags
from firelane.plan.bound import Box, best_order, bounds_of, stream_groups
from firelane.plan.levels import MOST_DROP
from firelane.plan.requirements import Requirements
from firelane.plan.sets import set_costs
from firelane.predict.many import ManyPlans


def conflict(wanted: Requirements, plans: ManyPlans) -> list[int]:
    """The places of conflicting requirements by prediction; none, if a plan meets them all."""
    member = stream_groups(plans.streams)

    def met(chosen: list[int]) -> bool:
        some = wanted.only(chosen)
        most = np.minimum(np.nan_to_num(some.most_drop, nan=MOST_DROP), MOST_DROP)
        violated, late = set_costs(plans.streams, member, bounds_of(some), Box(least=most, most=most))
        missed, _, order = best_order(violated, late)
        values = plans.values(some.targets, np.argsort(order)[None, :], most[None, :])
        return missed == 0 and not some.violated(values).any()

    return _irreducible(len(wanted.bounds), met)


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
