"""What came of it: one row per subscription, the same whether predicted, simulated or measured live."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firelane.arrays import Floats, Ints
from firelane.errors import FirelaneError
from firelane.scenario.plan import Plan
from firelane.scenario.routes import Routes
from firelane.scenario.utility import utilities

_FLOATS = (
    "offered_hz", "delivered_hz", "success",
    "delay_mean_s", "delay_p50_s", "delay_p95_s", "delay_p99_s",
)  # fmt: skip
DROP_REASONS = ("policy", "overflow", "expired", "disconnected", "too_large", "superseded")
_COUNTS = ("bytes", *(f"dropped_{reason}" for reason in DROP_REASONS), "queued")

SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("window_start", pa.timestamp("us", tz="UTC")),
        pa.field("window_s", pa.float64()),
        pa.field("subscriber", pa.string(), nullable=False),
        pa.field("filter", pa.string(), nullable=False),
        pa.field("flow", pa.int64()),
        pa.field("priority", pa.int64(), nullable=False),
        pa.field("drop_rate", pa.float64(), nullable=False),
        pa.field("stable", pa.bool_(), nullable=False),
        *(pa.field(name, pa.float64()) for name in _FLOATS),
        pa.field("bytes", pa.int64()),
        pa.field("utility", pa.float64()),
        pa.field("utility_max", pa.float64()),
        *(pa.field(name, pa.int64()) for name in _COUNTS[1:]),
        pa.field("plan_version", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLoad:
    """How full a link is: offered work a second after drops, and whether its queue settles."""

    load: float
    stable: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metrics:
    """The table, the links' loads, and what only some sources know (`extra`, `class_extra`).

    `stages` holds the mean delay of each stage a message passes, per class.
    """

    source: str
    scenario: str
    table: pa.Table
    links: dict[str, LinkLoad]
    discounted: float
    stages: dict[str, dict[int, float]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    class_extra: dict[int, dict[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column as an array, null as NaN."""
        return np.asarray(self.table.column(name).to_numpy(zero_copy_only=False))

    def utility(self) -> dict[str, float]:
        """Achieved and most utility, and both readings of the rate (contracts, "Utility rate")."""
        achieved, most = self.column("utility"), self.column("utility_max")
        worth = most > 0
        return {
            "achieved": float(achieved.sum()),
            "maximum": float(most.sum()),
            "rate": float(achieved.sum() / most.sum()) if worth.any() else 1.0,
            "mean_of_ratios": float((achieved[worth] / most[worth]).mean()) if worth.any() else 1.0,
            "delay_discounted": self.discounted,
        }

    def classes(self, of: Metrics | None = None) -> list[dict[str, Any]]:
        """One row per priority class, delays weighted by what is delivered.

        `of` another result of the same scenario: the classes that its plan gave the subscriptions.
        """
        priority = (of or self).column("priority")
        offered, delivered = self.column("offered_hz"), self.column("delivered_hz")
        delay, stable, value = self.column("delay_mean_s"), self.column("stable"), self.column("utility")
        rows = []
        for one in np.unique(priority).tolist():
            inside = priority == one
            known = inside & np.isfinite(delay) & (delivered > 0)
            weight = delivered[known]
            rows.append(
                {
                    "priority": one,
                    "stable": bool(stable[inside].all()),
                    "offered_hz": float(offered[inside].sum()),
                    "delivered_hz": float(delivered[inside].sum()),
                    "success": _ratio(delivered[inside].sum(), offered[inside].sum()),
                    "delay_mean_s": _ratio((delay[known] * weight).sum(), weight.sum()),
                    "utility": float(value[inside].sum()),
                    **(self.class_extra.get(one, {}) if of is None else {}),
                }
            )
        return rows

    def to_data(self, *, per_subscription: bool = False) -> dict[str, Any]:
        """The document of `--json`."""
        data: dict[str, Any] = {
            "source": self.source,
            "scenario": self.scenario,
            "links": {name: {"load": one.load, "stable": one.stable} for name, one in self.links.items()},
            "classes": self.classes(),
            "utility": self.utility(),
            "stages": {stage: {str(k): v for k, v in rows.items()} for stage, rows in self.stages.items()},
            "notes": list(self.notes),
            **self.extra,
        }
        if per_subscription:
            data["subscriptions"] = self.table.drop_columns(["window_start"]).to_pylist()
        return data

    def save(self, path: str | Path) -> None:
        """Write the table as Parquet."""
        from pyarrow import parquet

        try:
            parquet.write_table(self.table, path)
        except OSError as problem:
            raise FirelaneError(f"{path}: cannot write the metrics: {problem.strerror or problem}") from None


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 else None


