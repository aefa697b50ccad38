"""A scenario at one point of a sweep, predicted and simulated: rows per category.

Subscriptions with a tolerance are never dropped on purpose, whatever the drop level of their category.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints, sum_by
from firelane.metrics import Metrics
from firelane.pipeline.sweep.grid import Point, categories_of, scenario_at
from firelane.predict import predict
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan, make_plan
from firelane.scenario.routes import routes
from firelane.simulate.replication import replicate
from firelane.simulate.run import Result
from firelane.simulate.system import build


class Trial:
    """A scenario at one point of a grid, ready to be predicted and simulated."""

    def __init__(self, scenario: Scenario, point: Point) -> None:
        self.point = point
        self._network = routes(scenario_at(scenario, point))
        self._scenario_hash = scenario.digest()
        self._categories = categories_of(self._network)
        self._names = sorted(point.order)
        self._place = np.array([self._names.index(one) for one in self._categories], np.int64)

    @cached_property
    def plan(self) -> Plan:
        """Classes and drop rates by category."""
        drops = dict(self.point.drops)
        rates = [
            0.0 if need.tolerance is not None else drops[category]
            for need, category in zip(self._network.needs, self._categories, strict=True)
        ]
        return make_plan(
            self._network,
            subscription_flow=np.arange(len(rates)),
            flow_priority=np.array([self.point.order.index(one) for one in self._categories], np.int64),
            flow_drop_rate=np.array(rates, np.float64),
            made_by="sweep",
        )

    @cached_property
    def plan_hash(self) -> str:
        """A short fingerprint of who gets which class and drop rate."""
        plan = self.plan
        decided = [plan.subscriber, plan.filter, plan.flow_priority.tolist(), plan.flow_drop_rate.tolist()]
        return hashlib.sha256(json.dumps(decided).encode()).hexdigest()[:16]

    def predicted(self) -> list[dict[str, Any]]:
        """A row per category, in closed form."""
        return self._rows(predict(self._network, self.plan), None, None)

    def simulated(self, seed: int, publications: int) -> list[dict[str, Any]]:
        """A row per category, as `firelane simulate --replications 1` with this seed has it."""
        system = build(self._network, self.plan, independent=False)
        (chance,) = np.random.SeedSequence(seed).spawn(1)
        outcome = replicate(system, publications=publications, seed=chance, progress=lambda _: None)
        counts = outcome.tally.histogram
        metrics = Result(self._network, system, [outcome], counts).metrics(self.plan, seed)
        by_row = self._place if system.per_subscription else self._class_places(len(counts))
        histograms = np.zeros((len(self._names) + 1, counts.shape[1]), np.int64)
        np.add.at(histograms, by_row, counts)
        return self._rows(metrics, seed, histograms)

    def _class_places(self, classes: int) -> Ints:
        """Whose category each class is; beyond the last of them nothing is counted."""
        places = np.full(classes, len(self._names), np.int64)
        places[: len(self.point.order)] = [self._names.index(one) for one in self.point.order]
        return places

    def _rows(self, metrics: Metrics, seed: int | None, histograms: Ints | None) -> list[dict[str, Any]]:
        window_s = metrics.column("window_s")[0]
        offered, delivered = self._sums(metrics.column("offered_hz")), self._sums(metrics.column("delivered_hz"))
        carried = metrics.column("delivered_hz")
        delay_s = self._sums(np.where(carried > 0, metrics.column("delay_mean_s"), 0.0) * carried)
        rows = []
        for place, category in enumerate(self._names):
            known = delivered[place] > 0 and np.isfinite(delay_s[place])
            rows.append(
                {
                    "scenario_hash": self._scenario_hash,
                    "plan_hash": self.plan_hash,
                    **self.point.columns(),
                    "seed": seed,
                    "source": metrics.source,
                    "category": category,
                    "n": None if seed is None else round(offered[place] * window_s),
                    "delay_mean_s": float(delay_s[place] / delivered[place]) if known else None,
                    "delay_histogram": histograms[place] if known and histograms is not None else None,
                    "loss": _loss(float(offered[place]), float(delivered[place])),
                }
            )
        return rows

    def _sums(self, values: Floats) -> Floats:
        return sum_by(self._place, values, len(self._names))


def _loss(offered: float, delivered: float) -> float | None:
    """The share that is not delivered; what waited when counting began may make more of it than came."""
    return max(0.0, 1.0 - delivered / offered) if offered > 0 else None
