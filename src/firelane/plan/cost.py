"""What a plan costs: first the bounds it misses, then how late everything is, then how much is dropped.

Late is the sum over bounds on delay of weight x delay/bound, dropped the sum over categories of weight x drop rate.
Both are counted in whole millionths, so that sums do not depend on their order and what is equal compares as equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.plan.requirements import Requirements

MILLION = 1_000_000
MOST_LATE = 1000.0  # bounds: what is later, or does not settle at all, is all the same
MOST_TERM = 1e15


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cost:
    """In the order in which it counts; millionths are of a bound times a weight, and of a drop rate times a weight."""

    violated: int
    late_millionths: int
    dropped_millionths: int

    @staticmethod
    def of(row: Ints) -> Cost:
        """From a row of `costs`."""
        violated, late, dropped = row.tolist()
        return Cost(violated=violated, late_millionths=late, dropped_millionths=dropped)

    def to_data(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "violated": self.violated,
            "late": self.late_millionths / MILLION,
            "dropped": self.dropped_millionths / MILLION,
        }

    def __str__(self) -> str:
        bounds = f"{self.violated} bound{'s' * (self.violated != 1)} missed"
        return f"{bounds}, late {self.late_millionths / MILLION:.4g}, dropped {self.dropped_millionths / MILLION:.4g}"


NO_BOUND = Cost(violated=0, late_millionths=0, dropped_millionths=0)


def costs(wanted: Requirements, values: Floats, drop_rate: Floats) -> Ints:
    """A row of the three parts for every plan, from what its bounds measure and what its categories are dropped."""
    result = np.empty((len(values), 3), np.int64)
    result[:, 0] = wanted.violated(values).sum(axis=1)
    result[:, 1] = late_millionths(wanted, values).sum(axis=1)
    result[:, 2] = np.rint(np.minimum(wanted.weight * drop_rate * MILLION, MOST_TERM)).astype(np.int64).sum(axis=1)
    return result


def late_millionths(wanted: Requirements, values: Floats) -> Ints:
    """The term of every bound (columns) of plans (rows); 0 for bounds on loss."""
    limits = np.maximum(wanted.limits, 1e-300)
    late = np.where(np.isnan(values), MOST_LATE, np.minimum(values / limits, MOST_LATE))
    return np.rint(np.minimum(wanted.late_weights * late * MILLION, MOST_TERM)).astype(np.int64)


def least(rows: Ints) -> int:
    """Which of these costs is the lowest; the first, if several are."""
    return int(np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))[0])
