"""Every table of the pipeline: its columns, in Spark's words. What a job writes ends in a `select` of one of these.

Times of traces are seconds since their beginning, times of telemetry microseconds since the epoch, UTC.
The columns of telemetry and of Metrics are those that the exchange writes (docs/reference).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

# Where vehicles are; those numbered instead of named are faster to compare.
POSITIONS = "time_s DOUBLE, vehicle STRING, x_m DOUBLE, y_m DOUBLE, speed_mps DOUBLE"
NUMBERED_POSITIONS = POSITIONS.replace("STRING", "BIGINT")

DELIVERIES = """
    record_id STRING, exchange STRING, ingress_us BIGINT, subscriber STRING, filter STRING, topic STRING, priority INT,
    qos INT, wire_bytes BIGINT, delay_us BIGINT, outcome STRING, weight DOUBLE, plan_version BIGINT
"""

MEMBERSHIP = "record_id STRING, exchange STRING, time_us BIGINT, client STRING, filter STRING, event STRING"

# Loads of topics, what `firelane balance` reads: a row per topic and step in which there was any.
LOADS = "time_s BIGINT, topic STRING, subscribers BIGINT, messages_hz DOUBLE, bytes_hz DOUBLE"

# Vehicles that came into a zone (a topic) and left it: a row per topic and step in which any did.
CHANGES = "time_s BIGINT, topic STRING, subscribes BIGINT, unsubscribes BIGINT"

# How large topics are at each step, of those that have any subscribers.
OVER_TIME = """
    time_s BIGINT, topics BIGINT, subscribers BIGINT, mean DOUBLE, median DOUBLE, p95 DOUBLE, largest BIGINT
"""

# Readings of sensors, of many traces; and what a replay of each sensor needs to send.
READINGS = "trace STRING, time_s DOUBLE, sensor STRING, value DOUBLE"
REPLAYS = """
    trace STRING, sensor STRING, model STRING, delta DOUBLE, readings BIGINT, sent BIGINT, suppressed DOUBLE,
    max_error DOUBLE, rmse DOUBLE
"""

# What could not be used, and why; `row` is as it came, cut to a few hundred characters.
REJECTS = "source STRING, reason STRING, row STRING"
ARRIVED_REJECTS = f"{REJECTS}, received TIMESTAMP"

METRICS = """
    source STRING, window_start TIMESTAMP, window_s DOUBLE, subscriber STRING, filter STRING, flow BIGINT,
    priority BIGINT, drop_rate DOUBLE, stable BOOLEAN, offered_hz DOUBLE, delivered_hz DOUBLE, success DOUBLE,
    delay_mean_s DOUBLE, delay_p50_s DOUBLE, delay_p95_s DOUBLE, delay_p99_s DOUBLE, bytes BIGINT, utility DOUBLE,
    utility_max DOUBLE, dropped_policy BIGINT, dropped_overflow BIGINT, dropped_expired BIGINT,
    dropped_disconnected BIGINT, dropped_too_large BIGINT, dropped_superseded BIGINT, lost BIGINT, queued BIGINT,
    plan_version BIGINT
"""

SWEEP = """
    scenario_hash STRING, plan_hash STRING, link_bps DOUBLE, rate_factor DOUBLE, order STRING, drops STRING,
    seed BIGINT, source STRING, category STRING, n BIGINT, delay_mean_s DOUBLE, delay_histogram ARRAY<BIGINT>,
    loss DOUBLE
"""

ALERTS = """
    id STRING, window_start TIMESTAMP, window_end TIMESTAMP, kind STRING, subject STRING, measured DOUBLE,
    bound DOUBLE, n BIGINT
"""

# What deliveries in one window, subscription, class and bucket of delay add up to; null: dropped, or of unknown delay.
BUCKETS = """
    window_start TIMESTAMP, window_s DOUBLE, subscriber STRING, filter STRING, priority INT, bucket INT,
    offered DOUBLE, delivered DOUBLE, delay_us DOUBLE, bytes DOUBLE, dropped_policy DOUBLE, dropped_overflow DOUBLE,
    dropped_expired DOUBLE, dropped_disconnected DOUBLE, dropped_too_large DOUBLE, dropped_superseded DOUBLE,
    plan_version BIGINT
"""


def fitted(table: DataFrame, schema: str) -> DataFrame:
    """The columns of a schema, in its order and types; what the table does not have is null."""
    from pyspark.sql.types import StructType

    return table.to(cast(StructType, StructType.fromDDL(schema)))


def in_arrow(schema: str) -> pa.Schema:
    """A schema of plain types in Arrow's words, for what is written without Spark."""
    import pyarrow as pa

    words = {"STRING": "string", "DOUBLE": "float64", "BIGINT": "int64"}
    types = {"TIMESTAMP": pa.timestamp("us", tz="UTC")} | {name: pa.type_for_alias(one) for name, one in words.items()}
    return pa.schema([(name, types[kind]) for name, kind in (column.split() for column in schema.split(","))])
