"""Drop rates that grow with the class: none, flat, linear and exponential.

Each policy has one parameter, beta, and keeps less the larger it is; the load kept is a convex function
of it, so Newton's method from beta = 0 comes down to the allowed load without ever passing it.

Implements: firedex, section 4.3, Eq. 12-15.
Differs:    no flow is dropped below its least share, and beta is solved with that clipping in place; a link
            where no beta is enough (the top class alone is too much) gets flat drop rates.
Symbols:    Omega -> drop_rate, beta -> beta (exponential: its logarithm), Phi -> level, rho~ -> 1 - allowed.
Checked by: tests/tune/test_drop_rates.py
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from firelane.arrays import Floats, Ints
from firelane.compiled import compiled
from firelane.tune.flows import HAIR, Flows

DROP_METHODS = ("none", "flat", "linear", "exponential", "optimised")


class Ladder(NamedTuple):
    """Per flow: its load, how far down the classes it stands, and the most that may be dropped."""

    load: Floats
    level: Floats
    most_drop: Floats


def policy_drop_rates(
    method: str, flows: Flows, priority: Ints, allowed: float
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Drop rates by policy, and which links had to fall back to flat ones."""
    order, start = flows.by_lane()
    even = np.ones(len(order))
    flat = Ladder(flows.load[order], even, 1.0 - flows.least_share[order])
    ladder = flat if method == "flat" else flat._replace(level=priority[order] * even)
    dropped, solved = _solve(start, ladder, allowed, method == "exponential")
    if not solved.all():
        dropped = np.where(solved[flows.lane[order]], dropped, _solve(start, flat, allowed, False)[0])
    drop_rate = np.empty(len(order))
    drop_rate[order] = dropped
    return drop_rate, ~solved


@compiled
def _solve(start: Ints, ladder: Ladder, allowed: float, exponential: bool) -> Any:
    """Drop rates per flow, and per link whether some beta brings it down to the allowed load (Eq. 12)."""
    load, level, most_drop = ladder
    drop_rate = np.zeros(len(load))
    solved = np.ones(len(start) - 1, np.bool_)
    for lane in range(len(start) - 1):
        beta = 0.0
        while True:
            kept, slope = 0.0, 0.0
            for f in range(start[lane], start[lane + 1]):
                drop, rise = _policy(beta, level[f], exponential)
                if drop < most_drop[f]:
                    slope += load[f] * rise
                else:
                    drop = most_drop[f]
                drop_rate[f] = drop
                kept += load[f] * (1.0 - drop)
            limit = allowed if beta == 0.0 or slope == 0.0 else allowed * (1.0 - 0.5 * HAIR)
            if kept <= limit:
                break
            before = beta
            if slope > 0.0:
                beta += (kept - allowed * (1.0 - HAIR)) / slope
            if beta == before or not math.isfinite(beta):
                solved[lane] = False
                break
    return drop_rate, solved


@compiled
def _policy(beta: float, level: float, exponential: bool) -> tuple[float, float]:
    """Omega and its slope in beta (Eq. 13 and 14; Eq. 15 with the logarithm of its beta)."""
    if exponential:
        kept = math.exp(-beta * level)
        return 1.0 - kept, level * kept
    return beta * level, level
