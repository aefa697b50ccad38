"""Records as messages that a client in any language can read: JSON, one record to a line, many lines to a message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa

MOST_BYTES = 60_000

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def payloads(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The records in payloads of at most MOST_BYTES, more only where a single one is larger."""
    lines: list[bytes] = []
    size = 0
    for batch in batches:
        for record in batch.to_pylist():
            line = f"{_encode(record)}\n".encode()
            if lines and size + len(line) > MOST_BYTES:
                yield b"".join(lines)
                lines, size = [], 0
            lines.append(line)
            size += len(line)
    if lines:
        yield b"".join(lines)
