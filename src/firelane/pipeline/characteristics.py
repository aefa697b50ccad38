"""What loads look like: topics' sizes over time, and how few of them are very large.

Implements: broker-cluster, section V, Figure 2.
Differs:    quantiles of all topics beside the largest ones; the fit says how good it is.
Symbols:    p_i -> subscribers.
Checked by: tests/pipeline/test_characteristics.py
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from firelane.arrays import Floats
from firelane.errors import FirelaneError
from firelane.pipeline.schemas import LOADS, OVER_TIME, fitted
from firelane.pipeline.tails import CLOSEST, Fit, Sizes, lognormal_log_share, may_be_pareto, pareto_log_share
from firelane.pipeline.telemetry import first_fault, known
from firelane.pipeline.writing import Output
from firelane.plots import COLOURS, figure, save_figure
from firelane.scenario.save import write_whole

OVER_TIME_PICTURE, DISTRIBUTION_PICTURE = "over_time.png", "distribution.png"
LARGEST = 5  # topics that are shown one by one
MOST = 10**10  # subscribers of a topic: more than there are people, and sums of as many as anybody has are still exact


def load_fault() -> Column:
    """Why a load cannot be used; null if it can."""
    return first_fault(
        {
            "time_s is no number": sf.col("time_s").isNull(),
            "no topic": sf.col("topic").isNull(),
            "subscribers is not above 0": ~known(sf.col("subscribers") > 0),
            f"subscribers is above {MOST}": sf.col("subscribers") > MOST,
        }
    )


def twice(loads: DataFrame) -> tuple[str, ...]:
    """What to say of topics that are more than once in a step, as when the loads of two runs lie in one folder."""
    often = loads.groupBy("time_s", "topic").count().where("count > 1").count()
    return (f"topics that are in a step more than once, and count each time: {often:,}",) if often else ()


def over_time(loads: DataFrame) -> DataFrame:
    """How large topics are at each step, of those that have any subscribers."""
    middle = sf.percentile("subscribers", sf.array(sf.lit(0.5), sf.lit(0.95)))
    sizes = loads.groupBy("time_s").agg(
        sf.count(sf.lit(1)).alias("topics"),
        sf.sum("subscribers").alias("subscribers"),
        sf.avg("subscribers").alias("mean"),
        middle.alias("middle"),
        sf.max("subscribers").alias("largest"),
    )
    split = sizes.withColumns({"median": sf.get("middle", sf.lit(0)), "p95": sf.get("middle", sf.lit(1))})
    return fitted(split.orderBy("time_s"), OVER_TIME)


def largest(loads: DataFrame, most: int = LARGEST) -> DataFrame:
    """The loads of the topics that are largest over the whole time."""
    totals = loads.groupBy("topic").agg(sf.sum("subscribers").alias("total"))
    chosen = totals.orderBy(sf.desc("total"), "topic").limit(most)
    return fitted(loads.join(sf.broadcast(chosen), "topic").orderBy(sf.desc("total"), "topic", "time_s"), LOADS)


def sizes(loads: DataFrame) -> Sizes:
    """How often a topic had so many subscribers in a step."""
    counted = loads.groupBy("subscribers").count().orderBy("subscribers").toArrow()
    if not counted.num_rows:
        raise FirelaneError(
            "no row has a time, a topic and subscribers; name what `positions` or `subscriptions` wrote"
        )
    return Sizes(size=counted["subscribers"].to_numpy().astype(np.int64), count=counted["count"].to_numpy())


def distribution(counted: Sizes, fits: list[Fit]) -> pa.Table:
    """The share of topics and steps that reach each size, and what the closest tails say it should be."""
    columns: dict[str, Any] = {"subscribers": counted.size, "rows": counted.count, "at_least": counted.at_least}
    for one in fits:
        if one.tail == CLOSEST:
            columns |= {name: pa.array(shares, from_pandas=True) for name, shares in _expected(counted, one).items()}
    return pa.table(columns)


def fit_table(fits: list[Fit]) -> pa.Table:
    """The fits, a row each."""
    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    schema = pa.schema([(one.name, kinds[str(one.type)]) for one in fields(Fit)])
    return pa.Table.from_pylist([asdict(one) for one in fits], schema=schema)


def files(tables: Iterable[str]) -> list[str]:
    """What lies beside the tables."""
    return [*map(_csv, tables), OVER_TIME_PICTURE, DISTRIBUTION_PICTURE]


def write_small(spark: SparkSession, table: pa.Table, name: str, output: Output) -> int:
    """Write a table of few rows, as Parquet like all others and beside it as CSV; the number of rows."""
    rows = output.write(name, spark.createDataFrame(table).coalesce(1))
    text = io.BytesIO()
    csv.write_csv(table, text)
    write_whole(output.folder / _csv(name), text.getvalue())
    return rows


def in_short(fits: list[Fit]) -> str:
    """One sentence on the tail."""
    by_tail = {one.tail: one for one in fits}
    if len(by_tail) < len(("top 10 %", "top 5 %", CLOSEST)):
        return "too few sizes to say anything of their tail"
    exponents = ", ".join(f"{one.exponent:.2f} ({one.tail})" for one in fits)
    closest = by_tail[CLOSEST]
    better = "lognormal is closer" if closest.lognormal_distance < closest.distance else "lognormal is not closer"
    verdict = "this may be a Pareto tail" if may_be_pareto(fits) else "this is not a Pareto tail"
    return f"{verdict}: exponent {exponents}; {better}, {closest.lognormal_distance:.3f} to {closest.distance:.3f}"


def _csv(table: str) -> str:
    return f"{table}.csv"


def _expected(counted: Sizes, fit: Fit) -> dict[str, Floats]:
    """Shares by both distributions, NaN before the tail begins."""
    before = counted.size < fit.least
    size = np.maximum(counted.size, fit.least)
    pareto = pareto_log_share(size, fit.least, fit.exponent)
    lognormal = lognormal_log_share(size, fit.least, fit.lognormal_mean, fit.lognormal_deviation)
    return {
        name: np.where(before, np.nan, fit.share * np.exp(log_share))
        for name, log_share in (("pareto_at_least", pareto), ("lognormal_at_least", lognormal))
    }


def draw_over_time(steps: pa.Table, series: pa.Table, path: Path) -> Path:
    """Figure 2(a): the largest topics over time, and the quantiles of all."""
    drawn, axes = figure()
    hours = steps["time_s"].to_numpy() / 3600
    topics = list(dict.fromkeys(series["topic"].to_pylist()))
    for topic, colour in zip(topics, COLOURS, strict=False):
        one = series.filter(pc.equal(series["topic"], topic))
        axes.plot(
            one["time_s"].to_numpy() / 3600, one["subscribers"].to_numpy(), label=topic, color=colour, linewidth=1.2
        )
    axes.plot(hours, steps["p95"].to_numpy(), color="black", linestyle="--", linewidth=1, label="95 % of all topics")
    axes.plot(hours, steps["median"].to_numpy(), color="black", linestyle=":", linewidth=1, label="half of all topics")
    axes.set(xlabel="time, hours", ylabel="subscribers", title="The largest topics over time")
    axes.legend(frameon=False, fontsize=8)
    return save_figure(drawn, path)


def draw_distribution(table: pa.Table, fits: list[Fit], path: Path) -> Path:
    """Figure 2(b): the share of topics and steps that reach a size, and the fitted tails."""
    drawn, axes = figure()
    size = table["subscribers"].to_numpy()
    axes.loglog(size, table["at_least"].to_numpy(), ".", color=COLOURS[1], label="counted")
    by_tail = {one.tail: one for one in fits}
    if CLOSEST in by_tail:
        label = f"Pareto, exponent {by_tail[CLOSEST].exponent:.2f}"
        axes.loglog(size, table["pareto_at_least"].to_numpy(), color=COLOURS[0], label=label)
        axes.loglog(size, table["lognormal_at_least"].to_numpy(), "--", color=COLOURS[2], label="lognormal")
    axes.set(xlabel="subscribers of a topic in a step", ylabel="share that has so many or more")
    axes.set_title("How few topics are large")
    axes.legend(frameon=False)
    return save_figure(drawn, path)
