"""What is wrong right now: bounds of subscriptions that are missed, and links that are offered more than they carry.

A scenario becomes a list of checks. Every record is put to the checks of its subscriber, and sums over a short window
say what came of each. They are looked at while the window is still open, so as not to lose time: a mean is what it is
so far, and a load that of the part of the window that is over (half of it at least).

Records may be samples, with a weight. A check fails when the measured value exceeds its bound by more than twice the
standard error which that causes; without sampling there is none. Loads also come and go by chance, as messages do, so
their error is that of a Poisson stream. With fewer than ten records nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from firelane.pipeline.schemas import ALERTS, fitted
from firelane.pipeline.telemetry import DELIVERED
from firelane.pipeline.watch.folding import window
from firelane.scenario.model import Scenario
from firelane.scenario.routes import routes

WINDOW_S = 4.0
POLICY = "policy"  # dropped on purpose: it never got to the link
LEAST_RECORDS = 10
ERRORS = 2.0
ROUNDING = 1 + 1e-9

CHECKS = """
    subscriber STRING, filter STRING, kind STRING, measure STRING, subject STRING, bound DOUBLE, link_bps DOUBLE
"""
DELAY, LOSS, LOAD = "delay", "loss", "load"
_SUBJECT = ("kind", "measure", "subject", "bound")


def checks(scenario: Scenario) -> list[tuple[str, str | None, str, str, str, float, float | None]]:
    """Rows of CHECKS: the delay and loss that subscriptions can bear, and the links that limit their subscribers."""
    return [*_bounds(scenario), *_links(scenario)]


def _bounds(scenario: Scenario) -> Iterator[tuple[str, str, str, str, str, float, None]]:
    for name, subscriber in scenario.subscribers.items():
        for topic_filter, need in subscriber.subscribes.items():
            for measure, bound in ((DELAY, need.max_delay_s), (LOSS, need.max_loss)):
                if bound is not None:
                    yield name, topic_filter, "bound", measure, f"{name} {topic_filter} max_{measure}", bound, None


def _links(scenario: Scenario) -> Iterator[tuple[str, None, str, str, str, float, float]]:
    network = routes(scenario)
    lane_of = dict(zip(network.subscription_subscriber.tolist(), network.subscription_lane.tolist(), strict=True))
    for number, lane in lane_of.items():
        name, link = network.lanes[lane].name, network.lanes[lane].link
        if link.bandwidth_bps is not None:
            yield network.subscribers[number], None, "load", LOAD, name, 1.0, link.paced_bps


def check_sums(records: DataFrame, table: DataFrame, *, window_s: float = WINDOW_S) -> DataFrame:
    """What came of every check in every window; `table` has the columns CHECKS, records those of `timed` ones."""
    theirs = (sf.col("c.subscriber") == sf.col("r.subscriber")) & (
        sf.col("c.filter").isNull() | (sf.col("c.filter") == sf.col("r.filter"))
    )
    put = records.alias("r").join(sf.broadcast(table.alias("c")), theirs)
    weight, value = sf.col("weight"), sf.col("value")
    spread = sf.when(sf.col("measure") == LOAD, weight * weight).otherwise(weight * (weight - 1))
    return (
        put.withColumn("value", _value())
        .where("value IS NOT NULL")
        .groupBy(window(window_s), *_SUBJECT)
        .agg(
            sf.count("*").alias("n"),
            sf.sum(weight).alias("weight"),
            sf.sum(weight * value).alias("total"),
            *(sf.sum(spread * sf.pow(value, sf.lit(p))).alias(f"spread{p}") for p in (0, 1, 2)),
            sf.max("time").alias("last"),
        )
    )


def failed(sums: DataFrame, *, window_s: float = WINDOW_S) -> DataFrame:
    """The checks that failed, as ALERTS."""
    over_s = sf.unix_micros("last") / 1e6 - sf.unix_micros("window.start") / 1e6
    passed_s = sf.greatest(over_s, sf.lit(window_s / 2))
    mean, n = sf.col("total") / sf.col("weight"), sf.col("n")
    scatter = sf.col("spread2") - 2 * mean * sf.col("spread1") + mean * mean * sf.col("spread0")
    is_load = sf.col("measure") == LOAD
    # The last of n messages ends the time that is looked at, so it lies after n - 1 gaps between messages.
    measured = sf.when(is_load, sf.col("total") * (n - 1) / n / passed_s).otherwise(mean)
    error = sf.when(is_load, sf.sqrt("spread2") / passed_s).otherwise(
        sf.sqrt(sf.greatest(scatter, sf.lit(0.0))) / sf.col("weight")
    )
    judged = sums.withColumns({"measured": measured, "error": error})
    over = sf.col("measured") - ERRORS * sf.col("error") > sf.col("bound") * ROUNDING
    bad = judged.where((n >= LEAST_RECORDS) & over)
    return alerts(bad.withColumns({"window_start": sf.col("window.start"), "window_end": sf.col("window.end")}))


def alerts(found: DataFrame) -> DataFrame:
    """What was found, as ALERTS; the same subject in the same window has the same id whenever it is found."""
    micros = (sf.unix_micros(name).cast("string") for name in ("window_start", "window_end"))
    identity = sf.sha2(sf.concat_ws("\n", "kind", "subject", *micros), 256)
    return fitted(found.withColumn("id", sf.substring(identity, 1, 16)), ALERTS)


def _value() -> Column:
    """What a record says to a check; null if it says nothing."""
    outcome, measure = sf.col("outcome"), sf.col("measure")
    delivered = outcome == DELIVERED
    return (
        sf.when((measure == DELAY) & delivered, sf.col("delay_us") / 1e6)
        .when(measure == LOSS, sf.when(delivered, 0.0).otherwise(1.0))
        .when((measure == LOAD) & (outcome != POLICY), sf.col("wire_bytes") * 8 / sf.col("link_bps"))
    )