def make_metrics(
    routes: Routes,
    plan: Plan | None,
    *,
    source: str,
    links: dict[str, LinkLoad],
    columns: dict[str, npt.NDArray[Any]],
    window_s: float | None = None,
    stages: dict[str, dict[int, float]] | None = None,
    extra: dict[str, Any] | None = None,
    class_extra: dict[int, dict[str, Any]] | None = None,
    notes: tuple[str, ...] = (),
) -> Metrics:
    """The Metrics of these columns (one value per subscription); what is not given is null."""
    rows = len(routes.filters)
    curve = utilities(routes.needs)
    value = curve.value(np.nan_to_num(columns["success"]))
    given: dict[str, Any] = {
        "source": np.repeat(source, rows),
        "window_s": None if window_s is None else np.full(rows, window_s),
        "subscriber": pa.array([routes.subscribers[i] for i in routes.subscription_subscriber.tolist()]),
        "filter": pa.array(routes.filters, pa.string()),
        "utility": value,
        "utility_max": curve.most,
        "plan_version": None if plan is None else np.full(rows, plan.version),
        **columns,
    }
    arrays = [_arrow(given.get(one.name), one.type, rows) for one in SCHEMA]
    return Metrics(
        source=source,
        scenario=routes.scenario.name,
        table=pa.Table.from_arrays(arrays, schema=SCHEMA),
        links=links,
        discounted=float((value * _discount(routes, columns["delay_mean_s"])).sum()),
        stages=stages or {},
        extra=extra or {},
        class_extra=class_extra or {},
        notes=notes,
    )


def _discount(routes: Routes, delay_s: Floats) -> Floats:
    """How much of its value a late delivery keeps: max_delay / delay beyond max_delay, else all."""
    bound = np.array([np.inf if need.max_delay_s is None else need.max_delay_s for need in routes.needs])
    delay = np.where(np.isfinite(delay_s), delay_s, np.inf)
    late = delay > bound
    return np.where(late, bound / np.where(late, delay, 1.0), 1.0)


def _arrow(values: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(rows, kind)
    if isinstance(values, pa.Array):
        return values.cast(kind)
    if pa.types.is_floating(kind):
        return pa.array(np.asarray(values, np.float64), kind, mask=~np.isfinite(values))
    if pa.types.is_integer(kind):
        whole = np.asarray(values)
        return pa.array(whole.astype(np.int64), kind, mask=whole < 0)
    return pa.array(values, kind)


def link_loads(routes: Routes, load: Floats) -> dict[str, LinkLoad]:
    """How full each link is, from the load per lane and class."""
    total = load.sum(axis=1).tolist()
    return {lane.name: LinkLoad(load=one, stable=one < 1) for lane, one in zip(routes.lanes, total, strict=True)}


def delays_compared(weights: Floats, compared: list[Metrics]) -> list[dict[str, float]]:
    """Value- and message-weighted mean delay of each Metrics, over what all of them deliver."""
    delays = [one.column("delay_mean_s") for one in compared]
    rates = [one.column("delivered_hz") for one in compared]
    shared = np.all([np.isfinite(d) & (r > 0) for d, r in zip(delays, rates, strict=True)], axis=0)
    return [
        {
            "value_weighted_s": float(np.average(delay[shared], weights=weights[shared])),
            "message_weighted_s": float(np.average(delay[shared], weights=rate[shared])),
        }
        for delay, rate in zip(delays, rates, strict=True)
    ]


def class_mean(values: Floats, weight: Floats, priority: Ints) -> dict[int, float]:
    """Weighted mean of a value per class, over streams that weigh anything."""
    total = np.bincount(priority, weight)
    summed = np.bincount(priority, np.where(weight > 0, values * weight, 0.0))
    return {int(k): float(summed[k] / total[k]) for k in np.flatnonzero(total > 0)}
