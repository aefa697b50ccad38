"""What became of every subscription, counted alike whether live or simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.metrics import DROP_REASONS
from firelane.scenario.routes import Routes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """Messages of each subscription since counting began, in the order of the routes; NaN where none has a delay."""

    routes: Routes
    delivered: Floats
    dropped: Floats
    delay_s: Floats

    @property
    def success(self) -> Floats:
        """The delivered share of what was settled either way."""
        settled = self.delivered + self.dropped
        return np.divide(self.delivered, settled, out=np.zeros(len(settled)), where=settled > 0)

    def utility(self) -> dict[str, float]:
        """Both readings of the utility rate, as in Metrics."""
        curve = self.routes.needs.curves
        value, worth = curve.value(self.success), curve.most > 0
        return {
            "rate": float(value.sum() / curve.most.sum()),
            "mean_of_ratios": float((value[worth] / curve.most[worth]).mean()),
        }

    def class_success(self, klass: Ints, classes: int) -> Floats:
        """The same share of each class, NaN without members."""
        return _ratio(klass, self.delivered, self.delivered + self.dropped, classes)

    def class_delay_s(self, klass: Ints, classes: int) -> Floats:
        """The mean delay of each class's messages, NaN where nothing is delivered."""
        return _ratio(klass, np.nan_to_num(self.delay_s) * self.delivered, self.delivered, classes)


def from_metrics(routes: Routes, document: dict[str, Any]) -> Seen:
    """What the exchange's Metrics say, as they come over REST."""
    rows = {(row["subscriber"], row["filter"]): row for row in document["subscriptions"]}
    names = [routes.subscribers[number] for number in routes.subscription_subscriber.tolist()]
    found = [rows[pair] for pair in zip(names, routes.filters, strict=True)]
    return Seen(
        routes=routes,
        delivered=np.array([round(row["delivered_hz"] * row["window_s"]) for row in found], np.float64),
        dropped=np.array([sum(row[f"dropped_{why}"] for why in DROP_REASONS) for row in found], np.float64),
        delay_s=np.array([row["delay_mean_s"] for row in found], np.float64),  # None becomes NaN
    )


def _ratio(klass: Ints, part: Floats, whole: Floats, classes: int) -> Floats:
    above, below = (np.bincount(klass, values, classes) for values in (part, whole))
    ratio: Floats = np.divide(above, below, out=np.full(classes, np.nan), where=below > 0)
    return ratio
