"""What the broker answers, told to a client on UDP: a packet of MQTT 5 becomes a message of MQTT-SN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firelane.mqtt import packets as mqtt
from firelane.mqtt.reasons import Reason
from firelane.mqtt.sn.encode import encode
from firelane.mqtt.sn.messages import (
    Acknowledged,
    Answer,
    Kind,
    Message,
    Plain,
    Publish,
    ReturnCode,
    Step,
    Suback,
    TopicKind,
)
from firelane.mqtt.topics import NEED, SHARED, topic_problem

if TYPE_CHECKING:
    from firelane.exchange.gateway.peer import Peer

_STEPS = {mqtt.Kind.PUBREC: Kind.PUBREC, mqtt.Kind.PUBCOMP: Kind.PUBCOMP}
_BUSY = (Reason.QUOTA_EXCEEDED, Reason.CONNECTION_RATE_EXCEEDED, Reason.SERVER_BUSY, Reason.SERVER_UNAVAILABLE)


def tell(peer: Peer, packet: mqtt.Packet) -> None:
    """A packet from the broker to a client."""
    match packet:
        case mqtt.Publish():
            _publish(peer, packet)
        case mqtt.Ack(kind=mqtt.Kind.PUBREL):
            peer.sending.release(packet.packet_id)
        case mqtt.Ack():
            _tell_published(peer, packet)
        case mqtt.Suback(kind=mqtt.Kind.SUBACK):
            _tell_subscribed(peer, packet)
        case mqtt.Suback():
            _answer(peer, Step(kind=Kind.UNSUBACK, message_id=packet.packet_id))
        case mqtt.Ping() if not peer.awake:  # else it comes when there is nothing more
            _answer(peer, Plain(kind=Kind.PINGRESP))
        case mqtt.Connack():
            _tell_entered(peer, packet)
        case _:
            pass  # why a connection ends is more than MQTT-SN can say


def return_code(reason: int) -> ReturnCode:
    """The nearest that MQTT-SN has to a reason of MQTT 5."""
    if reason < Reason.UNSPECIFIED_ERROR:
        return ReturnCode.ACCEPTED
    return ReturnCode.CONGESTION if reason in _BUSY else ReturnCode.NOT_SUPPORTED


def _answer(peer: Peer, message: Message) -> None:
    """An answer whose packet has been counted on the link."""
    peer.out(encode(message))


def _publish(peer: Peer, packet: mqtt.Publish) -> None:
    message = Publish(
        topic=0,
        payload=packet.payload,
        message_id=packet.packet_id,
        qos=packet.qos,
        retain=packet.retain,
        duplicate=packet.duplicate,
    )
    peer.sending.publish(packet.topic, message)


def _tell_published(peer: Peer, packet: mqtt.Ack) -> None:
    """PUBACK, PUBREC and PUBCOMP; a PUBREC cannot say no, so PUBACK does it (section 5.4.13)."""
    code = return_code(packet.reason)
    if packet.kind is mqtt.Kind.PUBACK or (packet.kind is mqtt.Kind.PUBREC and code is not ReturnCode.ACCEPTED):
        _, number = peer.asked(packet.packet_id)
        answer = Acknowledged(kind=Kind.PUBACK, topic_id=int(number), message_id=packet.packet_id, return_code=code)
        _answer(peer, answer)
        return
    if packet.kind is mqtt.Kind.PUBREC:
        peer.asked(packet.packet_id)
    _answer(peer, Step(kind=_STEPS[packet.kind], message_id=packet.packet_id))


def _tell_subscribed(peer: Peer, packet: mqtt.Suback) -> None:
    """SUBACK gives a single topic its number; those that a filter stands for are registered as they come."""
    kind, topic = peer.asked(packet.packet_id)
    reason, number = packet.reasons[0], 0
    code = return_code(reason)
    if code is ReturnCode.ACCEPTED:
        if isinstance(topic, int):
            number = topic
        elif kind is TopicKind.NORMAL and not topic.startswith((NEED, SHARED)) and not topic_problem(topic):
            number = peer.sending.topics.register(topic)
    granted = reason if code is ReturnCode.ACCEPTED else 0
    _answer(peer, Suback(message_id=packet.packet_id, topic_id=number, qos=granted, return_code=code))


def _tell_entered(peer: Peer, packet: mqtt.Connack) -> None:
    code = return_code(packet.reason)
    if code is ReturnCode.ACCEPTED:
        if not packet.session_present:
            peer.doubt()
        peer.activate()
    else:
        peer.silent = True
    _answer(peer, Answer(kind=Kind.CONNACK, return_code=code))
