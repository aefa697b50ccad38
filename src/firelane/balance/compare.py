"""Two methods side by side: what each setting of one costs, and the cheapest setting of the other that is as good."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from firelane.balance.cases import Case
from firelane.balance.run import balance

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)  # thresholds, of what a broker carries on average
BANDS = tuple(np.geomspace(0.0006, 2.0, 18).tolist())  # the same for `bounded-moves`
MAX_MOVES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting of a method, and what came of it."""

    share: float  # the threshold, of what a broker carries on average over all steps
    excess: float  # on average, as such a share
    switches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """A setting of a rival, and ours with the fewest switches at an excess that is no higher."""

    rival: Point
    ours: Point | None  # None: no setting of ours was as good

    @property
    def ratio(self) -> float:
        """How many times fewer switches ours has; NaN if there are none to save, 0 if ours cannot compete."""
        if self.ours is None:
            return 0.0
        if self.rival.switches == 0:
            return float("nan") if self.ours.switches == 0 else 0.0
        return self.rival.switches / max(1, self.ours.switches)


def curve(case: Case, method: str, shares: Iterable[float], *, max_moves: int | None = None) -> list[Point]:
    """What a method comes to with each threshold."""
    typical = float(case.loads.load.sum(axis=1).mean()) / case.brokers
    points = []
    for share in shares:
        result = balance(
            case.loads, brokers=case.brokers, method=method, threshold=share * typical, max_moves=max_moves
        )
        excess = float(result.score.excess.mean()) / typical
        points.append(Point(share=share, excess=excess, switches=int(result.score.switches.sum())))
    return points


def duels(rivals: Iterable[Point], ours: Iterable[Point]) -> list[Duel]:
    """Every setting of the rival against the best of ours."""
    mine = list(ours)
    found = []
    for rival in rivals:
        as_good = [one for one in mine if one.excess <= rival.excess * (1 + 1e-12)]
        found.append(Duel(rival=rival, ours=min(as_good, key=lambda one: one.switches, default=None)))
    return found
