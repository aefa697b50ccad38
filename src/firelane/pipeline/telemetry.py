"""Delivery records to Metrics and to loads of topics; the same steps whether all records are there or still coming.

    records = once(timed(good_rows))                  # a stream sets its watermark on `time`, and drops twins by itself
    partials = buckets(records, window_s=60)
    metrics(partials)                                 # of windows that are complete
    topic_loads(records, window_s=60)

Windows begin at whole multiples of their length since the epoch, and go by the time at which a message came in. Weights
are summed as floating point numbers: exactly, in any order, as long as they are whole (a sampling of 1/n).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from firelane.metrics import DROP_REASONS
from firelane.pipeline.delays import bucket_of, percentile_s
from firelane.pipeline.schemas import BUCKETS, LOADS, METRICS, fitted
from firelane.scenario.model import MOST_PRIORITIES

DELIVERED = "delivered"
UNKNOWN = ""  # the subscriber, filter or topic of records that were folded under a flood; no real one is empty
LAST_US = 253_402_300_799_999_999  # the end of the year 9999
MOST_DELAY_US = 366 * 86_400 * 1_000_000
MOST_BYTES, MOST_WEIGHT = 10**12, 10**12  # of one record: sums and products of what is less stay numbers

_KEYS = ("window_start", "window_s", "subscriber", "filter", "priority")
_DROPPED = tuple(f"dropped_{reason}" for reason in DROP_REASONS)
_SUMS = ("offered", "delivered", "delay_us", "bytes", *_DROPPED)
_PERCENTILES = {"delay_p50_s": 0.5, "delay_p95_s": 0.95, "delay_p99_s": 0.99}


def delivery_fault() -> Column:
    """Why a delivery record cannot be used; null if it can."""
    lowest, weight = MOST_PRIORITIES - 1, sf.col("weight")
    return first_fault(
        {
            "no record_id": ~known(sf.col("record_id") != ""),
            "ingress_us is no time": ~known(sf.col("ingress_us").between(0, LAST_US)),
            f"priority is not from 0 to {lowest}": ~known(sf.col("priority").between(0, lowest)),
            "wire_bytes is missing or negative": ~known(sf.col("wire_bytes") >= 0),
            f"wire_bytes is above {MOST_BYTES}": sf.col("wire_bytes") > MOST_BYTES,
            "delay_us is negative or longer than a year": ~sf.col("delay_us").between(0, MOST_DELAY_US),
            "outcome is unknown": ~known(sf.col("outcome").isin(DELIVERED, *DROP_REASONS)),
            "weight is not above 0": ~known((weight > 0) & (weight < float("inf"))),
            f"weight is above {MOST_WEIGHT}": weight > MOST_WEIGHT,
        }
    )


def first_fault(faults: dict[str, Column]) -> Column:
    """The name of the first of these conditions that holds; null if none does."""
    return sf.coalesce(*(sf.when(condition, reason) for reason, condition in faults.items()))


def known(condition: Column) -> Column:
    """Whether the condition holds; not, where a value is missing."""
    return sf.coalesce(condition, sf.lit(False))


def timed(deliveries: DataFrame) -> DataFrame:
    """The records with `time`, when their message came in: what windows and watermarks go by."""
    return deliveries.withColumn("time", sf.timestamp_micros("ingress_us"))


def once(records: DataFrame) -> DataFrame:
    """Each record once, however often it came."""
    return records.dropDuplicates(["record_id"])


def twins_note(twins: int) -> tuple[str, ...]:
    """What to say of records that came more than once."""
    return (f"{twins:,} records had come before and count once",) if twins else ()


def buckets(deliveries: DataFrame, *, window_s: float) -> DataFrame:
    """Sums over each window, subscription, class and bucket of delay (null: dropped, or of unknown delay).

    They merge by adding (`added`). A stream needs one aggregation for them, and emits all of a window at once.
    """
    weight, delivered = sf.col("weight"), sf.col("outcome") == DELIVERED
    delay_us = sf.when(delivered, sf.col("delay_us"))
    keys = (
        _window(window_s),
        *(sf.coalesce(sf.col(name), sf.lit(UNKNOWN)).alias(name) for name in ("subscriber", "filter")),
        sf.col("priority"),
        bucket_of(delay_us / 1e6).alias("bucket"),
    )
    sums = {
        "offered": weight,
        "delivered": sf.when(delivered, weight).otherwise(0.0),
        "delay_us": sf.coalesce(weight * delay_us, sf.lit(0.0)),
        "bytes": sf.when(delivered, weight * sf.col("wire_bytes")).otherwise(0.0),
        **{f"dropped_{why}": sf.when(sf.col("outcome") == why, weight).otherwise(0.0) for why in DROP_REASONS},
    }
    summed = deliveries.groupBy(*keys).agg(
        *(sf.sum(value).alias(name) for name, value in sums.items()), sf.max("plan_version").alias("plan_version")
    )
    placed = {"window_start": sf.col("window.start"), "window_s": sf.lit(float(window_s))}
    return fitted(summed.withColumns(placed), BUCKETS)


def added(partials: DataFrame) -> DataFrame:
    """Partial sums of the same window, subscription, class and bucket made one."""
    return partials.groupBy(*_KEYS, "bucket").agg(
        *(sf.sum(name).alias(name) for name in _SUMS), sf.max("plan_version").alias("plan_version")
    )


def metrics(partials: DataFrame) -> DataFrame:
    """The Metrics of complete windows, a row per subscription and class.

    Records do not tell flow, utility and what is still queued, which are null. `drop_rate` is the share that was
    dropped on purpose, `stable` whether nothing overflowed.
    """
    inside = Window.partitionBy(*_KEYS)
    up_to = inside.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = (
        added(partials)
        .withColumn("weight", sf.when(sf.col("bucket").isNotNull(), sf.col("delivered")).otherwise(0.0))
        .withColumn("cumulative", sf.sum("weight").over(up_to))
        .withColumn("total", sf.sum("weight").over(inside))
    )
    columns = {name: sf.col(name) for name in ("bucket", "weight", "cumulative", "total")}
    whole = ranked.groupBy(*_KEYS).agg(
        *(sf.sum(name).alias(name) for name in (*_SUMS, "weight")),
        sf.max("plan_version").alias("plan_version"),
        *(percentile_s(share, **columns).alias(name) for name, share in _PERCENTILES.items()),
    )
    derived = {
        "source": sf.lit("live"),
        "drop_rate": sf.col("dropped_policy") / sf.col("offered"),
        "stable": sf.col("dropped_overflow") == 0,
        "offered_hz": sf.col("offered") / sf.col("window_s"),
        "delivered_hz": sf.col("delivered") / sf.col("window_s"),
        "success": sf.col("delivered") / sf.col("offered"),
        "delay_mean_s": sf.try_divide("delay_us", "weight") / 1e6,
        **{name: sf.round(name).try_cast("bigint") for name in ("bytes", *_DROPPED)},
    }
    return fitted(whole.withColumns(derived), METRICS)


def topic_loads(deliveries: DataFrame, *, window_s: float) -> DataFrame:
    """Deliveries due per topic and second, made or dropped, and their bytes on the wire.

    How many subscribe cannot be told from samples of what they got: that is null.
    """
    topic = sf.coalesce(sf.col("topic"), sf.lit(UNKNOWN)).alias("topic")
    summed = deliveries.groupBy(_window(window_s), topic).agg(
        (sf.sum("weight") / window_s).alias("messages_hz"),
        (sf.sum(sf.col("weight") * sf.col("wire_bytes")) / window_s).alias("bytes_hz"),
    )
    return fitted(summed.withColumn("time_s", sf.unix_seconds("window.start")), LOADS)


def with_day(table: DataFrame) -> DataFrame:
    """Metrics or loads with the `day` (UTC) they are of, by which their folders are partitioned."""
    time = sf.col("window_start") if "window_start" in table.columns else sf.timestamp_seconds("time_s")
    return table.withColumn("day", sf.date_format(time, "yyyy-MM-dd"))


def _window(window_s: float) -> Column:
    return sf.window("time", f"{round(window_s * 1e6)} microseconds").alias("window")
