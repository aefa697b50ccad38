"""Datagrams to messages of MQTT-SN (specification, section 5.4); whatever is wrong with one is a PacketError."""

from __future__ import annotations

from firelane.mqtt.fields import Reader, utf8
from firelane.mqtt.reasons import malformed
from firelane.mqtt.sn.messages import (
    FIRE_AND_FORGET,
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

_KINDS = {int(kind): kind for kind in Kind}
_TOPIC_KINDS = {int(kind): kind for kind in TopicKind}
_LONG_FORM = 1
_NO_QOS = 3  # stands for QoS -1


def decode(datagram: bytes) -> Message:
    """The message in a datagram, which must be all there is in it."""
    if len(datagram) < 2:
        raise malformed("a datagram of less than two bytes")
    body = Reader(datagram, 1)
    length = datagram[0]
    if length == _LONG_FORM:
        length = body.two_bytes()
    if length != len(datagram):
        raise malformed(f"a datagram of {len(datagram)} bytes says that it has {length}")
    number = body.byte()
    kind = _KINDS.get(number)
    if kind is None:
        raise malformed(f"message type 0x{number:02X} is not known")
    message = _message(kind, body)
    body.finish()
    return message


def _message(kind: Kind, body: Reader) -> Message:
    match kind:
        case Kind.PUBLISH:
            return _publish(body)
        case Kind.PUBACK | Kind.REGACK:
            topic_id, message_id = body.two_bytes(), body.two_bytes()
            return Acknowledged(kind=kind, topic_id=topic_id, message_id=message_id, return_code=body.byte())
        case Kind.PUBREC | Kind.PUBREL | Kind.PUBCOMP | Kind.UNSUBACK:
            return Step(kind=kind, message_id=body.two_bytes())
        case Kind.REGISTER:
            return Register(topic_id=body.two_bytes(), message_id=body.two_bytes(), topic=_text(body))
        case Kind.SUBSCRIBE | Kind.UNSUBSCRIBE:
            return _subscribe(kind, body)
        case Kind.SUBACK:
            qos = _qos(body.byte())
            topic_id, message_id = body.two_bytes(), body.two_bytes()
            return Suback(topic_id=topic_id, message_id=message_id, qos=qos, return_code=body.byte())
        case Kind.CONNECT:
            return _connect(body)
        case Kind.CONNACK | Kind.WILLTOPICRESP | Kind.WILLMSGRESP:
            return Answer(kind=kind, return_code=body.byte())
        case Kind.WILLTOPICREQ | Kind.WILLMSGREQ | Kind.PINGRESP:
            return Plain(kind=kind)
        case Kind.WILLTOPIC | Kind.WILLTOPICUPD:
            return _will_topic(kind, body)
        case Kind.WILLMSG | Kind.WILLMSGUPD:
            return WillMessage(kind=kind, payload=body.rest())
        case Kind.PINGREQ:
            return PingRequest(client_id=_text(body))
        case Kind.DISCONNECT:
            return Disconnect(duration_s=body.two_bytes() if body.at < body.end else None)
        case Kind.ADVERTISE:
            return Advertise(gateway_id=body.byte(), duration_s=body.two_bytes())
        case Kind.SEARCHGW:
            return SearchGateway(radius=body.byte())
        case Kind.GWINFO:
            return GatewayInfo(gateway_id=body.byte(), address=body.rest())


def _publish(body: Reader) -> Publish:
    flags = body.byte()
    kind = _topic_kind(flags)
    topic: int | str = _short(body) if kind is TopicKind.SHORT else body.two_bytes()
    qos = flags >> 5 & 3
    return Publish(
        topic=topic,
        topic_kind=kind,
        message_id=body.two_bytes(),
        qos=FIRE_AND_FORGET if qos == _NO_QOS else qos,
        retain=bool(flags & 0x10),
        duplicate=bool(flags & 0x80),
        payload=body.rest(),
    )


def _subscribe(kind: Kind, body: Reader) -> Subscribe:
    flags, message_id = body.byte(), body.two_bytes()
    topic_kind = _topic_kind(flags)
    topic: int | str
    match topic_kind:
        case TopicKind.NORMAL:
            topic = _text(body)
        case TopicKind.PREDEFINED:
            topic = body.two_bytes()
        case TopicKind.SHORT:
            topic = _short(body)
    if kind is Kind.UNSUBSCRIBE:
        return Subscribe(kind=kind, message_id=message_id, topic=topic, topic_kind=topic_kind)
    duplicate = bool(flags & 0x80)
    return Subscribe(
        kind=kind, message_id=message_id, topic=topic, topic_kind=topic_kind, qos=_qos(flags), duplicate=duplicate
    )


def _connect(body: Reader) -> Connect:
    flags, protocol_id, duration_s = body.byte(), body.byte(), body.two_bytes()
    return Connect(
        client_id=_text(body),
        duration_s=duration_s,
        clean_session=bool(flags & 0x04),
        will=bool(flags & 0x08),
        protocol_id=protocol_id,
    )


def _will_topic(kind: Kind, body: Reader) -> WillTopic:
    if body.at == body.end:
        return WillTopic(kind=kind)
    flags, topic = body.byte(), _text(body)
    return (
        WillTopic(kind=kind, topic=topic, qos=_qos(flags), retain=bool(flags & 0x10)) if topic else WillTopic(kind=kind)
    )


def _topic_kind(flags: int) -> TopicKind:
    kind = _TOPIC_KINDS.get(flags & 3)
    if kind is None:
        raise malformed("topic id type 3 is reserved")
    return kind


def _qos(flags: int) -> int:
    qos = flags >> 5 & 3
    if qos == _NO_QOS:
        raise malformed("QoS -1 is only for PUBLISH")
    return qos


def _short(body: Reader) -> str:
    return utf8(bytes((body.byte(), body.byte())))


def _text(body: Reader) -> str:
    return utf8(body.rest())
