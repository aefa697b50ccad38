"""What a record of telemetry is: the columns of both tables, for all who write or read them.

Times are microseconds since the epoch, UTC. A `record_id` is never used twice: records that come twice have the same,
in files and on topics. It is the exchange's boot number (hexadecimal) and a running number.

A delivery record stands for `weight` deliveries: one over the sampling for one that was made, 1 for a drop. Sums over
`weight` are unbiased. Under a flood, records of one subscription and outcome are folded into one, without a topic and
with the mean delay and size; beyond that even without subscriber, filter, QoS and plan. Weights add up all the same.
`delay_us` is null for what was dropped, and where it is not known. `plan_version` is null without a plan.
"""

from __future__ import annotations

import pyarrow as pa

from firelane.metrics import DROP_REASONS

DELIVERED = "delivered"
OUTCOMES = (DELIVERED, *DROP_REASONS)
EVENTS = ("subscribe", "unsubscribe", "lost")  # lost: the client is gone, and its subscription with it

TOPICS = b"$firelane/telemetry/"
DELIVERIES_TOPIC = TOPICS + b"deliveries"
MEMBERSHIP_TOPIC = TOPICS + b"membership"

DELIVERIES = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("exchange", pa.string(), nullable=False),
        pa.field("ingress_us", pa.int64(), nullable=False),
        pa.field("subscriber", pa.string()),
        pa.field("filter", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("priority", pa.int32(), nullable=False),
        pa.field("qos", pa.int32()),
        pa.field("wire_bytes", pa.int64(), nullable=False),
        pa.field("delay_us", pa.int64()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("weight", pa.float64(), nullable=False),
        pa.field("plan_version", pa.int64()),
    ]
)

MEMBERSHIP = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("exchange", pa.string(), nullable=False),
        pa.field("time_us", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("filter", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
    ]
)


def record_id(boot: int, number: int) -> str:
    """The identifier of an exchange's record, as wide for the first as for the last."""
    return f"{boot:016x}-{number:012d}"
