"""What came of it: one row per subscription, the same whether predicted, simulated or measured live."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firelane.arrays import Floats, Ints, sum_by
from firelane.errors import FirelaneError
from firelane.scenario.model import LEAST_SPARE
from firelane.scenario.plan import Plan
from firelane.scenario.routes import Routes
from firelane.scenario.save import write_whole

_FLOATS = (
    "offered_hz", "delivered_hz", "success",
    "delay_mean_s", "delay_p50_s", "delay_p95_s", "delay_p99_s",
)  # fmt: skip
DROP_REASONS = ("policy", "overflow", "expired", "disconnected", "too_large", "superseded")
_COUNTS = ("bytes", *(f"dropped_{reason}" for reason in DROP_REASONS), "lost", "queued")

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
    stages: dict[str, dict[int, float | None]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    class_extra: dict[int, dict[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column as an array, null as NaN."""
        return np.asarray(self.table.column(name).to_numpy(zero_copy_only=False))

    def utility(self) -> dict[str, float]:
        """Achieved and most utility, and both readings of the rate (docs/reference/plan-and-metrics.md)."""
        achieved, most = self.column("utility"), self.column("utility_max")
        worth = most > 0
        return {
            "achieved": float(achieved.sum()),
            "maximum": float(most.sum()),
            "rate": float(achieved.sum() / most.sum()) if worth.any() else 1.0,
            "mean_of_ratios": float((achieved[worth] / most[worth]).mean()) if worth.any() else 1.0,
            "delay_discounted": self.discounted,
        }

    def classes(self) -> list[dict[str, Any]]:
        """One row per priority class, delays weighted by what is delivered."""
        priority = self.column("priority")
        offered, delivered = self.column("offered_hz"), self.column("delivered_hz")
        success, delay = self.column("success"), self.column("delay_mean_s")
        stable, value = self.column("stable"), self.column("utility")
        rows = []
        for one in np.unique(priority).tolist():
            inside = priority == one
            served = inside & (delivered > 0)
            rows.append(
                {
                    "priority": one,
                    "stable": bool(stable[inside].all()),
                    "offered_hz": float(offered[inside].sum()),
                    "delivered_hz": float(delivered[inside].sum()),
                    "success": _mean(success[inside], offered[inside]),
                    "delay_mean_s": _mean(delay[served], delivered[served]),
                    "utility": float(value[inside].sum()),
                    **self.class_extra.get(one, {}),
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

        content = pa.BufferOutputStream()
        parquet.write_table(self.table, content)
        try:
            write_whole(path, content.getvalue().to_pybytes())
        except OSError as problem:
            raise FirelaneError(f"{path}: cannot write the metrics: {problem.strerror or problem}") from None


def _mean(values: Floats, weight: Floats) -> float | None:
    """The weighted mean; None without weight, or if any value is unknown."""
    total = weight.sum()
    mean = float((values * weight).sum() / total) if total > 0 else np.nan
    return mean if np.isfinite(mean) else None


def make_metrics(
    routes: Routes,
    plan: Plan | None,
    *,
    source: str,
    owner: Ints,
    links: dict[str, LinkLoad],
    columns: dict[str, npt.NDArray[Any]],
    window_s: float | None = None,
    stages: dict[str, dict[int, float | None]] | None = None,
    extra: dict[str, Any] | None = None,
    class_extra: dict[int, dict[str, Any]] | None = None,
    notes: tuple[str, ...] = (),
) -> Metrics:
    """The Metrics of these columns (one value per subscription); what is not given is null.

    `owner` is the subscription that carries each stream.
    """
    rows = len(routes.filters)
    curve = routes.needs.curves
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
    return Metrics(
        source=source,
        scenario=routes.scenario.name,
        table=metrics_table(rows, given),
        links=links,
        discounted=float((value * _discount(routes, owner, columns["delay_mean_s"])).sum()),
        stages=stages or {},
        extra=extra or {},
        class_extra=class_extra or {},
        notes=notes,
    )


def metrics_table(rows: int, columns: dict[str, Any]) -> pa.Table:
    """The table of these columns; what is not given is null."""
    arrays = [_arrow(columns.get(one.name), one.type, rows) for one in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _discount(routes: Routes, owner: Ints, delay_s: Floats) -> Floats:
    """How much of its value a late delivery keeps: max_delay / delay beyond max_delay, else all.

    The delay is that of the streams a subscription claims, whichever subscription carries them.
    """
    bound = routes.needs.max_delay_s
    rows, claimed = len(bound), routes.claim_stream
    rate = routes.published_hz[claimed]
    weighted = sum_by(routes.claim_subscription, rate * delay_s[owner[claimed]], rows)
    total = sum_by(routes.claim_subscription, rate, rows)
    mean = np.divide(weighted, total, out=np.zeros(rows), where=total > 0)
    delay = np.where(np.isfinite(mean), mean, np.inf)
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
        known = np.asarray(values) >= 0  # neither negative nor NaN
        return pa.array(np.where(known, values, 0).astype(np.int64), kind, mask=~known)
    return pa.array(values, kind)


def link_loads(routes: Routes, load: Floats) -> dict[str, LinkLoad]:
    """How full each link is, from the load per lane and class."""
    total = load.sum(axis=1).tolist()
    return {
        lane.name: LinkLoad(load=one, stable=one < 1 - LEAST_SPARE)
        for lane, one in zip(routes.lanes, total, strict=True)
    }


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


def class_mean(values: Floats, weight: Floats, priority: Ints) -> dict[int, float | None]:
    """Weighted mean of a value per class, over streams that weigh anything; None where it is unknown."""
    some = weight > 0
    return {
        int(k): _mean(values[some & (priority == k)], weight[some & (priority == k)]) for k in np.unique(priority[some])
    }
