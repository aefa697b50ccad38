"""What would be enough, if not all requirements can be met: the plan that misses as few bounds, but by less.

Once a category misses its bound on loss anyway, the cost has it dropped as far as that makes others faster. Nearer to
what was required is to drop only as much of it as the other bounds need. With what it misses granted, it is feasible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from firelane.arrays import Floats
from firelane.plan.knowledge import Knowledge
from firelane.plan.problem import Found
from firelane.plan.requirements import Requirement, Requirements

STEP = 0.005


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nearest:
    """The drop rates, in the order of the best plan, and the bounds that would have to be granted."""

    drop_rate: Floats
    granted: list[tuple[Requirement, float]]  # with what is reached


def nearest(wanted: Requirements, known: Knowledge, found: Found, levels: list[list[float]] | None) -> Nearest | None:
    """None if every bound is met; only these levels are tried, if there are any."""
    if not found.cost.violated:
        return None
    drop_rate = found.drop_rate.copy()
    for one in np.flatnonzero(drop_rate > wanted.most_drop + 1e-12).tolist():
        limit, most = float(wanted.most_drop[one]), float(drop_rate[one])
        rates = np.arange(limit, most, STEP).tolist() if levels is None else sorted(levels[one])
        for rate in (rate for rate in rates if limit < rate < most):
            drop_rate[one] = rate
            values = known.values(found.rank, drop_rate)
            if values is not None and wanted.violated(values[None, :]).sum() <= found.cost.violated:
                break
        else:
            drop_rate[one] = most
    return Nearest(drop_rate=drop_rate, granted=missed(wanted, known, replace(found, drop_rate=drop_rate)))


def missed(wanted: Requirements, known: Knowledge, found: Found) -> list[tuple[Requirement, float]]:
    """The bounds that a plan misses, with what is reached instead."""
    values = known.values(found.rank, found.drop_rate)
    assert values is not None
    which = np.flatnonzero(wanted.violated(values[None, :])[0])
    return [(wanted.bounds[one], float(values[one])) for one in which.tolist()]
