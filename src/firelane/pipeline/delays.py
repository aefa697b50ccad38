"""The fixed log buckets of `firelane.histogram` as expressions of Spark: the same bucket for every delay, bit by bit.

A delay in units of the first edge, 2^-20 s, has one binary digit before the point for each doubling it is beyond it;
the four digits after the first say which sixteenth of the doubling. All steps are exact in floating point.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from firelane.histogram import BUCKETS, FIRST_EXPONENT

PARTS = 16  # buckets to a doubling
DOUBLINGS = BUCKETS // PARTS


def bucket_of(delay_s: Column) -> Column:
    """The bucket of a delay, null for null; the first and last take what lies beyond."""
    units = sf.least(sf.greatest(delay_s * 2.0**-FIRST_EXPONENT, sf.lit(1.0)), sf.lit(2.0**DOUBLINGS))
    doubling = sf.length(sf.bin(units.cast("bigint"))) - 1
    part = sf.floor(units * PARTS / _power_of_two(doubling)) - PARTS
    bucket = sf.least(doubling * PARTS + part, sf.lit(BUCKETS - 1))
    return sf.when(delay_s.isNotNull(), bucket.cast("int"))


def edge_s(bucket: Column) -> Column:
    """The lower edge of a bucket."""
    sixteenths = (PARTS + bucket % PARTS) * _power_of_two(sf.floor(bucket / PARTS))
    return sf.when(bucket == 0, 0.0).otherwise(sixteenths * (2.0**FIRST_EXPONENT / PARTS))


def percentile_s(share: float, *, bucket: Column, weight: Column, cumulative: Column, total: Column) -> Column:
    """The aggregate that interpolates a percentile, over one row per bucket with the weights up to and including it."""
    rank = share * total
    part = sf.greatest(sf.least(sf.try_divide(rank - (cumulative - weight), weight), sf.lit(1.0)), sf.lit(0.0))
    value = edge_s(bucket) + part * (edge_s(bucket + 1) - edge_s(bucket))
    return sf.min(sf.when((weight > 0) & (cumulative >= rank), value))  # of the first bucket that reaches the rank


def _power_of_two(exponent: Column) -> Column:
    return sf.call_function("shiftleft", sf.lit(1).cast("bigint"), exponent.cast("int"))
