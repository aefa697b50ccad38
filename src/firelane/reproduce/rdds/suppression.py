"""How much of a fire need not be sent, without a network: as many traces as there are, at each precision.

Implements: rdds, section IV-D1 (what is filtered out at delta 0.5).
Differs:    the paper's traces are not published; so the precision is searched for, too, at which caching filters out
            what it does in the paper, and models are compared there.
Symbols:    delta -> delta.
Checked by: tests/reproduce/test_rdds.py
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from firelane.reproduce.rdds.fires import Fires
from firelane.reproduce.rdds.play import CACHING, KALMAN
from firelane.sense import Trace, replay
from firelane.sense.bank import AUTO

DELTAS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 2.0)
MODELS = (CACHING, KALMAN, AUTO)
PAPER_DELTA = 0.5
PAPER = {CACHING: 0.44, KALMAN: 0.84}
Results = dict[str, Any]


def as_trace(fires: Fires) -> Trace:
    """The same, to replay."""
    rows, columns = fires.values.shape
    names = tuple(str(number) for number in range(columns))
    return Trace(names=names, times_s=fires.step_s * np.arange(rows, dtype=np.float64), values=fires.values)


def suppressed(fires: Fires, deltas: Sequence[float] = DELTAS) -> list[Results]:
    """For each precision, the share that need not be sent with each model, and the error with `auto`."""
    trace = as_trace(fires)
    points = []
    for delta in deltas:
        found = {model: replay(trace, delta=delta, model=model).to_data() for model in MODELS}
        points.append(
            {"delta": delta, "max_error": found[AUTO]["max_error"], "rmse": found[AUTO]["rmse"]}
            | {model: one["suppressed"] for model, one in found.items()}
        )
    return points


def delta_for(points: Sequence[Results], times: float, widest: float) -> tuple[float, float]:
    """The precision at which `auto` sends so many times what it sends at the widest, and which share that is."""
    deltas = np.log([point["delta"] for point in points])
    shares = 1.0 - np.array([point[AUTO] for point in points])
    wanted = min(times * float(np.interp(np.log(widest), deltas, shares)), float(shares.max()))
    return float(np.exp(np.interp(wanted, shares[::-1], deltas[::-1]))), wanted


def where_caching_is(points: Sequence[Results], share: float = PAPER[CACHING]) -> Results | None:
    """The precision at which caching suppresses that share, and what others do there, between two that are known."""
    for one, other in pairwise(points):
        low, high = one[CACHING], other[CACHING]
        if low <= share <= high and high > low:
            part = (share - low) / (high - low)
            return {name: one[name] + part * (other[name] - one[name]) for name in ("delta", *MODELS)}
    return None
