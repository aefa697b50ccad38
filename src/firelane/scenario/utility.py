"""What a delivered share is worth: the utility curves of subscriptions, over arrays.

Implements: firedex, section 4.1, Eq. 8 (log); linear, saturating, step and piecewise are ours.
Differs:    step is evaluated as it is, but optimised as its concave envelope.
Symbols:    U -> utility, alpha -> weight, Xi -> share.
Checked by: tests/scenario/test_utility.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from firelane.arrays import Flags, Floats, Ints
from firelane.scenario.model import Need

LOG, LINEAR, SATURATING, STEP, PIECEWISE = range(5)
_CODES = {"log": LOG, "linear": LINEAR, "saturating": SATURATING, "step": STEP, "piecewise": PIECEWISE}
DEFAULT_KNEE = {SATURATING: 0.3, STEP: 0.9}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Utilities:
    """The curves of many subscriptions: kind, weight and knee as arrays, points by position."""

    kind: npt.NDArray[np.int64]
    weight: Floats
    knee: Floats
    points: dict[int, tuple[Floats, Floats]]

    def value(self, share: Floats) -> Floats:
        """U(share) of every subscription; its most is U(1)."""
        x, a, knee = share, self.weight, self.knee
        result = a * np.log1p(x)  # Eq. 8
        for kind, curve in (
            (LINEAR, lambda: a * x),
            (SATURATING, lambda: a * np.expm1(-x / knee) / np.expm1(-1 / knee)),
            (STEP, lambda: np.where(x >= knee, a, 0.0)),
        ):
            chosen = self.kind == kind
            if chosen.any():
                result = np.where(chosen, curve(), result)
        for position, (xs, us) in self.points.items():
            result[position] = a[position] * np.interp(x[position], xs, us)
        return result

    @property
    def most(self) -> Floats:
        """U(1): everything delivered."""
        return self.value(np.ones(len(self.weight)))


def utilities(needs: Sequence[Need]) -> Utilities:
    """The utility curves of these needs, in their order."""
    kind = np.array([_CODES[need.utility] for need in needs], np.int64)
    knee = np.array(
        [need.knee if need.knee is not None else DEFAULT_KNEE.get(_CODES[need.utility], 1.0) for need in needs],
        np.float64,
    )
    points = {
        position: (np.array([x for x, _ in need.points]), np.array([u for _, u in need.points]))
        for position, need in enumerate(needs)
        if need.points is not None
    }
    weight = np.array([need.weight for need in needs], np.float64)
    return Utilities(kind=kind, weight=weight, knee=knee, points=points)


class NeedTable(tuple[Need, ...]):
    """The needs of subscriptions in their order, also as arrays, which are made once."""

    @cached_property
    def _distinct(self) -> tuple[list[Need], Ints]:
        """The needs that differ, of thousands mostly a few, and which of them each is."""
        _, first, which = np.unique(
            np.fromiter(map(id, self), np.int64, len(self)), return_index=True, return_inverse=True
        )
        return [self[n] for n in first.tolist()], which

    def _column(self, value: Callable[[Need], float], kind: type = float) -> npt.NDArray[Any]:
        needs, which = self._distinct
        return np.array([value(need) for need in needs], kind)[which]

    @cached_property
    def curves(self) -> Utilities:
        """What a delivered share is worth."""
        needs, which = self._distinct
        few = utilities(needs)
        points = (
            {row: few.points[number] for row, number in enumerate(which.tolist()) if number in few.points}
            if few.points
            else {}
        )
        return Utilities(kind=few.kind[which], weight=few.weight[which], knee=few.knee[which], points=points)

    @cached_property
    def least_share(self) -> Floats:
        """What a plan must keep."""
        return self._column(lambda need: need.least_share)

    @cached_property
    def asked_share(self) -> Floats:
        """What is to arrive, by min_share and max_loss; a tolerance asks for no share."""
        return self._column(lambda need: max(need.min_share, 1 - (1.0 if need.max_loss is None else need.max_loss)))

    @cached_property
    def tolerant(self) -> Flags:
        """Which have a tolerance."""
        return self._column(lambda need: need.tolerance is not None, bool)

    @cached_property
    def tolerance(self) -> Floats:
        """The tolerances; NaN without one."""
        return self._column(lambda need: np.nan if need.tolerance is None else need.tolerance)

    @cached_property
    def max_delay_s(self) -> Floats:
        """The bound on the mean delay; infinite without one."""
        return self._column(lambda need: np.inf if need.max_delay_s is None else need.max_delay_s)

    def within(self, category: str) -> Flags:
        """Which are of a category."""
        return self._column(lambda need: need.category == category, bool)

    @cached_property
    def latest(self) -> Flags:
        """Which keep only the latest message of a topic."""
        return self._column(lambda need: need.keep == "latest", bool)
