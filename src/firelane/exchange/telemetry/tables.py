"""Records as Arrow tables, a few hundred rows at a time.

Arrow holds the interpreter while it looks at Python's objects. In small steps the event loop gets its turn in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from firelane.exchange.telemetry.recorder import Folded, Key, Row, Taken
from firelane.exchange.telemetry.records import DELIVERIES, MEMBERSHIP, record_id

STEP_ROWS = 500


def deliveries(taken: Taken, exchange: str, boot: int) -> Iterator[pa.RecordBatch]:
    """The delivery records of a take."""
    first = taken.first
    for rows in _steps(chain(taken.deliveries, (_row(*one) for one in taken.folded.items()))):
        ingress_s, *named, delay_s, outcome, weight, plan_version = zip(*rows, strict=True)
        columns = [
            *_identity(boot, first, exchange, len(rows)),
            _micros(ingress_s, taken.ahead_s), *named, _micros(delay_s), outcome, weight, plan_version,
        ]  # fmt: skip
        yield _batch(columns, DELIVERIES)
        first += len(rows)


def membership(taken: Taken, exchange: str, boot: int) -> Iterator[pa.RecordBatch]:
    """The membership records of a take."""
    first = taken.first + len(taken.deliveries) + len(taken.folded)
    for rows in _steps(taken.membership):
        time_s, *named = zip(*rows, strict=True)
        columns = [*_identity(boot, first, exchange, len(rows)), _micros(time_s, taken.ahead_s), *named]
        yield _batch(columns, MEMBERSHIP)
        first += len(rows)


def _steps(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    remaining = iter(rows)
    while step := list(islice(remaining, STEP_ROWS)):
        yield step


def _row(key: Key, folded: Folded) -> Row:
    subscriber, topic_filter, priority, qos, outcome, plan_version = key
    wire_bytes = round(folded.wire_bytes / folded.weight)
    delay_s = folded.delay_s / folded.delay_weight if folded.delay_weight else None
    return (
        folded.ingress_s, subscriber, topic_filter, None, priority, qos, wire_bytes, delay_s, outcome, folded.weight,
        plan_version,
    )  # fmt: skip


def _identity(boot: int, first: int, exchange: str, rows: int) -> tuple[list[str], list[str]]:
    return [record_id(boot, number) for number in range(first, first + rows)], [exchange] * rows


def _micros(seconds: Sequence[float | None], ahead_s: float = 0.0) -> pa.Array:
    """Whole microseconds, null for None; both terms are rounded apart, as their sum has too many digits."""
    values = np.array(seconds, np.float64)
    unknown = np.isnan(values)
    micros = np.rint(np.where(unknown, 0.0, values) * 1e6).astype(np.int64) + round(ahead_s * 1e6)
    return pa.array(micros, pa.int64(), mask=unknown)


def _batch(columns: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        one if isinstance(one, pa.Array) else pa.array(one, field.type)
        for one, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
