"""What the exchange writes into its log, as bytes: one kind of record for everything that must survive.

Messages and their progress are binary, as they come by the thousand; sessions and subscriptions are JSON.
A message record names who is owed the message, so that it lies in the log once, however many want it.
"""

from __future__ import annotations

import base64
import json
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from firelane.mqtt.packets import Will


class Record(IntEnum):
    """The kinds of records."""

    SESSION = 1
    SESSION_ENDED = 2
    SUBSCRIBED = 3
    UNSUBSCRIBED = 4
    MESSAGE = 5
    DONE = 6  # a session has had a message, or never will
    SENT = 7  # QoS 2: a message is about to be sent under a packet identifier
    RELEASED = 8  # QoS 2: its client has it
    COMPLETED = 9  # QoS 2: and has forgotten the identifier
    FORGOTTEN = 10  # QoS 2 from a publisher: an identifier is free again
    RETAINED = 11
    UNRETAINED = 12


_MESSAGE = struct.Struct("<QdIHBxIHI")
_MESSAGE_FOR_ONE = struct.Struct("<QdIHBxIHIIB")
_NUMBER = struct.Struct("<I")
_DONE = struct.Struct("<IQ")
_SENT = struct.Struct("<IQH")
_IDENTIFIER = struct.Struct("<IH")
_HAS_IDENTIFIERS = 0x80
RETAIN = 4  # among the flags of a message, above its QoS
RETOLD = 8  # and that its first number stands before its payload
_FIRST = struct.Struct("<Q")


class Owed(NamedTuple):
    """What one session is owed of a message."""

    number: int
    qos: int
    retain: bool
    identifiers: tuple[int, ...] = ()


@dataclass(slots=True)
class StoredMessage:
    """A message as the log has it. Times are of the wall clock; 0 is never."""

    sequence: int
    expires_at: float
    publisher: int
    packet_id: int  # of its publisher's QoS 2 exchange, or 0
    qos: int
    retain: bool
    owed: list[Owed]
    topic: bytes
    properties: bytes
    payload: bytes
    first: int = 0  # of a retained one that was told again


def write_message(
    owed: list[tuple[int, int, bool, tuple[int, ...]]],
    sequence: int,
    expires_at: float,
    publisher: int,
    packet_id: int,
    flags: int,
    topic: bytes,
    properties: bytes,
    payload: bytes,
    first: int = 0,
) -> bytes:
    """The body of a MESSAGE or RETAINED record: who is owed it (as Owed has it), then the fields of StoredMessage."""
    if first:
        flags, payload = flags | RETOLD, _FIRST.pack(first) + payload
    head = _MESSAGE.pack(sequence, expires_at, publisher, packet_id, flags, len(owed), len(topic), len(properties))
    numbers = array("I", [one[0] for one in owed]).tobytes()
    each = bytes([qos | retain << 2 | (_HAS_IDENTIFIERS if several else 0) for _, qos, retain, several in owed])
    identifiers = b"".join(
        [bytes((min(len(one[3]), 255),)) + array("I", one[3][:255]).tobytes() for one in owed if one[3]]
    )
    return b"".join((head, numbers, each, identifiers, topic, properties, payload))


def write_message_for_one(
    number: int, owed_flags: int, sequence: int, publisher: int, flags: int,
    topic: bytes, properties: bytes, payload: bytes,
) -> bytes:  # fmt: skip
    """The same for one session, without identifiers, of a message that does not expire: the common case."""
    head = _MESSAGE_FOR_ONE.pack(sequence, 0.0, publisher, 0, flags, 1, len(topic), len(properties), number, owed_flags)
    return b"".join((head, topic, properties, payload))


def read_message(body: bytes) -> StoredMessage:
    """A MESSAGE or RETAINED record, whole."""
    sequence, expires_at, publisher, packet_id, flags, count, topic_length, properties_length = _MESSAGE.unpack_from(
        body
    )
    at = _MESSAGE.size
    numbers = array("I")
    numbers.frombytes(body[at : at + 4 * count])
    owed_flags = body[at + 4 * count : at + 5 * count]
    at += 5 * count
    owed = []
    for number, one in zip(numbers, owed_flags, strict=True):
        identifiers = array("I")
        if one & _HAS_IDENTIFIERS:
            end = at + 1 + 4 * body[at]
            identifiers.frombytes(body[at + 1 : end])
            at = end
        owed.append(Owed(number, one & 3, bool(one & 4), tuple(identifiers)))
    topic_end = at + topic_length
    properties_end = topic_end + properties_length
    begin, first = properties_end, 0
    if flags & RETOLD:
        (first,) = _FIRST.unpack_from(body, properties_end)
        begin += _FIRST.size
    return StoredMessage(
        sequence,
        expires_at,
        publisher,
        packet_id,
        flags & 3,
        bool(flags & 4),
        owed,
        body[at:topic_end],
        body[topic_end:properties_end],
        body[begin:],
        first,
    )


def write_number(number: int) -> bytes:
    """A session's number: SESSION_ENDED."""
    return _NUMBER.pack(number)


def read_number(body: bytes) -> int:
    """A session's number."""
    return int(_NUMBER.unpack(body)[0])


def write_done(number: int, sequence: int) -> bytes:
    """DONE: session and message."""
    return _DONE.pack(number, sequence)


def read_done(body: bytes) -> Iterator[tuple[int, int]]:
    """DONE: session and message, of one or more one after the other."""
    return _DONE.iter_unpack(body)


def write_sent(number: int, sequence: int, packet_id: int) -> bytes:
    """SENT and RELEASED: session, message and packet identifier."""
    return _SENT.pack(number, sequence, packet_id)


def read_sent(body: bytes) -> tuple[int, int, int]:
    """SENT and RELEASED: session, message and packet identifier."""
    number, sequence, packet_id = _SENT.unpack(body)
    return number, sequence, packet_id


def write_identifier(number: int, packet_id: int) -> bytes:
    """COMPLETED and FORGOTTEN: session and packet identifier."""
    return _IDENTIFIER.pack(number, packet_id)


def read_identifier(body: bytes) -> tuple[int, int]:
    """COMPLETED and FORGOTTEN: session and packet identifier."""
    number, packet_id = _IDENTIFIER.unpack(body)
    return number, packet_id


def write_json(data: dict[str, Any]) -> bytes:
    """SESSION, SUBSCRIBED, UNSUBSCRIBED."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def read_json(body: bytes) -> dict[str, Any]:
    """SESSION, SUBSCRIBED, UNSUBSCRIBED."""
    data: dict[str, Any] = json.loads(body.decode("utf-8", "surrogatepass"))
    return data


def will_data(will: Will | None) -> dict[str, Any] | None:
    """A will as JSON can have it."""
    if will is None:
        return None
    properties = {
        name: {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in will.properties.items()
    }
    return {
        "topic": will.topic,
        "payload": base64.b64encode(will.payload).decode(),
        "qos": will.qos,
        "retain": will.retain,
        "properties": properties,
    }


def will_from(data: dict[str, Any] | None) -> Will | None:
    """And back."""
    if data is None:
        return None
    properties: dict[str, Any] = {
        name: base64.b64decode(value["base64"]) if isinstance(value, dict) else value
        for name, value in data["properties"].items()
    }
    payload = base64.b64decode(data["payload"])
    return Will(topic=data["topic"], payload=payload, qos=data["qos"], retain=data["retain"], properties=properties)
