"""What a client on UDP says, one function per message: passed on to the broker as MQTT 5, or answered at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firelane.exchange.clients.connection import Phase
from firelane.exchange.gateway import entering
from firelane.exchange.gateway.peer import State
from firelane.exchange.gateway.sending import Pending
from firelane.exchange.protocol.subscribing import MOST_LEVELS
from firelane.mqtt import packets as mqtt
from firelane.mqtt.reasons import Reason
from firelane.mqtt.sn.messages import (
    Acknowledged,
    Disconnect,
    Kind,
    Message,
    PingRequest,
    Publish,
    Register,
    ReturnCode,
    SearchGateway,
    Step,
    Suback,
    Subscribe,
    TopicKind,
    WillMessage,
    WillTopic,
)
from firelane.mqtt.topics import filter_problem, topic_problem

if TYPE_CHECKING:
    from firelane.exchange.gateway.peer import Peer

_INTRODUCTION = (Kind.WILLTOPIC, Kind.WILLMSG)
_ACKS = {Kind.PUBREC: mqtt.Kind.PUBREC, Kind.PUBREL: mqtt.Kind.PUBREL, Kind.PUBCOMP: mqtt.Kind.PUBCOMP}


def handle(peer: Peer, message: Message, now: float) -> None:
    """A message that is no CONNECT."""
    if not _is_in_place(peer, message):
        peer.ignore()
        return
    peer.connection.heard_at = now
    if not peer.proven and getattr(message, "kind", None) not in _INTRODUCTION:
        peer.prove()
    match message:
        case Publish():
            _publish(peer, message, now)
        case Acknowledged(kind=Kind.PUBACK):
            _published(peer, message, now)
        case Acknowledged():
            _registered(peer, message, now)
        case Step() if message.kind in _ACKS and message.message_id:
            if message.kind is not Kind.PUBREL:
                peer.sending.answered(message.message_id)
            peer.pass_on(mqtt.Ack(kind=_ACKS[message.kind], packet_id=message.message_id), now)
        case Register():
            _register(peer, message)
        case Subscribe():
            _subscribe(peer, message, now)
        case PingRequest():
            if peer.state is State.ASLEEP:
                peer.wake(now, for_good=False)
            peer.pass_on(mqtt.Ping(mqtt.Kind.PINGREQ), now)
        case Disconnect():
            _disconnect(peer, message, now)
        case WillTopic():
            entering.handle_will_topic(peer, message, now)
        case WillMessage():
            entering.handle_will_message(peer, message, now)
        case SearchGateway():
            peer.listener.introduce_to(peer.address)
        case _:
            peer.ignore()


def _is_in_place(peer: Peer, message: Message) -> bool:
    """Who has not been let in has only a will to tell, and who publishes too fast is not listened to for a while."""
    if peer.connection.phase is Phase.OPEN:
        return peer.connection.reading or isinstance(message, Disconnect)
    in_place = WillTopic | WillMessage | Disconnect
    return peer.connection.phase is not Phase.CLOSING and isinstance(message, in_place)


def _publish(peer: Peer, message: Publish, now: float) -> None:
    name = peer.sending.topics.name(message.topic_kind, message.topic)
    number = message.topic if isinstance(message.topic, int) else 0
    qos = max(message.qos, 0)
    if name is None or topic_problem(name):
        code = ReturnCode.INVALID_TOPIC_ID if name is None else ReturnCode.NOT_SUPPORTED
        answer = Acknowledged(kind=Kind.PUBACK, topic_id=number, message_id=message.message_id, return_code=code)
        peer.say(answer)
        return
    if qos and not message.message_id:
        peer.ignore()
        return
    if qos:
        peer.ask(message.message_id, TopicKind.NORMAL, number)
    packet = mqtt.Publish(
        topic=name,
        payload=message.payload,
        qos=qos,
        retain=message.retain,
        duplicate=message.duplicate and qos > 0,
        packet_id=message.message_id if qos else 0,
    )
    peer.pass_on(packet, now)


def _published(peer: Peer, message: Acknowledged, now: float) -> None:
    """PUBACK: it has a message of QoS 1, or cannot take one."""
    sending = peer.sending
    if message.return_code == ReturnCode.INVALID_TOPIC_ID:
        sending.unknown_topic(message, now)
    elif message.return_code == ReturnCode.CONGESTION or message.message_id not in sending.flying:
        return  # it is sent again when its time has come, or was answered before
    elif message.return_code == ReturnCode.ACCEPTED:
        sending.answered(message.message_id)
        peer.pass_on(mqtt.Ack(kind=mqtt.Kind.PUBACK, packet_id=message.message_id), now)
    else:
        _give_up(peer, sending.flying[message.message_id], now)


def _registered(peer: Peer, message: Acknowledged, now: float) -> None:
    """REGACK: what waits for the number goes on."""
    if not peer.sending.expects(message):
        return
    for unwanted in peer.sending.registered(message):
        _give_up(peer, unwanted, now)
    if peer.connection.session is not None:
        peer.broker.serving.resume(peer.connection.session, now)


def _give_up(peer: Peer, pending: Pending, now: float) -> None:
    """The client does not want a message: for the broker it is answered."""
    message = pending.message
    peer.sending.answered(message.message_id)
    if isinstance(message, Publish):
        kind = mqtt.Kind.PUBACK if message.qos == 1 else mqtt.Kind.PUBREC
        reason = Reason.IMPLEMENTATION_SPECIFIC_ERROR
        peer.pass_on(mqtt.Ack(kind=kind, packet_id=message.message_id, reason=reason), now)


def _register(peer: Peer, message: Register) -> None:
    number, code = 0, ReturnCode.ACCEPTED
    if topic_problem(message.topic) or message.topic.count("/") >= MOST_LEVELS:
        code = ReturnCode.NOT_SUPPORTED
    else:
        number = peer.sending.topics.register(message.topic)
    answer = Acknowledged(kind=Kind.REGACK, topic_id=number, message_id=message.message_id, return_code=code)
    peer.say(answer)


def _subscribe(peer: Peer, message: Subscribe, now: float) -> None:
    """SUBSCRIBE and UNSUBSCRIBE."""
    message_id = message.message_id
    wanted = peer.sending.topics.name(message.topic_kind, message.topic)
    if not message_id:
        peer.ignore()
    elif wanted is None or filter_problem(wanted):
        code = ReturnCode.INVALID_TOPIC_ID if wanted is None else ReturnCode.NOT_SUPPORTED
        refusal: Message = Suback(message_id=message_id, return_code=code)
        peer.say(refusal if message.kind is Kind.SUBSCRIBE else Step(kind=Kind.UNSUBACK, message_id=message_id))
    elif message.kind is Kind.UNSUBSCRIBE:
        peer.pass_on(mqtt.Unsubscribe(packet_id=message_id, filters=[wanted]), now)
    else:
        peer.ask(message_id, message.topic_kind, message.topic)
        wish = mqtt.Subscription(filter=wanted, qos=message.qos)
        peer.pass_on(mqtt.Subscribe(packet_id=message_id, subscriptions=[wish]), now)


def _disconnect(peer: Peer, message: Disconnect, now: float) -> None:
    """The end, or with a duration a sleep of that long."""
    if peer.connection.phase is not Phase.OPEN:
        peer.close()
    elif message.duration_s:
        peer.connection.keep_alive_s = message.duration_s
        peer.fall_asleep(now)
        peer.say(Disconnect())
    else:
        peer.pass_on(mqtt.Disconnect(), now)
