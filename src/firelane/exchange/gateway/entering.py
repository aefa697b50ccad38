"""CONNECT of a client on UDP, and its will (MQTT-SN 1.2, sections 6.2 to 6.4 and 6.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firelane.exchange.clients.connection import Phase
from firelane.exchange.gateway.peer import State
from firelane.exchange.protocol import connecting
from firelane.mqtt import packets as mqtt
from firelane.mqtt.sn.messages import (
    PROTOCOL_ID,
    Answer,
    Connect,
    Kind,
    Plain,
    ReturnCode,
    WillMessage,
    WillTopic,
)
from firelane.mqtt.topics import topic_problem

if TYPE_CHECKING:
    from firelane.exchange.gateway.peer import Peer

DUPLICATE_S = 1.0  # in which nobody starts anew


def handle_connect(peer: Peer, hello: Connect, now: float) -> None:
    """Ask for the will if there is one, then let the broker decide."""
    peer.hello, peer.will_topic = hello, None
    if hello.protocol_id != PROTOCOL_ID:
        _refuse(peer, ReturnCode.NOT_SUPPORTED)
    elif peer.connection.phase is Phase.CLOSING:  # there are far too many
        _refuse(peer, ReturnCode.CONGESTION)
    elif hello.will:
        peer.say(Plain(kind=Kind.WILLTOPICREQ))
    else:
        _let_in(peer, None, now)


def is_no_other(peer: Peer, hello: Connect, now: float) -> bool:
    """CONNECT from an address that is known: whether that is the same connection, and then it is dealt with."""
    again, phase = hello == peer.hello, peer.connection.phase
    just_now = now - peer.connection.opened_at < DUPLICATE_S
    if peer.state in (State.ASLEEP, State.AWAKE) and not hello.clean_session and _is(peer, hello.client_id):
        handle_connect(peer, hello, now)  # it is up again
    elif again and phase is Phase.OPEN and (not peer.proven or just_now):
        _say_entered(peer)  # it has not heard so, or a datagram came twice
    elif again and phase is Phase.NEW:
        handle_connect(peer, hello, now)
    else:
        return False
    return True


def _is(peer: Peer, client_id: str) -> bool:
    session = peer.connection.session
    return session is not None and session.client_id == client_id


def _say_entered(peer: Peer) -> None:
    peer.say(Answer(kind=Kind.CONNACK))


def _refuse(peer: Peer, code: ReturnCode) -> None:
    peer.broker.counts.connections_refused += 1
    peer.say(Answer(kind=Kind.CONNACK, return_code=code))
    peer.abort()


def _let_in(peer: Peer, will: mqtt.Will | None, now: float) -> None:
    hello, session = peer.hello, peer.connection.session
    assert hello is not None
    if session is not None:  # it was only asleep
        connecting.change_will(peer.broker, session, will)
        peer.wake(now, for_good=True)
        _say_entered(peer)
        return
    properties = {"receive_maximum": 1}
    if not hello.clean_session:
        properties["session_expiry_interval"] = connecting.FOREVER
    packet = mqtt.Connect(
        client_id=hello.client_id,
        clean_start=hello.clean_session,
        keep_alive_s=hello.duration_s,
        will=will,
        properties=properties,
    )
    peer.pass_on(packet, now)


def handle_will_topic(peer: Peer, message: WillTopic, now: float) -> None:
    """WILLTOPIC, which an empty one ends, and WILLTOPICUPD."""
    if message.kind is Kind.WILLTOPICUPD:
        _change_topic(peer, message)
    elif peer.hello is None or not peer.hello.will:
        peer.ignore()
    elif not message.topic:
        _let_in(peer, None, now)
    else:
        peer.will_topic = message
        peer.say(Plain(kind=Kind.WILLMSGREQ))


def handle_will_message(peer: Peer, message: WillMessage, now: float) -> None:
    """WILLMSG and WILLMSGUPD."""
    if message.kind is Kind.WILLMSGUPD:
        _change_message(peer, message)
    elif peer.will_topic is not None:
        topic, peer.will_topic = peer.will_topic, None
        _let_in(peer, _will(topic, message.payload), now)
    elif peer.state is State.ACTIVE and not peer.proven:
        _say_entered(peer)
    else:
        peer.ignore()


def _will(topic: WillTopic | mqtt.Will, payload: bytes) -> mqtt.Will:
    return mqtt.Will(topic=topic.topic, payload=payload, qos=topic.qos, retain=topic.retain)


def _change_topic(peer: Peer, message: WillTopic) -> None:
    session, code = peer.connection.session, ReturnCode.ACCEPTED
    if session is None or (message.topic and topic_problem(message.topic)):
        code = ReturnCode.NOT_SUPPORTED
    else:
        payload = b"" if session.will is None else session.will.payload
        connecting.change_will(peer.broker, session, _will(message, payload) if message.topic else None)
    peer.say(Answer(kind=Kind.WILLTOPICRESP, return_code=code))


def _change_message(peer: Peer, message: WillMessage) -> None:
    session, code = peer.connection.session, ReturnCode.ACCEPTED
    if session is None or session.will is None:
        code = ReturnCode.NOT_SUPPORTED
    else:
        connecting.change_will(peer.broker, session, _will(session.will, message.payload))
    peer.say(Answer(kind=Kind.WILLMSGRESP, return_code=code))
