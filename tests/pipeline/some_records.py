"""Records of telemetry for tests, and tables of them as an exchange writes them."""

import pyarrow as pa

from firelane.exchange.telemetry.records import DELIVERIES, MEMBERSHIP, record_id

BOOT = 0xB007
START_US = 1_770_000_000_000_000  # 2026-02-02T02:40:00Z, the beginning of a minute


def delivery(number, **given):
    """The values of a record, in order."""
    row = {
        "record_id": None if number is None else record_id(BOOT, number),
        "exchange": "site",
        "ingress_us": START_US,
        "subscriber": "ann",
        "filter": "a/+",
        "topic": "a/b",
        "priority": 2,
        "qos": 0,
        "wire_bytes": 100,
        "delay_us": 1000,
        "outcome": "delivered",
        "weight": 1.0,
        "plan_version": 7,
    }
    return tuple((row | given).values())


def drop(number, reason, **given):
    return delivery(number, outcome=reason, delay_us=None, **given)


def delivery_table(rows):
    return _table(rows, DELIVERIES)


def membership_table(rows):
    """Of (number, seconds after the start, client, filter, event)."""
    return _table(
        [(record_id(BOOT, number), "site", START_US + round(after_s * 1e6), *rest) for number, after_s, *rest in rows],
        MEMBERSHIP,
    )


def _table(rows, schema):
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), nullable, strict=True)]
    return pa.Table.from_arrays(columns, schema=nullable)
