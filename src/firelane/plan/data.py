"""What plans lead to by a data set: the points that `firelane pipeline sweep` simulated, and nothing between them.

Of the rates and bandwidths in it, those nearest to the scenario's own are used, and none beyond what was swept. A data
set knows categories, not subscriptions: a bound on a subscription is then one on its category. What is counted in a
simulation is uncertain: a loss within three standard errors of its bound meets it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.errors import FirelaneError
from firelane.histogram import BUCKETS, percentiles_s
from firelane.plan.cost import costs
from firelane.plan.problem import Table
from firelane.plan.requirements import Requirements
from firelane.scenario.model import Scenario
from firelane.simulate import simulate

TEXTS = ("scenario_hash", "order", "drops", "source", "category")
NUMBERS = ("link_bps", "rate_factor", "n", "delay_mean_s", "loss")
PUBLICATIONS = 200_000  # of the simulation of doing nothing, which no sweep has
MOST_DUE = 1e15
LOST = "firelane pipeline sweep SCENARIO -o FOLDER makes one"
FOREIGN = f"this is not a data set of a sweep; {LOST}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Which points of a data set concern a scenario: made with which, at how many times its rates, on which link.

    What was swept must reach as far as this, but for a small part (`slack`).
    """

    digest: str
    rate_factor: float = 1.0
    link_bps: float | None = None  # of the links in use that have a bandwidth, if it is one
    slack: float = 1e-9


