"""One move after which the topics that are new, placed around it, settle all brokers, where there is one."""

from __future__ import annotations

from firelane.arrays import Flags, Floats, Ints
from firelane.balance.greedy import NOWHERE, place_new_beside
from firelane.compiled import compiled


@compiled
def settle_around_new(
    load: Floats,
    falling: Ints,
    free: Flags,
    place: Ints,
    broker_load: Floats,
    standing: Floats,
    most_difference: float,
) -> bool:
    """Make that move, if there is one, and place the `free` topics anew; was there one?

    `place` and `broker_load` are changed only then.
    """
    new = falling[free[falling]]
    without = broker_load.copy()
    for i in new:
        without[place[i]] -= load[i]
    limit = broker_load.mean() + most_difference  # the emptiest broker has no more than the mean
    for i in range(len(load)):
        if place[i] == NOWHERE or free[i]:
            continue
        source = place[i]
        for target in range(len(broker_load)):
            if target == source or without[target] + load[i] > limit:
                continue
            if _difference(load, new, without, source, target, load[i]) <= most_difference:
                place[i] = target
                place[new] = NOWHERE
                place_new_beside(standing, load, falling, place, broker_load)
                return True
    return False


@compiled
def _difference(load: Floats, new: Ints, without: Floats, source: int, target: int, sent: float) -> float:
    """The load difference after a move, with the new topics placed largest first."""
    carried = without.copy()
    carried[source] -= sent
    carried[target] += sent
    for i in new:
        carried[carried.argmin()] += load[i]
    return float(carried.max() - carried.min())
