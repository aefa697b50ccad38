"""Messages of MQTT-SN to bytes (specification, section 5.4)."""

from __future__ import annotations

from firelane.mqtt.fields import two_bytes
from firelane.mqtt.sn.messages import (
    SHORT_BYTES,
    Acknowledged,
    Advertise,
    Answer,
    Connect,
    Disconnect,
    GatewayInfo,
    Kind,
    Message,
    PingRequest,
    Plain,
    Publish,
    Register,
    SearchGateway,
    Step,
    Suback,
    Subscribe,
    TopicKind,
    WillMessage,
    WillTopic,
)

MOST_BYTES = 65_535  # that a length can say; UDP takes 28 less
_SHORT_FORM = 255
PUBLISH_BYTES = 7  # before the payload; two more when the whole is longer than 255
REGISTER_BYTES = 6  # before the topic name, and the same


def encode(message: Message) -> bytes:
    """The bytes of a message; ValueError for what has none."""
    match message:
        case Publish():
            topic = _topic(message.topic, message.topic_kind)
            flags = _flags(message.qos, message.topic_kind, retain=message.retain, duplicate=message.duplicate)
            return _framed(Kind.PUBLISH, flags + topic + two_bytes(message.message_id) + message.payload)
        case Acknowledged():
            body = two_bytes(message.topic_id) + two_bytes(message.message_id) + bytes((message.return_code,))
            return _framed(message.kind, body)
        case Step():
            return _framed(message.kind, two_bytes(message.message_id))
        case Register():
            body = two_bytes(message.topic_id) + two_bytes(message.message_id) + message.topic.encode()
            return _framed(Kind.REGISTER, body)
        case Subscribe():
            flags = _flags(message.qos, message.topic_kind, duplicate=message.duplicate)
            topic = _topic(message.topic, message.topic_kind)
            return _framed(message.kind, flags + two_bytes(message.message_id) + topic)
        case Suback():
            numbers = two_bytes(message.topic_id) + two_bytes(message.message_id)
            return _framed(Kind.SUBACK, _flags(message.qos) + numbers + bytes((message.return_code,)))
        case _:
            return _encode_rare(message)


def _encode_rare(message: Message) -> bytes:
    match message:
        case Connect():
            asked = message.will << 3 | message.clean_session << 2
            body = bytes((asked, message.protocol_id)) + two_bytes(message.duration_s) + message.client_id.encode()
            return _framed(Kind.CONNECT, body)
        case Answer():
            return _framed(message.kind, bytes((message.return_code,)))
        case Plain():
            return _framed(message.kind, b"")
        case WillTopic():
            flags = _flags(message.qos, retain=message.retain)
            return _framed(message.kind, flags + message.topic.encode() if message.topic else b"")
        case WillMessage():
            return _framed(message.kind, message.payload)
        case PingRequest():
            return _framed(Kind.PINGREQ, message.client_id.encode())
        case Disconnect():
            return _framed(Kind.DISCONNECT, b"" if message.duration_s is None else two_bytes(message.duration_s))
        case Advertise():
            return _framed(Kind.ADVERTISE, bytes((message.gateway_id,)) + two_bytes(message.duration_s))
        case SearchGateway():
            return _framed(Kind.SEARCHGW, bytes((message.radius,)))
        case GatewayInfo():
            return _framed(Kind.GWINFO, bytes((message.gateway_id,)) + message.address)
        case _:
            raise TypeError(f"{type(message).__name__} is no message of MQTT-SN")


def framed_bytes(head_bytes: int, rest_bytes: int) -> int:
    """How long a message is whose fixed part, with a short length, and whose rest have so many bytes."""
    short = head_bytes + rest_bytes
    return short if short <= _SHORT_FORM else short + 2


def most_payload(datagram_bytes: int) -> int:
    """How large a message may be for its datagram to have at most so many bytes."""
    most = datagram_bytes - PUBLISH_BYTES
    while framed_bytes(PUBLISH_BYTES, most) > datagram_bytes:
        most -= 1
    return most


def _framed(kind: Kind, body: bytes) -> bytes:
    length = len(body) + 2
    if length <= _SHORT_FORM:
        return bytes((length, kind)) + body
    if length + 2 > MOST_BYTES:
        raise ValueError(f"a message of {length + 2} bytes does not fit a datagram")
    return b"\1" + two_bytes(length + 2) + bytes((kind,)) + body


def _flags(qos: int, kind: TopicKind = TopicKind.NORMAL, *, retain: bool = False, duplicate: bool = False) -> bytes:
    return bytes((duplicate << 7 | (qos & 3) << 5 | retain << 4 | kind,))


def _topic(topic: int | str, kind: TopicKind) -> bytes:
    if isinstance(topic, int):
        return two_bytes(topic)
    name = topic.encode()
    if kind is TopicKind.SHORT and len(name) != SHORT_BYTES:
        raise ValueError(f"a short topic name has {SHORT_BYTES} bytes, not {len(name)}")
    return name
