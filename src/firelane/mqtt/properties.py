"""The properties of MQTT 5 packets (section 2.2.2): which exist, where they may stand, how they are written.

In code a packet's properties are a dict from name to value; `user_property` is a list of pairs and
`subscription_identifier` a list of numbers, as these two may stand several times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from firelane.mqtt import fields
from firelane.mqtt.fields import Reader
from firelane.mqtt.packets import Kind
from firelane.mqtt.reasons import PacketError, Reason, malformed, protocol_error

Properties = dict[str, Any]

WILL = "will"  # the will's own properties, inside CONNECT
_EVERY_ACK = (Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP, Kind.SUBACK, Kind.UNSUBACK)
MOST_REPEATED = 1_000  # of one property in one packet, so that none keeps others waiting for long
USER_PROPERTY = 0x26
_REPEATABLE = ("user_property", "subscription_identifier")


class Property(NamedTuple):
    """One property: its number and name, how to read and write it, where it may stand, what it may be."""

    number: int
    name: str
    read: Callable[[Reader], Any]
    write: Callable[[Any], bytes]
    where: tuple[Kind | str, ...]
    least: int = 0
    most: int | None = None
    beyond: Reason = Reason.PROTOCOL_ERROR


def _byte(value: int) -> bytes:
    return bytes((value,))


def _read_pair(reader: Reader) -> tuple[str, str]:
    return reader.string(), reader.string()


def _write_pair(pair: tuple[str, str]) -> bytes:
    return fields.string(pair[0]) + fields.string(pair[1])


_BYTE = (Reader.byte, _byte)
_TWO = (Reader.two_bytes, fields.two_bytes)
_FOUR = (Reader.four_bytes, fields.four_bytes)
_VARIABLE = (Reader.variable, fields.variable)
_STRING = (Reader.string, fields.string)
_BINARY = (Reader.binary, fields.binary)
_PAIR = (_read_pair, _write_pair)
_MESSAGE = (Kind.PUBLISH, WILL)
_CONNECTION = (Kind.CONNECT, Kind.CONNACK)

TABLE = (
    Property(0x01, "payload_format_indicator", *_BYTE, _MESSAGE, most=1),
    Property(0x02, "message_expiry_interval", *_FOUR, _MESSAGE),
    Property(0x03, "content_type", *_STRING, _MESSAGE),
    Property(0x08, "response_topic", *_STRING, _MESSAGE),
    Property(0x09, "correlation_data", *_BINARY, _MESSAGE),
    Property(0x0B, "subscription_identifier", *_VARIABLE, (Kind.PUBLISH, Kind.SUBSCRIBE), least=1),
    Property(0x11, "session_expiry_interval", *_FOUR, (*_CONNECTION, Kind.DISCONNECT)),
    Property(0x12, "assigned_client_identifier", *_STRING, (Kind.CONNACK,)),
    Property(0x13, "server_keep_alive", *_TWO, (Kind.CONNACK,)),
    Property(0x15, "authentication_method", *_STRING, (*_CONNECTION, Kind.AUTH)),
    Property(0x16, "authentication_data", *_BINARY, (*_CONNECTION, Kind.AUTH)),
    Property(0x17, "request_problem_information", *_BYTE, (Kind.CONNECT,), most=1),
    Property(0x18, "will_delay_interval", *_FOUR, (WILL,)),
    Property(0x19, "request_response_information", *_BYTE, (Kind.CONNECT,), most=1),
    Property(0x1A, "response_information", *_STRING, (Kind.CONNACK,)),
    Property(0x1C, "server_reference", *_STRING, (Kind.CONNACK, Kind.DISCONNECT)),
    Property(0x1F, "reason_string", *_STRING, (Kind.CONNACK, *_EVERY_ACK, Kind.DISCONNECT, Kind.AUTH)),
    Property(0x21, "receive_maximum", *_TWO, _CONNECTION, least=1),
    Property(0x22, "topic_alias_maximum", *_TWO, _CONNECTION),
    Property(0x23, "topic_alias", *_TWO, (Kind.PUBLISH,), least=1, beyond=Reason.TOPIC_ALIAS_INVALID),
    Property(0x24, "maximum_qos", *_BYTE, (Kind.CONNACK,), most=1),
    Property(0x25, "retain_available", *_BYTE, (Kind.CONNACK,), most=1),
    Property(USER_PROPERTY, "user_property", *_PAIR, (*_CONNECTION, *_MESSAGE, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE,
                                                      *_EVERY_ACK, Kind.DISCONNECT, Kind.AUTH)),
    Property(0x27, "maximum_packet_size", *_FOUR, _CONNECTION, least=1),
    Property(0x28, "wildcard_subscription_available", *_BYTE, (Kind.CONNACK,), most=1),
    Property(0x29, "subscription_identifier_available", *_BYTE, (Kind.CONNACK,), most=1),
    Property(0x2A, "shared_subscription_available", *_BYTE, (Kind.CONNACK,), most=1),
)  # fmt: skip

BY_NUMBER = {one.number: one for one in TABLE}
BY_NAME = {one.name: one for one in TABLE}


def read_properties(reader: Reader, where: Kind | str, most_repeated: int = MOST_REPEATED) -> Properties:
    """The properties that stand next in a packet, checked."""
    length = reader.variable()
    if length == 0:
        return {}
    end = reader.at + length
    if end > reader.end:
        raise malformed("the properties are longer than their packet")
    pairs = user_properties(reader.body, reader.at, end, most_repeated)
    if pairs is not None:
        reader.at = end
        return {"user_property": pairs}
    inside, reader.end = reader.end, end
    found: Properties = {}
    while reader.at < end:
        _read_one(reader, where, found, most_repeated)
    reader.end = inside
    return found


def user_properties(data: bytes, at: int, end: int, most: int = MOST_REPEATED) -> list[tuple[str, str]] | None:
    """The pairs between these places if there are only good user properties, the most common kind, read in one go.

    None for anything else: `read_properties` finds out what it is, or what is wrong with it.
    """
    found: list[tuple[str, str]] = []
    try:
        while at < end:
            if data[at] != USER_PROPERTY:
                return None
            middle = at + 3 + (data[at + 1] << 8 | data[at + 2])
            after = middle + 2 + (data[middle] << 8 | data[middle + 1])
            name, value = data[at + 3 : middle].decode(), data[middle + 2 : after].decode()
            if after > end or "\0" in name or "\0" in value or len(found) >= most:
                return None
            found.append((name, value))
            at = after
    except (IndexError, UnicodeDecodeError):
        return None
    return found


def _read_one(reader: Reader, where: Kind | str, found: Properties, most_repeated: int = MOST_REPEATED) -> None:
    kind = BY_NUMBER.get(reader.variable())
    place = where if isinstance(where, str) else where.name
    if kind is None or where not in kind.where:
        raise malformed(f"a property that {place} does not have")
    value = kind.read(reader)
    if isinstance(value, int) and (value < kind.least or (kind.most is not None and value > kind.most)):
        raise PacketError(kind.beyond, f"{kind.name} may not be {value}")
    if kind.name in _REPEATABLE:
        several = found.setdefault(kind.name, [])
        if several and kind.name == "subscription_identifier" and where is Kind.SUBSCRIBE:
            raise protocol_error("two subscription identifiers in one SUBSCRIBE")
        several.append(value)
        if len(several) > most_repeated:
            raise PacketError(Reason.QUOTA_EXCEEDED, f"more than {most_repeated} times {kind.name} in one packet")
    elif kind.name in found:
        raise protocol_error(f"{kind.name} is given twice")
    else:
        found[kind.name] = value


def write_properties(properties: Properties) -> bytes:
    """Length and bytes of a packet's properties."""
    if not properties:
        return b"\0"
    parts = []
    for name, value in properties.items():
        kind = BY_NAME[name]
        several = value if name in _REPEATABLE else (value,)
        parts += [bytes((kind.number,)) + kind.write(one) for one in several]
    body = b"".join(parts)
    return fields.variable(len(body)) + body
