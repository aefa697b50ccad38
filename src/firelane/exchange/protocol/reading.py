"""From bytes to packets: messages of QoS 0 and 1 to a known topic, plain or with user properties, and PUBACK take a
short way; everything else has a function of its own, called from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firelane.exchange.clients.connection import Connection, Phase
from firelane.exchange.lanes.message import NEVER
from firelane.exchange.protocol import connecting, publishing, subscribing
from firelane.mqtt.decode import LARGEST, decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, V5, Ack, Auth, Connect, Disconnect, Kind, Ping, Subscribe, Unsubscribe
from firelane.mqtt.properties import user_properties
from firelane.mqtt.reasons import PacketError, Reason, protocol_error

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker

STALL_S = 1.0
SHORT_BYTES = 130  # of a packet whose length takes one byte
SHORTEST_MESSAGE_BYTES = 5
LOOKED_AT_ONCE = 32  # messages, before the log is asked again whether it takes more
_PINGRESP = bytes((Kind.PINGRESP << 4, 0))
_QOS_0, _QOS_1, _ACKNOWLEDGED = 0x30, 0x32, 0x40  # first bytes of packets without flags


def received(broker: Broker, connection: Connection, data: bytes, now: float) -> None:
    """Take in what a client has sent, and keep the beginning of a packet whose end has not come yet."""
    broker.counts.bytes_received += len(data)
    partial = connection.partial
    if partial is None and connection.fast and len(data) < SHORT_BYTES and _took_one(broker, connection, data, now):
        return
    if partial is not None or connection.stalled_until:
        partial = connection.partial = bytearray() if partial is None else partial
        partial += data
        if len(partial) < connection.needed or connection.stalled_until:
            return
        data, connection.partial = bytes(partial), None
    log = broker.journal.log
    before = log.appended
    at = _take_packets(broker, connection, data, now)
    if log.appended != before and broker.journal.behind:
        broker.stall(connection, now)  # until the disk has caught up, see `Broker.tick`
    if connection.phase is Phase.CLOSING:
        connection.partial = None
    elif at < len(data):
        connection.partial = bytearray(data[at:] if at else data)
        connection.partial_since = now
        connection.needed = 0 if connection.stalled_until else _needed(data, at)


def _took_one(broker: Broker, connection: Connection, data: bytes, now: float) -> bool:
    """Take in the usual message of a sensor: a read that is one plain PUBLISH of QoS 0 to a known topic.

    When little comes, every function on the way is cold, and this is a shorter one.
    """
    end = len(data)
    if end < SHORTEST_MESSAGE_BYTES or data[0] != _QOS_0 or data[1] != end - 2 or connection.stalled_until:
        return False
    rest = 4 + (data[2] << 8 | data[3])
    topic = data[4:rest]
    route = broker.routes.known.get(topic)
    if route is None or connection.allowed is not None or connection.publish_credit != NEVER:
        return False
    if end > broker.limits.packet_bytes:
        return False
    if connection.version == V5:
        if rest >= end or data[rest]:
            return False
        message = broker.new_message(topic, data[rest + 1 :], 0, False, connection.session)
        message.wire5 = data
    else:
        if rest > end:
            return False
        message = broker.new_message(topic, data[rest:], 0, False, connection.session)
        message.wire3 = data
    broker.delivering.deliver(message, route, now)
    counts = broker.counts
    counts.packets_received += 1
    counts.publish_received += 1
    counts.publish_bytes_received += len(message.payload)
    connection.heard_at = now
    return True


def _take_packets(broker: Broker, connection: Connection, data: bytes, now: float) -> int:
    """Take all whole packets; returns where the first one begins that is not whole or is to be shown again."""
    at, end, most_bytes = 0, len(data), broker.limits.packet_bytes
    if connection.numbered:  # what has been taken in at another site is
        most_bytes = LARGEST
    known, deliver, new_message = broker.routes.known, broker.delivering.deliver, broker.new_message
    acknowledged, journal = broker.answering.acknowledged, broker.journal
    v5, allowed, fast = connection.version == V5, connection.allowed, connection.fast
    session, answered = connection.session, False
    packets = messages = quick = quick_bytes = 0
    answers: list[bytes] = []
    written = journal.log.appended
    try:
        while end - at > 1:
            first, length = data[at], data[at + 1]
            body = at + 2
            stop = body + length
            if length > 127 or stop - at > most_bytes:
                found = frame(data, at, most_bytes)
                if found is None:
                    break
                body, stop = found
            if stop > end:
                break
            packets += 1
            if fast:
                if (first == _QOS_0 or first == _QOS_1) and stop - body > 2:  # noqa: PLR1714, SIM109 (hot)
                    topic_end = body + 2 + (data[body] << 8 | data[body + 1])
                    rest = topic_end + first - _QOS_0  # behind the packet identifier, if there is one
                    topic = data[body + 2 : topic_end]
                    route = known.get(topic)
                    behind = 0  # the properties that messages of MQTT 5 have; 0: the long way
                    if route is not None and (allowed is None or topic in allowed):
                        if not v5:
                            behind = rest
                        elif rest < stop and data[rest] == 0:
                            behind = rest + 1
                        else:
                            behind = _behind_user_properties(data, rest, stop)
                    if route is not None and 0 < behind <= stop:
                        payload = data[behind:stop]
                        if first == _QOS_0:
                            message = new_message(topic, payload, 0, False, session)
                            if behind - rest > 1:
                                message.properties = data[rest + 1 : behind]
                            if v5:
                                message.wire5 = data[at:stop]
                            else:
                                message.wire3 = data[at:stop]
                            deliver(message, route, now)
                            quick += 1
                            quick_bytes += len(payload)
                            at = stop
                            continue
                        packet_id = data[rest - 2 : rest]
                        if len(answers) % LOOKED_AT_ONCE or not journal.refusing:
                            properties = data[rest + 1 : behind] if behind - rest > 1 else b""
                            answer = publishing.accept_quickly(
                                broker, connection, topic, payload, properties, route, packet_id, now
                            )
                            if answer is not None:
                                answers.append(answer)
                                quick += 1
                                quick_bytes += len(payload)
                                at = stop
                                continue
                elif first == _ACKNOWLEDGED and length == 2:  # without a reason
                    assert session is not None
                    acknowledged(session, data[body] << 8 | data[body + 1])
                    answered = True
                    at = stop
                    continue
            if answers:  # before whatever this packet is answered with
                publishing.answer(broker, connection, answers, written)
                answers, written = [], journal.log.appended
            if first >> 4 == Kind.PUBLISH and connection.phase is Phase.OPEN:
                if not publishing.handle_publish(broker, connection, first & 15, data[body:stop], now):
                    broker.stall(connection, now + STALL_S)
                    packets -= 1
                    break
                messages += 1
            else:
                _handle(broker, connection, first, data[body:stop], now)
                if connection.phase is not Phase.OPEN:
                    at = stop
                    break
                v5, allowed, fast = connection.version == V5, connection.allowed, connection.fast
                session = connection.session
            at = stop
        if answers:
            publishing.answer(broker, connection, answers, written)
    except PacketError as problem:
        if answers:
            publishing.answer(broker, connection, answers, written)
        _offended(broker, connection, problem, now)
    if answered and session is not None:
        broker.answering.window_opened(session, now)
    if session is not None and session.link is not None and session.link.charged_bytes:
        session.link.settle_charges(now)
    counts = broker.counts
    counts.publish_received += quick
    counts.publish_bytes_received += quick_bytes
    counts.packets_received += packets
    if packets:
        connection.heard_at = now
    if connection.publish_credit != NEVER and messages + quick:
        _charge(broker, connection, messages + quick, now)
    return at


def _behind_user_properties(data: bytes, at: int, stop: int) -> int:
    """Where the payload of an MQTT 5 message begins; 0 if it has more than a few user properties, or is cut short."""
    end = at + 1 + data[at] if at < stop and data[at] < 128 else stop + 1
    return 0 if end > stop or user_properties(data, at + 1, end) is None else end


def _handle(broker: Broker, connection: Connection, first: int, body: bytes, now: float) -> None:
    """Any packet that has not taken the short way, but for PUBLISH on an open connection."""
    if connection.upstream is not None and connection.upstream.handled(first, body):
        return
    if connection.phase is Phase.NEW:
        if first >> 4 != Kind.CONNECT:
            raise protocol_error("the first packet must be CONNECT")
        connection.version = V5 if body.startswith(b"\0\4MQTT\5") else V3
        packet = decode(first, body, connection.version)
        assert isinstance(packet, Connect)
        connecting.handle_connect(broker, connection, packet, now)
        return
    if first == 0xC0 and not body:
        broker.outboxes.write(connection, _PINGRESP)
        return
    if first >> 4 == Kind.CONNECT:  # MQTT-3.1.0-2, whatever is in it
        raise protocol_error("a second CONNECT")
    packet = decode(first, body, connection.version)
    session, answering = connection.session, broker.answering
    assert session is not None
    match packet:
        case Ack(kind=Kind.PUBACK):
            answering.acknowledged(session, packet.packet_id)
            answering.window_opened(session, now)
        case Ack(kind=Kind.PUBREC) if packet.reason >= Reason.UNSPECIFIED_ERROR:
            answering.acknowledged(session, packet.packet_id)
            answering.window_opened(session, now)
        case Ack(kind=Kind.PUBREC):
            reason = answering.received(session, packet.packet_id)
            if reason:
                answer = Ack(kind=Kind.PUBREL, packet_id=packet.packet_id, reason=reason)
                broker.outboxes.write(connection, encode(answer, connection.version))
        case Ack(kind=Kind.PUBREL):
            publishing.handle_pubrel(broker, connection, packet)
        case Ack(kind=Kind.PUBCOMP):
            answering.completed(session, packet.packet_id)
            answering.window_opened(session, now)
        case Subscribe():
            subscribing.handle_subscribe(broker, connection, packet, now)
        case Unsubscribe():
            subscribing.handle_unsubscribe(broker, connection, packet, now)
        case Ping(kind=Kind.PINGREQ):
            broker.outboxes.write(connection, _PINGRESP)
        case Disconnect():
            connecting.handle_disconnect(broker, connection, packet, now)
        case Auth():
            raise protocol_error("AUTH without an agreed method")
        case _:
            raise protocol_error(f"a {type(packet).__name__} is not for a client to send")


def _offended(broker: Broker, connection: Connection, problem: PacketError, now: float) -> None:
    """A client broke the protocol: it is told why where its version can, and closed. Nobody else notices."""
    broker.counts.protocol_errors += 1
    if connection.phase is Phase.NEW:
        # MQTT 5 clients that got as far as saying so are told why (section 4.13).
        refused = (Reason.UNSUPPORTED_PROTOCOL_VERSION, Reason.CLIENT_IDENTIFIER_NOT_VALID)
        if problem.reason in refused or connection.version == V5:
            connecting.refuse(broker, connection, problem.reason)
        else:
            connecting.disconnect(broker, connection, problem.reason)
        return
    connecting.disconnect(broker, connection, problem.reason, problem.problem)
    connecting.closed(broker, connection, now)


def _charge(broker: Broker, connection: Connection, messages: int, now: float) -> None:
    """Who publishes faster than allowed is read from no further until the rate is kept again; nothing is lost."""
    rate_hz = broker.limits.publish_hz
    if rate_hz is None or connection.phase is Phase.CLOSING:
        return
    elapsed_s = now - connection.publish_credit_at
    connection.publish_credit = min(rate_hz, connection.publish_credit + elapsed_s * rate_hz) - messages
    connection.publish_credit_at = now
    if connection.publish_credit < 0:
        broker.stall(connection, now - connection.publish_credit / rate_hz)


def _needed(data: bytes, at: int) -> int:
    """How many bytes the packet that begins at `at` has, as far as can be told."""
    if len(data) - at < 2:
        return 2
    found = frame(data, at, 1 << 30)
    return len(data) - at + 1 if found is None else found[1] - at