def nominal(scenario: Scenario) -> Conditions:
    """A scenario as it is written."""
    used = dict.fromkeys(subscriber.link for subscriber in scenario.subscribers.values())
    own = {bps for name in used if (bps := scenario.link(name).bandwidth_bps) is not None}
    return Conditions(digest=scenario.digest(), link_bps=own.pop() if len(own) == 1 else None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DataSet:
    """Plans (rows) of which it is known what each category (columns) gets; the first is to do nothing."""

    wanted: Requirements
    rank: Ints
    drop_rate: Floats
    delay_mean_s: Floats
    delay_p95_s: Floats
    loss: Floats
    loss_error: Floats  # three standard errors
    notes: tuple[str, ...]

    def values(self) -> Floats:
        """What each bound measures."""
        by_kind = {
            "delay": self.delay_mean_s,
            "delay_p95": self.delay_p95_s,
            "loss": np.maximum(0.0, self.loss - self.loss_error),
        }
        columns = [by_kind[one.kind][:, one.category] for one in self.wanted.bounds]
        return np.stack(columns, axis=1) if columns else np.empty((len(self.rank), 0))

    @property
    def allowed(self) -> Flags:
        """Which of them leave categories alone that are never dropped."""
        touched = np.any(self.drop_rate[:, self.wanted.intolerant] > 0, axis=1)
        return np.asarray(~touched, np.bool_)

    def table(self) -> Table:
        """Those that are allowed, heavy categories first, and what they cost."""
        allowed = np.flatnonzero(self.allowed)
        rows = allowed[np.lexsort(self.rank[allowed].T[::-1])]
        every = costs(self.wanted, self.values(), self.drop_rate)
        return Table(rank=self.rank[rows], drop_rate=self.drop_rate[rows], costs=every[rows])

    def row(self, rank: Ints, drop_rate: Floats) -> int | None:
        """Where a plan is, if it is there."""
        same = (self.rank == rank).all(axis=1) & (self.drop_rate == drop_rate).all(axis=1)
        return int(np.argmax(same)) if same.any() else None

    def category(self, row: int) -> dict[str, dict[str, float | None]]:
        """What each category gets in a row."""
        return {
            name: {
                "delay_mean_s": _known(self.delay_mean_s[row, i]),
                "delay_p95_s": _known(self.delay_p95_s[row, i]),
                "loss": _known(self.loss[row, i]),
            }
            for i, name in enumerate(self.wanted.categories)
        }


def read_data(path: str | Path, wanted: Requirements, conditions: Conditions | None = None) -> DataSet:
    """The points of a sweep that concern a scenario, by default as it is written, and a simulation of doing nothing."""
    conditions = conditions or nominal(wanted.routes.scenario)
    percentile = any(one.kind == "delay_p95" for one in wanted.bounds)
    table = _read(Path(path), percentile)
    table = table.filter(pc.equal(table["scenario_hash"], conditions.digest))
    if not table.num_rows:
        raise FirelaneError(f"{path}: this data set was made with another scenario, or another state of it; {LOST}")
    table, notes = _nearest(table, conditions, str(path))
    sources = set(table["source"].to_pylist())
    source = "simulated" if "simulated" in sources else "predicted"
    if percentile and source == "predicted":
        raise FirelaneError(f"{path}: it has no simulations, so nothing is known of max_delay_p95; {LOST}")
    table = table.filter(pc.equal(table["source"], source))
    if not table.num_rows:
        raise FirelaneError(f"{path}: {FOREIGN}")
    notes.append(f"by {source} points of {Path(path).name}, which know categories and not single subscriptions")
    return _gathered(table, wanted, percentile, str(path), notes)


def _read(path: Path, percentile: bool) -> pa.Table:
    folder = path / "sweep" if (path / "sweep").is_dir() else path
    types = dict.fromkeys(TEXTS, pa.string()) | dict.fromkeys(NUMBERS, pa.float64())
    if percentile:
        types["delay_histogram"] = pa.list_(pa.int64())
    try:
        return ds.dataset(folder, format="parquet").to_table(columns=list(types)).cast(pa.schema(types))
    except (OSError, pa.ArrowException, ValueError) as problem:
        missing = isinstance(problem, FileNotFoundError)
        raise FirelaneError(f"{path}: {f'there is no such data set; {LOST}' if missing else FOREIGN}") from None


def _nearest(table: pa.Table, conditions: Conditions, path: str) -> tuple[pa.Table, list[str]]:
    """The points at these rates and this bandwidth, or those next to them."""
    less, more = 1 - conditions.slack, 1 + conditions.slack
    notes: list[str] = []
    wishes: tuple[tuple[str, float | None, str], ...] = (
        ("rate_factor", conditions.rate_factor, "times the rates"),
        ("link_bps", conditions.link_bps, "bit/s"),
    )
    for column, wish, unit in wishes:
        there = sorted({one for one in table[column].to_pylist() if one is not None})
        if wish is None:
            table = table.filter(pc.is_null(table[column]))
        elif not there or not there[0] * less <= wish <= there[-1] * more:
            swept = f"{there[0]:g} to {there[-1]:g}" if there else "none"
            raise FirelaneError(f"{path}: {column} {wish:g} is outside what was swept ({swept}); sweep it too")
        else:
            near = min(there, key=lambda one: abs(one - wish))
            table = table.filter(pc.equal(table[column], near))
            if abs(near - wish) > 1e-9 * wish:
                notes.append(f"the data set has nothing at {wish:g} {unit}; what is next to it, {near:g}, is used")
    if not table.num_rows:
        raise FirelaneError(f"{path}: it has no points with the links as they are; {LOST}")
    return table, notes


def _gathered(table: pa.Table, wanted: Requirements, percentile: bool, path: str, notes: list[str]) -> DataSet:
    """Seeds added up: a row for each order and drops, a column for each category."""
    point, points = _numbered(table, ("order", "drops"))
    number = {name: i for i, name in enumerate(wanted.categories)}
    count, places = len(number), len(points) * len(number)
    weight = np.nan_to_num(_floats(table, "n"), nan=1.0)
    loss, delay = np.nan_to_num(_floats(table, "loss")), _floats(table, "delay_mean_s")
    p95 = np.full(places, np.nan)
    order = [str(name).split(">") for name, _ in points]
    if any(sorted(one) != sorted(number) for one in order):
        raise FirelaneError(f"{path}: its categories are not those of the scenario; {LOST}")
    try:
        rates = np.array([[json.loads(text)[name] for name in number] for _, text in points], np.float64)
        place = point * count + np.array([number[name] for name in table["category"].to_pylist()], np.int64)
        if percentile:
            p95 = _percentiles(table, place, places)
    except (KeyError, TypeError, ValueError):
        raise FirelaneError(f"{path}: {FOREIGN}") from None
    possible = (loss >= 0) & (loss <= 1) & ~(delay < 0) & (weight >= 0) & (weight <= MOST_DUE)
    if not possible.all() or not ((rates >= 0) & (rates <= 1)).all():
        raise FirelaneError(f"{path}: {FOREIGN}")
    delivered = np.maximum(weight * (1 - loss), 1e-300)
    shape = (len(points), count)
    total = sum_by(place, weight, places)
    if not (total > 0).all():
        raise FirelaneError(f"{path}: some points lack a category, as if cut off; {LOST}")
    nothing = _nothing(wanted, percentile)
    known = {
        "delay_mean_s": sum_by(place, delay * delivered, places) / sum_by(place, delivered, places),
        "delay_p95_s": p95,
        "loss": sum_by(place, loss * weight, places) / total,
    }
    runs = sum_by(place, np.ones(len(place)), places) if table["n"].null_count == 0 else np.zeros(places)
    known["loss_error"] = _loss_error(
        known["loss"], known["delay_mean_s"], np.tile(_due_hz(wanted), len(points)), total, runs
    )
    return DataSet(
        wanted=wanted,
        rank=np.vstack([np.zeros((1, count), np.int64), [[one.index(name) for name in number] for one in order]]),
        drop_rate=np.vstack([np.zeros((1, count)), rates]),
        **{name: np.vstack([nothing[name], column.reshape(shape)]) for name, column in known.items()},
        notes=tuple(notes),
    )


def _percentiles(table: pa.Table, place: Ints, places: int) -> Floats:
    """The 95th percentile of each place, of all its histograms together."""
    counts = np.zeros((places, BUCKETS), np.int64)
    for row, histogram in zip(place.tolist(), table["delay_histogram"].to_pylist(), strict=True):
        if histogram is not None:
            counts[row] += np.array(histogram, np.int64)
    return percentiles_s(counts, (0.95,))[:, 0]


def _nothing(wanted: Requirements, percentile: bool) -> dict[str, Floats]:
    """What categories get with one class for all, simulated; a percentile is that of the worst subscription."""
    metrics = simulate(wanted.routes, publications=PUBLICATIONS, replications=1, seed=0)
    count, group = len(wanted.categories), wanted.group
    delivered, offered = metrics.column("delivered_hz"), metrics.column("offered_hz")
    delay = np.where(delivered > 0, metrics.column("delay_mean_s"), 0.0)
    carried = sum_by(group, delivered, count)
    worst = np.full(count, -np.inf)
    if percentile:
        np.maximum.at(worst, group, metrics.column("delay_p95_s"))
    mean_s = np.where(carried > 0, sum_by(group, delay * delivered, count) / np.maximum(carried, 1e-300), np.nan)
    due = sum_by(group, offered, count)
    loss = 1 - np.minimum(1.0, carried / np.maximum(due, 1e-300))
    return {
        "delay_mean_s": mean_s,
        "delay_p95_s": np.where(np.isfinite(worst), worst, np.nan),
        "loss": loss,
        "loss_error": _loss_error(loss, mean_s, due, due * metrics.column("window_s")[0], np.ones(count)),
    }


def _loss_error(loss: Floats, delay_s: Floats, due_hz: Floats, due: Floats, runs: Floats) -> Floats:
    """Three standard errors of a simulated loss: of chance drops, and of what waits when counting begins and ends."""
    waiting = due_hz * np.nan_to_num(delay_s)
    edges = np.where(runs > 0, np.sqrt(2 * runs * waiting) + 1, 0.0)
    chance = np.where(runs > 0, np.sqrt(loss * (1 - loss) * due), 0.0)
    return np.asarray(3 * (edges + chance) / np.maximum(due, 1.0), np.float64)


def _due_hz(wanted: Requirements) -> Floats:
    """Deliveries a second that are due to each category."""
    routes = wanted.routes
    rate_hz = routes.topic_rate_hz[routes.stream_topic[routes.claim_stream]]
    return sum_by(wanted.group[routes.claim_subscription], rate_hz, len(wanted.categories))


def _numbered(table: pa.Table, columns: tuple[str, ...]) -> tuple[Ints, list[tuple[Any, ...]]]:
    """A number for every combination of these columns that there is, per row, and the combinations."""
    rows = list(zip(*(table[name].to_pylist() for name in columns), strict=True))
    numbers = {one: place for place, one in enumerate(dict.fromkeys(rows))}
    return np.array([numbers[one] for one in rows], np.int64), list(numbers)


def _floats(table: pa.Table, column: str) -> Floats:
    return np.array([np.nan if one is None else one for one in table[column].to_pylist()], np.float64)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
