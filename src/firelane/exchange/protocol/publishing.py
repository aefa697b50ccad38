"""PUBLISH from a client and the rest of its QoS 1 and 2 exchanges (MQTT 5, sections 3.3 to 3.7 and 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firelane.exchange.clients import neighbours
from firelane.exchange.clients.access import Identity
from firelane.exchange.clients.connection import Connection
from firelane.exchange.clients.session import Session
from firelane.exchange.delivering.routes import Route
from firelane.exchange.journal.retained import MARKS, Kept, without_origin
from firelane.exchange.lanes.message import Message
from firelane.exchange.protocol import sensing
from firelane.exchange.protocol.subscribing import check_levels
from firelane.mqtt.decode import decode_publish
from firelane.mqtt.encode import encode
from firelane.mqtt.fields import two_bytes
from firelane.mqtt.packets import V5, Ack, Kind, Publish
from firelane.mqtt.reasons import PacketError, Reason, protocol_error
from firelane.sense.offer import GRANT, ROOT, OfferError

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker

_SUCCESS = {1: bytes((Kind.PUBACK << 4, 2)), 2: bytes((Kind.PUBREC << 4, 2))}
_ANSWERS = {1: Kind.PUBACK, 2: Kind.PUBREC}
_PUBACK, _PUBACK_NOBODY = _SUCCESS[1], bytes((Kind.PUBACK << 4, 3))
_NOBODY = bytes((Reason.NO_MATCHING_SUBSCRIBERS,))
_NO_IDENTIFIER = bytes(2)
ALERTS = "$firelane/alerts"
_ALERTS = ALERTS.encode()
NOBODY = Identity(client_id="")
_SENSE = ROOT.encode()
_OVERLAY = neighbours.TOPICS.encode()
_OWN = "$SYS/", "$firelane/", GRANT, *(one.decode() for one in MARKS)
MOST_ALLOWED = 4096
MOST_DEFERRED_BYTES = 1_000_000  # of messages put off, for each connection


def handle_publish(broker: Broker, connection: Connection, flags: int, body: bytes, now: float) -> bool:
    """PUBLISH as it came; False if it cannot be taken now and is to be shown again later.

    Who cannot be told that there is no room, or would lose the message, waits: a few messages are put off (one at
    least, however large), so that acknowledgements behind them, which may make the room, are still read.
    """
    packet = decode_publish(flags, body, connection.version)
    topic = _topic(broker, connection, packet)
    # What a part of the exchange keeps about a message must not be kept before it.
    after_others = connection.numbered and packet.retain and connection.deferred
    if after_others or (packet.qos and _must_wait(broker, connection, topic, packet)):
        too_many = connection.deferred and connection.deferred_bytes + len(body) > MOST_DEFERRED_BYTES
        if too_many and not after_others:
            return False
        connection.deferred.append((flags, body))
        connection.deferred_bytes += len(body)
        broker.deferring[connection] = None
        return True
    accept(
        broker, connection, topic, packet.payload, packet.qos, packet.retain, packet.packet_id, packet.properties, now
    )
    return True


def _must_wait(broker: Broker, connection: Connection, topic: bytes, packet: Publish) -> bool:
    if connection.version == V5 and connection.upstream is None:
        return False  # it can be told
    return bool(connection.deferred) or _no_room(broker, connection, topic, packet.qos, packet.retain)


def take_up(broker: Broker, connection: Connection, now: float) -> None:
    """Show again what was put off; what still cannot be taken is put off again, in the same order."""
    waiting, connection.deferred, connection.deferred_bytes = connection.deferred, [], 0
    for flags, body in waiting:
        handle_publish(broker, connection, flags, body, now)
    if not connection.deferred:
        broker.deferring.pop(connection, None)


def _no_room(broker: Broker, connection: Connection, topic: bytes, qos: int, retain: bool) -> bool:
    """Whether the log takes nothing now and this message needs it."""
    journal, session = broker.journal, connection.session
    if not journal.refusing:
        return False
    assert session is not None
    remembered = journal.durable and (retain or (qos == 2 and session.durable))
    return remembered or broker.delivering.must_store(broker.routes.find(topic), qos)


def accept(
    broker: Broker,
    connection: Connection,
    topic: bytes,
    payload: bytes,
    qos: int,
    retain: bool,
    packet_id: int,
    properties: dict[str, Any],
    now: float,
) -> None:
    """Take a message in: may it be, keep it if it is to be retained, hand it on, acknowledge it."""
    session, counts = connection.session, broker.counts
    assert session is not None
    counts.publish_received += 1
    counts.publish_bytes_received += len(payload)
    if qos:
        again = qos == 2 and packet_id in session.received
        _count_in(broker, connection, again)
        if again:  # had it before (MQTT-4.3.3-10)
            _acknowledge(broker, connection, qos, packet_id, Reason.SUCCESS)
            return
    ruled = connection.allowed is not None or topic.startswith(b"$")
    if ruled and broker.neighbours is not None and topic.startswith(_OVERLAY) and not session.identity.inside:
        taken = broker.neighbours.takes(session.identity, topic.decode(), payload, qos, properties)
        counts.publish_refused += not taken
        if qos:
            _acknowledge(broker, connection, qos, packet_id, Reason.SUCCESS if taken else Reason.NOT_AUTHORIZED)
        return
    if ruled and not _may_publish(broker, connection, session, topic):
        counts.publish_refused += 1
        if qos:  # MQTT 3.1.1 has no way to say no to a message short of closing (MQTT-3.3.5-2)
            _acknowledge(broker, connection, qos, packet_id, Reason.NOT_AUTHORIZED)
        return
    if topic in broker.routes.apart and broker.streams.foreign(broker.streams.followed[topic], session):
        counts.publish_refused += 1
        broker.streams.refused["foreign"] += 1
        if qos:
            _acknowledge(broker, connection, qos, packet_id, Reason.NOT_AUTHORIZED)
        return
    route: Route | None = None
    if ruled and topic == _ALERTS:
        broker.alerted(payload)
    elif ruled and topic.startswith(_SENSE):
        try:
            route = sensing.heard(broker, session, topic.decode(), payload, now)
        except OfferError as problem:
            counts.publish_refused += 1
            if qos:
                _acknowledge(broker, connection, qos, packet_id, Reason.IMPLEMENTATION_SPECIFIC_ERROR, str(problem))
            return
        retain = retain and route is None
    message = broker.new_message(topic, payload, qos, retain, session)
    if retain and not session.identity.inside:
        properties = without_origin(properties)
    if properties:
        message.take_properties(properties, now)
    if qos and connection.version == V5 and connection.upstream is None:
        unkept = retain and payload and not _can_be_kept(broker, message)
        if unkept or _no_room(broker, connection, topic, qos, retain):
            counts.publish_refused += 1
            _acknowledge(broker, connection, qos, packet_id, Reason.QUOTA_EXCEEDED)
            return
    if not qos:
        publish(broker, message, now, route)
        return
    written, remembered = broker.journal.log.appended, 0
    if retain:
        keep(broker, message)
    if qos == 2:
        remembered = packet_id if broker.journal.keeps(session) else 0
        if not remembered:
            session.received[packet_id] = 0, 0
    hand_on(broker, connection, message, route or broker.routes.find(topic), packet_id, now, written, remembered)


def accept_quickly(
    broker: Broker,
    connection: Connection,
    topic: bytes,
    payload: bytes,
    properties: bytes,
    route: Route,
    packet_id: bytes,
    now: float,
) -> bytes | None:
    """Take in a message of QoS 1 that may be published and has nothing but user properties, while the log takes more.

    Returns its PUBACK, to be given to `answer`, or None if it must go the long way.
    """
    if packet_id == _NO_IDENTIFIER or connection.unacknowledged >= broker.limits.inflight or connection.deferred:
        return None
    message = broker.new_message(topic, payload, 1, False, connection.session)
    if properties:
        message.properties = properties
    if broker.delivering.deliver_reliably(message, route, now) or connection.version != V5:
        return _PUBACK + packet_id
    return _PUBACK_NOBODY + packet_id + _NOBODY


def answer(broker: Broker, connection: Connection, answers: list[bytes], written: int) -> None:
    """Acknowledge messages that were taken in quickly; the log was `written` so far before they came."""
    journal = broker.journal
    if journal.durable and journal.log.appended != written:
        connection.last_record = journal.log.appended
    broker.counts.packets_sent += len(answers) - 1  # they are written as one
    broker.outboxes.write_committed(connection, b"".join(answers), connection.last_record)


def hand_on(
    broker: Broker,
    connection: Connection,
    message: Message,
    route: Route,
    packet_id: int,
    now: float,
    written: int,
    remembered: int = 0,
) -> None:
    """Deliver a message of QoS 1 or 2 and acknowledge it; the log was `written` so far before it came."""
    direct = broker.streams.pass_on(message, route, now) if message.topic in broker.routes.apart else route
    takers = broker.delivering.deliver_reliably(message, direct, now, remembered)
    takers += len(route.copies) - len(direct.copies) + (route is sensing.NOBODY)
    appended = broker.journal.log.appended
    if appended != written and broker.journal.durable:
        connection.last_record = appended
    _acknowledge(
        broker, connection, message.qos, packet_id, Reason.SUCCESS if takers else Reason.NO_MATCHING_SUBSCRIBERS
    )


def accept_unasked(broker: Broker, topic: str, payload: bytes, retain: bool, now: float) -> None:
    """Take in a message of QoS 0 from somebody who has no connection: an anonymous client without a name."""
    counts = broker.counts
    counts.publish_received += 1
    counts.publish_bytes_received += len(payload)
    of_a_stream = topic.startswith(ROOT) or topic.encode() in broker.routes.apart
    if is_reserved(broker, topic) or of_a_stream or not broker.access.may_publish(NOBODY, topic):
        counts.publish_refused += 1
        return
    if topic == ALERTS:
        broker.alerted(payload)
    publish(broker, broker.new_message(topic.encode(), payload, 0, retain, None), now)


def publish(broker: Broker, message: Message, now: float, route: Route | None = None) -> None:
    """Keep a message that nobody waits to see acknowledged, if it says so, and hand it to all who want it."""
    if message.retain:
        keep(broker, message)
    if route is None:
        route = broker.routes.find(message.topic)
        if message.topic in broker.routes.apart:
            route = broker.streams.pass_on(message, route, now)
    if message.qos:
        broker.delivering.deliver_reliably(message, route, now)
    else:
        broker.delivering.deliver(message, route, now)


def keep(broker: Broker, message: Message) -> None:
    """Keep a message as the last of its topic; an empty one clears it (MQTT-3.3.1-6)."""
    retained = broker.retained
    if not message.payload:
        before = retained.clear(message.topic)
        if before is not None:
            broker.journal.unretained(before)
        return
    before = retained.find(message.topic)
    if not _can_be_kept(broker, message):
        broker.counts.retained_refused += 1
        if before is not None:  # what is no longer true is worse than nothing
            retained.clear(message.topic)
            broker.journal.unretained(before)
        return
    kept = Kept(message)
    broker.journal.retained(kept, retained.keep(kept))


def _can_be_kept(broker: Broker, message: Message) -> bool:
    """Whether there is room for one more retained message; for what an edge keeps for itself there always is."""
    if message.topic.startswith(MARKS):
        return True
    retained, limits, journal = broker.retained, broker.limits, broker.journal
    before = retained.find(message.topic)
    more_bytes = message.size_bytes - (before.message.size_bytes if before is not None else 0)
    full = before is None and len(retained) - retained.own >= limits.retained
    return not (full or retained.bytes + more_bytes > limits.log_bytes or (journal.durable and journal.refusing))


def handle_pubrel(broker: Broker, connection: Connection, packet: Ack) -> None:
    """The publisher has seen PUBREC: its identifier is free again once the log has it."""
    session = connection.session
    assert session is not None
    known = packet.packet_id in session.received
    reason = Reason.SUCCESS if known else Reason.PACKET_IDENTIFIER_NOT_FOUND
    position = 0
    if known:
        position = broker.journal.forgotten(session, packet.packet_id)
        connection.unacknowledged = max(0, connection.unacknowledged - 1)
    answer = encode(Ack(kind=Kind.PUBCOMP, packet_id=packet.packet_id, reason=reason), connection.version)
    broker.outboxes.write_committed(connection, answer, max(position, connection.last_record))


def _topic(broker: Broker, connection: Connection, packet: Publish) -> bytes:
    """The topic in bytes; aliases are set and looked up (section 3.3.2.3.4)."""
    if "subscription_identifier" in packet.properties:  # MQTT-3.3.4-6
        raise protocol_error("a subscription identifier from a client")
    alias = packet.properties.get("topic_alias", 0)
    if alias > broker.limits.topic_aliases:
        raise PacketError(Reason.TOPIC_ALIAS_INVALID, f"topic alias {alias} is more than was agreed")
    if packet.topic:
        check_levels(packet.topic)
        topic = packet.topic.encode()
        if alias:
            connection.aliases_in[alias] = topic
        return topic
    if alias not in connection.aliases_in:
        raise protocol_error(f"topic alias {alias} stands for nothing yet")
    return connection.aliases_in[alias]


def _count_in(broker: Broker, connection: Connection, again: bool) -> None:
    """A client may have only so many messages unacknowledged (MQTT-3.3.4-7, -9); one sent again is not one more."""
    if not again:
        connection.unacknowledged += 1
        if connection.version == V5 and connection.unacknowledged > broker.limits.inflight:
            assert connection.session is not None
            if connection.session.identity.inside:
                return
            most = broker.limits.inflight
            raise PacketError(Reason.RECEIVE_MAXIMUM_EXCEEDED, f"more than {most} unacknowledged messages")


def _may_publish(broker: Broker, connection: Connection, session: Session, topic: bytes) -> bool:
    allowed = connection.allowed
    if allowed is not None and topic in allowed:
        return True
    text = topic.decode()
    if is_system(text) and not session.identity.inside:
        return False
    if connection.upstream is None and not broker.access.may_publish(session.identity, text):
        return False
    if allowed is not None:
        if len(allowed) >= MOST_ALLOWED:
            allowed.clear()
        allowed.add(topic)
    return True


def is_system(topic: str) -> bool:
    """Whether a topic is one on which only the exchange itself speaks; alerts are for whoever watches it."""
    if topic == ALERTS:
        return False
    return topic.startswith(_OWN) or topic in ("$SYS", "$firelane")


def is_reserved(broker: Broker, topic: str) -> bool:
    """The same, and at an edge what edges tell each other."""
    return is_system(topic) or (broker.neighbours is not None and topic.startswith(neighbours.TOPICS))


def _acknowledge(
    broker: Broker, connection: Connection, qos: int, packet_id: int, reason: Reason, problem: str = ""
) -> None:
    """PUBACK or PUBREC, in the order of the messages, once the log has what came before."""
    if qos == 1 or reason >= Reason.UNSPECIFIED_ERROR:
        connection.unacknowledged -= 1
    if reason and connection.version == V5:
        told = {"reason_string": problem} if problem and connection.problem_information else {}
        answer = encode(Ack(kind=_ANSWERS[qos], packet_id=packet_id, reason=reason, properties=told), V5)
        if len(answer) > connection.largest_out:  # without what it may do without (MQTT-3.4.2-2)
            answer = encode(Ack(kind=_ANSWERS[qos], packet_id=packet_id, reason=reason), V5)
    else:
        answer = _SUCCESS[qos] + two_bytes(packet_id)
    broker.outboxes.write_committed(connection, answer, connection.last_record)
