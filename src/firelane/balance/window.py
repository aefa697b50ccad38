"""Which loads brokers should have: a fair level, the difference that large topics force, and a window around both."""

from __future__ import annotations

from typing import NamedTuple

from firelane.arrays import Floats
from firelane.compiled import compiled

ROUNDING = 1e-9  # sums of equal loads may fall that far short


class Window(NamedTuple):
    """The least and the most that a broker should carry."""

    floor: float
    ceiling: float


@compiled
def outside(broker_load: float, window: Window) -> float:
    """How much a broker carries too little or too much."""
    return max(0.0, window.floor - broker_load, broker_load - window.ceiling)


@compiled
def forced(load: Floats, brokers: int) -> Window:
    """The most that the emptiest broker of any placement can have, and the least of the fullest.

    A topic above the fair level fills a broker alone, and what is left is shared by the others. So with k such topics
    and m = (total - theirs)/(N - k) no placement leaves every broker above m: counting at most m of each broker, the k
    topics bring at most k m and the rest of the topics (N - k) m.
    """
    level, left = load.sum() / brokers, brokers
    ceiling = max(level, load.max())
    while True:
        small, count = 0.0, 0  # small ones are added up: beside the large ones they might be lost in rounding
        for one in load:
            if one > level * (1 + ROUNDING):
                count += 1
            else:
                small += one
        if brokers - count == left:
            return Window(level, ceiling)
        left = brokers - count
        level = small / left


@compiled
def window(bounds: Window, broker_load: Floats, slack: float) -> Window:
    """So much slack around what is forced; on the side that is in order already, none is wasted."""
    width = bounds.ceiling - bounds.floor + slack
    floor, ceiling = bounds.floor - slack / 2, bounds.ceiling + slack / 2
    if broker_load.max() <= ceiling:
        return Window(broker_load.max() - width, broker_load.max())
    if broker_load.min() >= floor:
        return Window(broker_load.min(), broker_load.min() + width)
    return Window(floor, ceiling)
