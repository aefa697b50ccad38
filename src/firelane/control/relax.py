"""Least shares that a link cannot carry, made smaller until it can.

What is never dropped by rate (QoS 1 and 2, subscriptions with a tolerance) gives way first: it is sent all the same and
only waits longer. Then the other least shares of the link are scaled by one factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from firelane.arrays import Flags, Floats
from firelane.scenario.routes import Routes
from firelane.scenario.utility import NeedTable
from firelane.tune.fit import lane_load
from firelane.tune.flows import Demand, Flows, demand, group
from firelane.tune.priorities import subscription_places

HALVINGS = 50
MARGIN = 1e-9  # below what is allowed, so that no rounding exceeds it
MOST_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """Routes whose least shares fit; `links` are those where they did not, `why` says so in a line or two each."""

    routes: Routes
    links: tuple[str, ...]
    why: tuple[str, ...]


def relaxed(routes: Routes, waiting: Flags) -> Relaxed:
    """Lower the least shares until every link can carry them; `waiting`: subscriptions that give way first."""
    wanted = demand(routes)
    flows = group(routes, wanted, subscription_places(routes, wanted, "delay-adjusted", 0))
    allowed = (1.0 - routes.scenario.headroom) * (1.0 - MARGIN)
    lane = routes.subscription_lane

    def waits(factor: Floats) -> Floats:
        return wanted.least_share * np.where(waiting, factor[lane], 1.0)

    patience = _largest(lambda factor: _load(routes, wanted, flows, waits(factor)) <= allowed, len(routes.lanes))
    needed = _load(routes, wanted, flows, waits(patience))
    scale = np.minimum(1.0, allowed / np.maximum(needed, allowed))
    least = waits(patience) * scale[lane]
    lowered = np.flatnonzero(least < wanted.least_share)
    needs = list(routes.needs)
    for row in lowered.tolist():
        share = float(least[row] * wanted.reach[row])
        needs[row] = replace(needs[row], min_share=share, max_loss=None, tolerance=None)
    over = np.flatnonzero((patience < 1) | (scale < 1)).tolist()
    return Relaxed(
        routes=replace(routes, needs=NeedTable(needs)),
        links=tuple(routes.lanes[one].name for one in over),
        why=_why(routes, over, patience, scale),
    )


def _load(routes: Routes, wanted: Demand, flows: Flows, least: Floats) -> Floats:
    """The load of each link when every subscription gets just this share."""
    share = np.zeros(len(flows.lane))
    np.maximum.at(share, flows.subscription_flow, least)
    return lane_load(routes, wanted, flows, share)


def _largest(fits: Callable[[Floats], Flags], lanes: int) -> Floats:
    """Per link the largest factor from 0 to 1 that fits; 0 if none does."""
    low, high = np.where(fits(np.ones(lanes)), 1.0, 0.0), np.ones(lanes)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        good = fits(middle)
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return low


def _why(routes: Routes, over: list[int], patience: Floats, scale: Floats) -> tuple[str, ...]:
    lines = []
    for one in over[:MOST_LINES]:
        name = routes.lanes[one].name
        if patience[one] < 1:
            lines.append(f"{name}: there is room for {patience[one]:.0%} of QoS 1 and 2 and of what has a tolerance; "
                         "the rest of it waits")  # fmt: skip
        if scale[one] < 1:
            lines.append(f"{name}: the other least shares do not fit either and are scaled to {scale[one]:.0%}")
    if len(over) > MOST_LINES:
        lines.append(f"least shares do not fit on {len(over) - MOST_LINES} more links")
    return tuple(lines)
