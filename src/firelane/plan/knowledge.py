"""What is known of plans, by prediction or by a data set: what bounds measure under them, and what categories get."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from firelane.arrays import Floats, Ints, sum_by
from firelane.metrics import Metrics
from firelane.plan.conflict import conflict, conflict_among
from firelane.plan.data import DataSet
from firelane.plan.requirements import Requirements
from firelane.predict import predict
from firelane.predict.many import ManyPlans
from firelane.scenario.plan import Plan, make_plan

Categories = dict[str, dict[str, float | None]]


class Knowledge(Protocol):
    """What is known of plans: the class and the drop rate of each category."""

    def values(self, rank: Ints, drop_rate: Floats) -> Floats | None:
        """What each bound measures, if it is known."""

    def categories(self, rank: Ints, drop_rate: Floats) -> Categories:
        """What each category gets."""

    def conflict(self) -> list[int]:
        """The places of bounds that conflict."""


class ByPrediction:
    """Everything, in closed form."""

    def __init__(self, wanted: Requirements, plans: ManyPlans) -> None:
        self._wanted, self._plans = wanted, plans

    def values(self, rank: Ints, drop_rate: Floats) -> Floats | None:
        """What each bound measures."""
        values: Floats = self._plans.values(self._wanted.targets, rank[None, :], drop_rate[None, :])[0]
        return values

    def categories(self, rank: Ints, drop_rate: Floats) -> Categories:
        """What each category gets, of a prediction of the whole plan."""
        return by_category(self._wanted, predict(self._wanted.routes, plan_of(self._wanted, rank, drop_rate)))

    def conflict(self) -> list[int]:
        """The places of bounds that no plan meets together."""
        return conflict(self._wanted, self._plans)


class ByData:
    """Only what was swept."""

    def __init__(self, data: DataSet) -> None:
        self._data = data

    def values(self, rank: Ints, drop_rate: Floats) -> Floats | None:
        """What each bound measures, if there is such a point."""
        row = self._data.row(rank, drop_rate)
        return None if row is None else self._data.values()[row]

    def categories(self, rank: Ints, drop_rate: Floats) -> Categories:
        """What each category gets at a point that is there."""
        row = self._data.row(rank, drop_rate)
        assert row is not None
        return self._data.category(row)

    def conflict(self) -> list[int]:
        """The places of bounds that no point meets together."""
        return conflict_among(self._data.wanted.violated(self._data.values()))


def plan_of(wanted: Requirements, rank: Ints, drop_rate: Floats, *, made_by: str = "plan", **told: object) -> Plan:
    """The Plan in which every category has its class and drop rate; what a subscriber gets of one is a flow."""
    owner, categories = wanted.routes.subscription_subscriber, len(wanted.categories)
    pairs, flow = np.unique(owner * categories + wanted.group, return_inverse=True)
    return make_plan(
        wanted.routes,
        subscription_flow=flow,
        flow_priority=rank[pairs % categories],
        flow_drop_rate=drop_rate[pairs % categories],
        made_by=made_by,
        **told,  # type: ignore[arg-type]
    )


def by_category(wanted: Requirements, metrics: Metrics) -> Categories:
    """Subscriptions gathered: the mean over what is delivered, and the loss of all that was due."""
    count, group = len(wanted.categories), wanted.group
    delivered, offered = metrics.column("delivered_hz"), metrics.column("offered_hz")
    delay = np.where(delivered > 0, metrics.column("delay_mean_s"), 0.0)
    carried, due = sum_by(group, delivered, count), sum_by(group, offered, count)
    total = sum_by(group, delay * delivered, count)
    return {
        name: {
            "delay_mean_s": float(total[i] / carried[i]) if carried[i] > 0 and np.isfinite(total[i]) else None,
            "loss": max(0.0, 1 - float(carried[i] / due[i])) if due[i] > 0 else None,
        }
        for i, name in enumerate(wanted.categories)
    }
