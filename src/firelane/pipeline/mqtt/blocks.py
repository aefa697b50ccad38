"""What the log is made of: blocks of messages that came together, written and synced at once.

A block says how long it is and where in the log it belongs, with a checksum over all of it, so half of one, or one that
a file system left behind from earlier use, is told apart from a whole one. Messages are Arrow inside: what reads them
has nothing to parse.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("payload", pa.binary()),
        pa.field("received", pa.timestamp("us", tz="UTC")),
    ]
)
HEAD, MESSAGES = b"h", b"m"  # the first block of a segment, and all others

_FIELDS = struct.Struct(">4scQI")  # mark, kind, position in the log, length of what follows the header
_CHECKSUM = struct.Struct(">I")
_MARK = b"flog"
HEADER_BYTES = _FIELDS.size + _CHECKSUM.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a broker."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a block says of itself."""

    kind: bytes
    position: int
    body_bytes: int
    checksum: int

    @property
    def end(self) -> int:
        """The position of the next block."""
        return self.position + HEADER_BYTES + self.body_bytes


def messages_block(position: int, messages: Sequence[Message], received_us: int) -> bytes:
    """A block of messages that came at the same time."""
    columns = [
        pa.array([one.topic for one in messages], pa.string()),
        pa.array([one.payload for one in messages], pa.binary()),
        pa.array([received_us] * len(messages), pa.int64()).cast(SCHEMA.field("received").type),
    ]
    return _block(MESSAGES, position, pa.RecordBatch.from_arrays(columns, schema=SCHEMA).serialize().to_pybytes())


def messages_in(body: bytes) -> pa.RecordBatch:
    """The messages of a block."""
    return pa.ipc.read_record_batch(pa.py_buffer(body), SCHEMA)


def head_block(position: int, facts: dict[str, Any]) -> bytes:
    """The block that a segment begins with: what one has to know to go on from there."""
    return _block(HEAD, position, json.dumps(facts, separators=(",", ":")).encode())


def facts_in(body: bytes) -> dict[str, Any]:
    """What the head of a segment says."""
    facts: dict[str, Any] = json.loads(body)
    return facts


def header_at(data: bytes, place: int, position: int) -> Header | None:
    """The header at this place of the data, if one is there whole and belongs at this position of the log."""
    if len(data) - place < HEADER_BYTES:
        return None
    mark, kind, claimed, body_bytes = _FIELDS.unpack_from(data, place)
    if mark != _MARK or claimed != position:
        return None
    (checksum,) = _CHECKSUM.unpack_from(data, place + _FIELDS.size)
    return Header(kind=kind, position=position, body_bytes=body_bytes, checksum=checksum)


def body_at(data: bytes, place: int, header: Header) -> bytes | None:
    """The body that belongs to the header at this place, if it is there whole and unharmed."""
    body = data[place + HEADER_BYTES : place + HEADER_BYTES + header.body_bytes]
    fields = data[place : place + _FIELDS.size]
    whole = len(body) == header.body_bytes and zlib.crc32(body, zlib.crc32(fields)) == header.checksum
    return body if whole else None


def _block(kind: bytes, position: int, body: bytes) -> bytes:
    fields = _FIELDS.pack(_MARK, kind, position, len(body))
    return fields + _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(fields))) + body
