"""Records made fewer without losing anything: those that all tables treat alike become one.

Of a window, subscription, topic, class and outcome, records whose delays are in the same bucket fold into one: weights
add up, size and delay become means, as the exchange does under a flood. What is computed of folded records is what is
computed of all. So a stream keeps one kind of sums, and when a window is complete the transforms of the batch job do
the rest.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from firelane.pipeline.delays import bucket_of
from firelane.pipeline.telemetry import DELIVERED

_ALIKE = ("subscriber", "filter", "topic", "priority", "outcome")


def window(length_s: float) -> Column:
    """The window of a record, by its `time`."""
    return sf.window("time", f"{round(length_s * 1e6)} microseconds").alias("window")


def folded(records: DataFrame, *, window_s: float) -> DataFrame:
    """Folded records, whose `time` is that of their window; `records` and `squares` (of weights) say of how many."""
    weight, delay_us = sf.col("weight"), sf.when(sf.col("outcome") == DELIVERED, sf.col("delay_us"))
    known = sf.when(delay_us.isNotNull(), weight)
    sums = records.groupBy(window(window_s), *_ALIKE, bucket_of(delay_us / 1e6).alias("bucket")).agg(
        sf.count("*").alias("records"),
        sf.sum(weight).alias("weight"),
        sf.sum(weight * weight).alias("squares"),
        (sf.sum(weight * sf.col("wire_bytes")) / sf.sum(weight)).alias("wire_bytes"),
        (sf.sum(known * delay_us) / sf.sum(known)).alias("mean_us"),
        sf.min(delay_us).alias("least_us"),
        sf.max(delay_us).alias("most_us"),
        sf.max("plan_version").alias("plan_version"),
    )
    inside = sf.greatest(sf.least("mean_us", "most_us"), "least_us")  # a rounded mean must not leave the bucket
    return sums.select(
        sf.col("window.start").alias("time"), *_ALIKE, inside.alias("delay_us"),
        "records", "weight", "squares", "wire_bytes", "plan_version",
    )  # fmt: skip


def topic_counts(records: DataFrame) -> DataFrame:
    """Of folded records, how many there are of each window and topic, and the sums of weights and of their squares."""
    return records.groupBy(sf.col("time").alias("window_start"), "topic").agg(
        sf.sum("records").alias("records"), sf.sum("weight").alias("messages"), sf.sum("squares").alias("squares")
    )
