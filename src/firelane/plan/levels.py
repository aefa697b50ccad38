"""By how much categories may be dropped: first a coarse grid, then finer around the best plan on it.

A category with a bound on loss is dropped up to it, one without as far as links need it to be within their headroom.
Only if that cannot meet every bound, more is tried. Nothing is dropped entirely: what gets nothing is never late.
"""

from __future__ import annotations

import math

import numpy as np

from firelane.plan.problem import Found
from firelane.plan.requirements import Requirements
from firelane.predict.many import Streams

MOST_DROP = 0.9
FINEST = 0.002  # between two levels

Levels = tuple[tuple[float, ...], ...]


def coarse(wanted: Requirements, streams: Streams, *, wide: bool) -> Levels:
    """None, and all that a category can bear; if `wide`, also more than that."""
    needed = _needed(wanted, streams)
    levels = []
    for most, never in zip(wanted.most_drop.tolist(), wanted.intolerant.tolist(), strict=True):
        limit = min(MOST_DROP, needed if np.isnan(most) else most)
        levels.append((0.0,) if never else _rising(0.0, limit, *([MOST_DROP] if wide else [])))
    return tuple(levels)


def around(levels: Levels, found: Found) -> Levels:
    """For each category the level it has and those halfway to its neighbours, if that is not too fine."""
    finer = []
    for rates, chosen in zip(levels, found.drop_rate.tolist(), strict=True):
        place = min(range(len(rates)), key=lambda one: abs(rates[one] - chosen))
        beside = [rates[one] for one in (place - 1, place + 1) if 0 <= one < len(rates)]
        halves = [(chosen + one) / 2 for one in beside if abs(chosen - one) > FINEST]
        finer.append(_rising(chosen, *halves))
    return tuple(finer)


def joined(some: Levels, more: Levels) -> Levels:
    """The levels of both."""
    return tuple(_rising(*one, *other) for one, other in zip(some, more, strict=True))


def _rising(*rates: float) -> tuple[float, ...]:
    return tuple(sorted(set(rates)))


def _needed(wanted: Requirements, streams: Streams) -> float:
    """How much of all categories without a bound on loss has to be dropped so that links keep their headroom."""
    lane = np.repeat(np.arange(len(streams.lane_start) - 1), np.diff(streams.lane_start))
    work = streams.rate_hz * streams.service_s
    allowed = 1 - wanted.routes.scenario.headroom

    def fits(level: float) -> bool:
        drop = np.where(np.isnan(wanted.most_drop), level, wanted.most_drop)[streams.claim_group]
        kept = 1 - np.minimum.reduceat(drop, streams.claim_start[:-1])
        return bool(np.all(np.bincount(lane, work * kept) <= allowed))

    if len(work) == 0 or fits(0.0):
        return 0.0
    low, high = 0.0, MOST_DROP
    if not fits(high):
        return MOST_DROP
    while high - low > FINEST / 2:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return min(MOST_DROP, math.ceil(1e3 * high) / 1e3)
