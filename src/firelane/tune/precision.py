"""Subscriptions to sensors give way by their precision: what is not to be sent of them follows from a wider delta."""

from __future__ import annotations

import numpy as np

from firelane.arrays import Floats, optional, sum_by
from firelane.scenario.precision import widening
from firelane.scenario.routes import Routes
from firelane.tune.flows import Demand, Flows


def factors(wanted: Demand, flows: Flows, drop_rate: Floats) -> Floats:
    """By how much the tolerance of each subscription is widened so that so much of its flow need not be sent."""
    factor = widening(1.0 - drop_rate[flows.subscription_flow])
    return np.where(wanted.tolerant, np.minimum(factor, wanted.widest), 1.0)


def deltas(routes: Routes, wanted: Demand, flows: Flows, drop_rate: Floats) -> list[float | None]:
    """The precision of each subscription; None without a tolerance."""
    return optional(routes.needs.tolerance * factors(wanted, flows, drop_rate))


def without_tolerant(drop_rate: Floats, wanted: Demand, flows: Flows) -> Floats:
    """Drop rates for those who can be dropped: none, where everybody gives way by precision."""
    droppable = sum_by(flows.subscription_flow, ~wanted.tolerant, len(flows.lane)) > 0
    return np.where(droppable, drop_rate, 0.0)
