"""Membership records to loads: how many clients are subscribed to a filter, minute by minute.

A client counts in every step in which it was subscribed at any time, once however often it came and went. What was
before the first record is not known: a client whose first record says that it left was there from the beginning of the
data, and one that is never mentioned is not counted. Whoever does not leave stays to the end of the data, or until its
exchange is started again, which ends everybody's stay.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from firelane.pipeline.schemas import LOADS, fitted
from firelane.pipeline.telemetry import LAST_US, first_fault, known, twins_note

SUBSCRIBE = "subscribe"
EVENTS = (SUBSCRIBE, "unsubscribe", "lost")
STEP_S = 60
FAR_US = 5 * 366 * 86_400 * 1_000_000  # from most other records: some clock was wrong, and the minutes in between many

_BOOT = "^([0-9a-f]{16})-"  # at the beginning of the record_id: from which start of the exchange it is


def middle_us(membership: DataFrame) -> int | None:
    """The time that about half of the records are before; None without any."""
    (middle,) = membership.agg(sf.percentile_approx("time_us", 0.5)).collect()[0]
    return None if middle is None else int(middle)


def membership_fault(middle_us: int | None = None) -> Column:
    """Why a membership record cannot be used; null if it can."""
    far = sf.lit(False) if middle_us is None else sf.abs(sf.col("time_us") - middle_us) > FAR_US
    return first_fault(
        {
            **{f"no {name}": ~known(sf.col(name) != "") for name in ("record_id", "client", "filter")},
            "no exchange": sf.col("exchange").isNull(),
            "time_us is no time": ~known(sf.col("time_us").between(0, LAST_US)),
            "time_us is years away from the others": far,
            "event is unknown": ~known(sf.col("event").isin(*EVENTS)),
        }
    )


def subscribers(membership: DataFrame, *, step_s: int = STEP_S) -> DataFrame:
    """How many clients are subscribed to each filter in each step in which there are any.

    Nothing is expanded but the result: stays are made disjoint per client, and what begins and ends in a step is
    summed.
    """
    present = _disjoint(_steps(_stays(membership), step_s))
    ends = sf.explode(
        sf.array(
            sf.struct(sf.col("first").alias("step"), sf.lit(1).alias("change")),
            sf.struct((sf.col("last") + 1).alias("step"), sf.lit(-1).alias("change")),
        )
    )
    changes = (
        present.select("filter", ends.alias("end"))
        .groupBy("filter", "end.step")
        .agg(sf.sum("end.change").alias("change"))
    )
    ordered = Window.partitionBy("filter").orderBy("step")
    counted = changes.select(
        sf.col("filter").alias("topic"),
        sf.sum("change").over(ordered).alias("subscribers"),
        "step",
        sf.lead("step").over(ordered).alias("next"),
    ).where("subscribers > 0")
    each = counted.withColumn("step", sf.explode(sf.sequence("step", sf.col("next") - 1)))
    return fitted(each.withColumn("time_s", sf.col("step") * step_s), LOADS)


def notes(membership: DataFrame) -> tuple[str, ...]:
    """What one must know of the result: where the records begin, before which nothing is known; how many came twice."""
    counts = membership.agg(sf.min("time_us"), sf.count("record_id"), sf.count_distinct("record_id"))
    began_us, records, different = counts.collect()[0]
    if began_us is None:
        return ()
    began = datetime.fromtimestamp(began_us // 1_000_000, UTC)
    unknown = f"nothing is known of who was subscribed before {began:%Y-%m-%d %H:%M:%S} UTC and said nothing since"
    return (unknown, *twins_note(records - different))


def _stays(membership: DataFrame) -> DataFrame:
    """From when (inclusive) to when (exclusive) a client was subscribed to a filter; stays may touch or overlap."""
    records = membership.withColumn("boot", sf.regexp_extract("record_id", _BOOT, 1))
    placed = records.join(sf.broadcast(_runs(records)), ["exchange", "boot"])
    ordered = Window.partitionBy("exchange", "boot", "client", "filter").orderBy("time_us", "record_id")
    subscribes = sf.col("event") == SUBSCRIBE
    first = sf.lag("time_us").over(ordered).isNull()
    until = sf.coalesce(sf.lead("time_us").over(ordered), "ended_us")
    stays = placed.select(
        "client",
        "filter",
        sf.when(subscribes, sf.col("time_us")).when(first, sf.col("began_us")).alias("from_us"),
        sf.when(subscribes, until).otherwise(sf.col("time_us")).alias("to_us"),
    )
    return stays.where("from_us IS NOT NULL")


def _runs(records: DataFrame) -> DataFrame:
    """When the records of each run of an exchange begin and end: with the data, or where one start follows another."""
    whole = records.agg(sf.min("time_us").alias("data_began_us"), (sf.max("time_us") + 1).alias("data_ended_us"))
    runs = records.groupBy("exchange", "boot").agg(
        sf.min("time_us").alias("first_us"), sf.max("time_us").alias("last_us")
    )
    ordered = Window.partitionBy("exchange").orderBy("first_us", "boot")
    before_us, after_us = sf.lag("last_us").over(ordered), sf.lead("first_us").over(ordered)
    return runs.crossJoin(sf.broadcast(whole)).select(
        "exchange",
        "boot",
        sf.when(before_us < sf.col("first_us"), sf.col("first_us"))
        .otherwise(sf.col("data_began_us"))
        .alias("began_us"),
        sf.when(after_us > sf.col("last_us"), after_us).otherwise(sf.col("data_ended_us")).alias("ended_us"),
    )


def _steps(stays: DataFrame, step_s: int) -> DataFrame:
    """The first and last step that each stay touches; one of no length touches the step it is in."""

    def step(time_us: Column) -> Column:
        return sf.call_function("div", time_us, sf.lit(step_s * 1_000_000).cast("bigint"))

    first, last = step(sf.col("from_us")), step(sf.col("to_us") - 1)
    return stays.select("client", "filter", first.alias("first"), sf.greatest(first, last).alias("last"))


def _disjoint(stays: DataFrame) -> DataFrame:
    """The same steps of every client and filter, each in one stay only."""
    before = Window.partitionBy("client", "filter").orderBy("first", "last").rowsBetween(Window.unboundedPreceding, -1)
    reached = sf.max("last").over(before)
    later = stays.withColumn("first", sf.greatest("first", reached + 1))  # greatest passes over null
    return later.where("first <= last")
