"""What a delivered share is worth: the utility curves of subscriptions, over arrays.

Implements: firedex, section 4.1, Eq. 8 (log); linear, saturating, step and piecewise are ours.
Differs:    step is evaluated as it is, but optimised as its concave envelope.
Symbols:    U -> utility, alpha -> weight, Xi -> share.
Checked by: tests/scenario/test_utility.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firelane.arrays import Floats
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
