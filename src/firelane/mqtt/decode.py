"""Bytes to packets: framing, then one function per packet type (MQTT 5 and 3.1.1, section 3).

A PacketError carries the reason code that the offender is to be told. What depends on the state of a
session (an unknown packet identifier, an alias never set) is not judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized

from firelane.mqtt.fields import Reader
from firelane.mqtt.packets import (
    V3,
    V5,
    Ack,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Kind,
    Packet,
    Ping,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from firelane.mqtt.properties import MOST_REPEATED, WILL, read_properties
from firelane.mqtt.reasons import REASONS, PacketError, Reason, malformed, protocol_error
from firelane.mqtt.topics import SHARED, filter_problem, topic_problem

LARGEST = 268_435_460  # bytes of a packet, by the protocol
MOST_FILTERS = 10_000  # in one packet, so that none keeps others waiting for long
_MUST_BE_TWO = (Kind.PUBREL, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE)  # flags 0010


def frame(buffer: bytes | bytearray, start: int, most_bytes: int) -> tuple[int, int] | None:
    """Where the body of the packet at `start` begins and ends, or None while its length is incomplete.

    The end may lie beyond the buffer: the body has not arrived whole yet.
    """
    length = 0
    for place in range(4):
        at = start + 1 + place
        if at >= len(buffer):
            return None
        byte = buffer[at]
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if place and byte == 0:
                raise malformed("the remaining length is longer than it needs to be")
            if at + 1 + length - start > most_bytes:
                raise PacketError(Reason.PACKET_TOO_LARGE, f"a packet of more than {most_bytes} bytes")
            return at + 1, at + 1 + length
    raise malformed("the remaining length has more than four bytes")


def packets(data: bytes, version: int) -> Iterator[Packet]:
    """The packets in these bytes, which end with the last and are the exchange's own: to what a client may have said as
    often as it may, that has added something."""
    at = 0
    while at < len(data):
        found = frame(data, at, LARGEST)
        assert found is not None
        start, end = found
        if data[at] >> 4 == Kind.PUBLISH:
            yield decode_publish(data[at] & 0x0F, data[start:end], version, most_repeated=LARGEST)
        else:
            yield decode(data[at], data[start:end], version)
        at = end


def decode(first: int, body: bytes, version: int) -> Packet:
    """The packet with this first byte and body, in the protocol version of its connection."""
    kind, flags = first >> 4, first & 0x0F
    if kind == Kind.PUBLISH:
        return decode_publish(flags, body, version)
    if kind == 0 or (kind == Kind.AUTH and version != V5):
        raise malformed(f"packet type {kind} is reserved")
    if flags != (2 if kind in _MUST_BE_TWO else 0):
        raise malformed(f"reserved flags of a {Kind(kind).name} are set")
    return _DECODERS[Kind(kind)](Reader(body), Kind(kind), version)


def decode_publish(flags: int, body: bytes, version: int, most_repeated: int = MOST_REPEATED) -> Publish:
    """PUBLISH (section 3.3), the one packet that must be read fast."""
    qos = flags >> 1 & 3
    if qos == 3:
        raise malformed("a PUBLISH with QoS 3")
    if qos == 0 and flags & 8:
        raise malformed("a PUBLISH of QoS 0 marked as a duplicate")
    reader = Reader(body)
    topic = reader.string()
    packet_id = _packet_id(reader) if qos else 0
    properties = read_properties(reader, Kind.PUBLISH, most_repeated) if version == V5 else {}
    _check_topic(topic, version, aliased="topic_alias" in properties)
    if "response_topic" in properties:
        _check_topic(properties["response_topic"], version)
    return Publish(
        topic=topic,
        payload=reader.rest(),
        qos=qos,
        retain=bool(flags & 1),
        duplicate=bool(flags & 8),
        packet_id=packet_id,
        properties=properties,
    )


def _check_topic(topic: str, version: int, *, aliased: bool = False) -> None:
    if topic == "" and aliased:
        return
    if topic == "" and version == V5:
        raise protocol_error("an empty topic name without a topic alias")
    if problem := topic_problem(topic):
        raise PacketError(Reason.TOPIC_NAME_INVALID, problem)


def _packet_id(reader: Reader) -> int:
    packet_id = reader.two_bytes()
    if packet_id == 0:
        raise protocol_error("packet identifier 0")
    return packet_id


def _connect(reader: Reader, _: Kind, __: int) -> Connect:
    name, version = reader.binary(), reader.byte()
    if name != b"MQTT" or version not in (V3, V5):
        raise PacketError(Reason.UNSUPPORTED_PROTOCOL_VERSION, "only MQTT 3.1.1 and 5 are spoken here")
    flags = reader.byte()
    if flags & 1:
        raise malformed("the reserved flag of a CONNECT is set")
    keep_alive_s = reader.two_bytes()
    properties = read_properties(reader, Kind.CONNECT) if version == V5 else {}
    if "authentication_data" in properties and "authentication_method" not in properties:
        raise protocol_error("authentication data without a method")
    client_id = reader.string()
    will = _will(reader, flags, version)
    has_user, has_password = bool(flags & 0x80), bool(flags & 0x40)
    if has_password and not has_user and version == V3:
        raise malformed("a password without a user name")
    user = reader.string() if has_user else None
    password = reader.binary() if has_password else None
    reader.finish()
    return Connect(
        client_id=client_id,
        version=version,
        clean_start=bool(flags & 2),
        keep_alive_s=keep_alive_s,
        user=user,
        password=password,
        will=will,
        properties=properties,
    )


def _will(reader: Reader, flags: int, version: int) -> Will | None:
    qos, retain = flags >> 3 & 3, bool(flags & 0x20)
    if not flags & 4:
        if qos or retain:
            raise malformed("flags of a will without a will")
        return None
    if qos == 3:
        raise malformed("a will with QoS 3")
    properties = read_properties(reader, WILL) if version == V5 else {}
    topic, payload = reader.string(), reader.binary()
    for name in (topic, properties.get("response_topic", topic)):
        if problem := topic_problem(name):
            raise PacketError(Reason.TOPIC_NAME_INVALID, problem)
    return Will(topic=topic, payload=payload, qos=qos, retain=retain, properties=properties)


def _connack(reader: Reader, _: Kind, version: int) -> Connack:
    flags, reason = reader.byte(), reader.byte()
    if flags > 1:
        raise malformed("reserved flags of a CONNACK are set")
    properties = read_properties(reader, Kind.CONNACK) if version == V5 else {}
    reader.finish()
    return Connack(session_present=bool(flags), reason=reason, properties=properties)


def _ack(reader: Reader, kind: Kind, version: int) -> Ack:
    packet_id = _packet_id(reader)
    reason, properties = _reason_and_properties(reader, kind, version)
    return Ack(kind=kind, packet_id=packet_id, reason=reason, properties=properties)


def _subscribe(reader: Reader, _: Kind, version: int) -> Subscribe:
    packet_id = _packet_id(reader)
    properties = read_properties(reader, Kind.SUBSCRIBE) if version == V5 else {}
    subscriptions = []
    while reader.at < reader.end:
        subscriptions.append(_subscription(reader.string(), reader.byte(), version))
        _check_count(subscriptions)
    if not subscriptions:
        raise protocol_error("a SUBSCRIBE without a filter")
    return Subscribe(packet_id=packet_id, subscriptions=subscriptions, properties=properties)


def _subscription(topic_filter: str, options: int, version: int) -> Subscription:
    _check_filter(topic_filter, version)
    if options & (0xC0 if version == V5 else 0xFC):
        raise malformed("reserved subscription options are set")
    qos, retain_handling = options & 3, options >> 4 & 3
    if qos == 3:
        raise protocol_error("a subscription with QoS 3")
    if retain_handling == 3:
        raise protocol_error("retain handling 3")
    no_local = bool(options & 4)
    if no_local and topic_filter.startswith(SHARED):
        raise protocol_error("no local on a shared subscription")
    return Subscription(
        filter=topic_filter,
        qos=qos,
        no_local=no_local,
        retain_as_published=bool(options & 8),
        retain_handling=retain_handling,
    )


def _check_filter(topic_filter: str, version: int) -> None:
    if problem := filter_problem(topic_filter):
        raise PacketError(Reason.TOPIC_FILTER_INVALID, problem)
    if version == V5 and topic_filter.startswith(SHARED):
        _, group, *levels = topic_filter.split("/", 2)
        if not group or "+" in group or "#" in group or not levels or not levels[0]:
            raise PacketError(Reason.TOPIC_FILTER_INVALID, "a shared subscription is $share/NAME/FILTER")


def _check_count(filters: Sized) -> None:
    if len(filters) > MOST_FILTERS:
        raise PacketError(Reason.QUOTA_EXCEEDED, f"more than {MOST_FILTERS} filters in one packet")


def _unsubscribe(reader: Reader, _: Kind, version: int) -> Unsubscribe:
    packet_id = _packet_id(reader)
    properties = read_properties(reader, Kind.UNSUBSCRIBE) if version == V5 else {}
    filters = []
    while reader.at < reader.end:
        filters.append(reader.string())
        _check_filter(filters[-1], version)
        _check_count(filters)
    if not filters:
        raise protocol_error("an UNSUBSCRIBE without a filter")
    return Unsubscribe(packet_id=packet_id, filters=filters, properties=properties)


def _suback(reader: Reader, kind: Kind, version: int) -> Suback:
    packet_id = _packet_id(reader)
    properties = read_properties(reader, kind) if version == V5 else {}
    if kind is Kind.UNSUBACK and version == V3:
        reader.finish()  # 3.1.1 has no reasons there
    return Suback(kind=kind, packet_id=packet_id, reasons=list(reader.rest()), properties=properties)


def _ping(reader: Reader, kind: Kind, _: int) -> Ping:
    reader.finish()
    return Ping(kind)


def _disconnect(reader: Reader, kind: Kind, version: int) -> Disconnect:
    reason, properties = _reason_and_properties(reader, kind, version)
    return Disconnect(reason=reason, properties=properties)


def _auth(reader: Reader, kind: Kind, version: int) -> Auth:
    reason, properties = _reason_and_properties(reader, kind, version)
    return Auth(reason=reason, properties=properties)


def _reason_and_properties(reader: Reader, kind: Kind, version: int) -> tuple[int, dict[str, object]]:
    """What may be left out at the end of a packet, and 3.1.1 never has."""
    reason, properties = int(Reason.SUCCESS), {}
    if version == V5 and reader.at < reader.end:
        reason = reader.byte()
        if reason not in REASONS[kind]:
            raise protocol_error(f"a {kind.name} does not have reason 0x{reason:02X}")
        if reader.at < reader.end:
            properties = read_properties(reader, kind)
    reader.finish()
    return reason, properties


_DECODERS: dict[Kind, Callable[[Reader, Kind, int], Packet]] = {
    Kind.CONNECT: _connect,
    Kind.CONNACK: _connack,
    Kind.PUBACK: _ack,
    Kind.PUBREC: _ack,
    Kind.PUBREL: _ack,
    Kind.PUBCOMP: _ack,
    Kind.SUBSCRIBE: _subscribe,
    Kind.SUBACK: _suback,
    Kind.UNSUBSCRIBE: _unsubscribe,
    Kind.UNSUBACK: _suback,
    Kind.PINGREQ: _ping,
    Kind.PINGRESP: _ping,
    Kind.DISCONNECT: _disconnect,
    Kind.AUTH: _auth,
}
