"""CONNECT, the end of connections and of sessions, wills (MQTT 5, sections 3.1, 3.2, 3.14, 4.1 and 4.12)."""

from __future__ import annotations

import ipaddress
import secrets
from typing import TYPE_CHECKING, Any

from firelane.exchange.clients.access import Identity
from firelane.exchange.clients.connection import LARGEST_PACKET, Connection, Phase
from firelane.exchange.clients.neighbours import announced
from firelane.exchange.clients.session import Session
from firelane.exchange.journal.retained import without_origin
from firelane.exchange.lanes.message import NEVER
from firelane.exchange.protocol.publishing import is_reserved, publish
from firelane.exchange.protocol.sensing import heard
from firelane.exchange.protocol.subscribing import check_levels
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connack, Connect, Disconnect, Will
from firelane.mqtt.reasons import Reason, protocol_error
from firelane.sense.offer import ROOT, OfferError

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker

FOREVER = 0xFFFF_FFFF
LARGEST_WINDOW = 65_535
UPSTREAM = "$upstream"  # the session of a bridge
OVERLAY = "$overlay"  # of what joins this exchange with others
DDS = "$dds"  # of what joins it with DDS endpoints
# What MQTT 3.1.1 can say of a refusal (its section 3.2.2.3).
_RETURN_CODES = {
    Reason.UNSUPPORTED_PROTOCOL_VERSION: 1,
    Reason.CLIENT_IDENTIFIER_NOT_VALID: 2,
    Reason.SERVER_UNAVAILABLE: 3,
    Reason.QUOTA_EXCEEDED: 3,
    Reason.CONNECTION_RATE_EXCEEDED: 3,
    Reason.BAD_USER_NAME_OR_PASSWORD: 4,
    Reason.NOT_AUTHORIZED: 5,
}


def handle_connect(broker: Broker, connection: Connection, packet: Connect, now: float) -> None:
    """Find out who it is; a password is checked by whoever owns the socket, who then calls `broker.verified`."""
    connection.version = packet.version
    if packet.will is not None:
        check_levels(packet.will.topic)
    if "authentication_method" in packet.properties:
        refuse(broker, connection, Reason.BAD_AUTHENTICATION_METHOD)
    elif not _client_id_allowed(packet):
        refuse(broker, connection, Reason.CLIENT_IDENTIFIER_NOT_VALID)
    elif (limit := broker.over_limit(connection, now)) is not None:
        refuse(broker, connection, limit)
    elif packet.client_id not in broker.sessions and not _room_for_session(broker, packet):
        refuse(broker, connection, Reason.QUOTA_EXCEEDED)
    elif connection.user is not None:  # a client certificate says so
        enter(broker, connection, packet, _identity(broker, packet, connection.user), now)
    elif packet.user is not None and broker.settings.users:
        connection.asked = packet
        connection.phase = Phase.CHECKING
        broker.stall(connection, NEVER)
        broker.to_check.append(connection)
    elif anonymous_allowed(broker, connection.address):
        enter(broker, connection, packet, _identity(broker, packet, None), now)
    else:
        refuse(broker, connection, Reason.NOT_AUTHORIZED)


def _room_for_session(broker: Broker, packet: Connect) -> bool:
    """There may be only so many sessions, and none that lasts begins while the log cannot take it."""
    if len(broker.sessions) >= broker.limits.sessions:
        return False
    lasts = packet.properties.get("session_expiry_interval", 0) if packet.version == V5 else not packet.clean_start
    return not (lasts and broker.journal.durable and broker.journal.refusing)


def _client_id_allowed(packet: Connect) -> bool:
    """3.1.1 needs a name for a session that lasts (MQTT-3.1.3-8); a bridge's session belongs to nobody else."""
    if not packet.client_id:
        return packet.clean_start or packet.version == V5
    return not is_inside(packet.client_id)


def is_inside(client_id: str) -> bool:
    """Whether a session belongs to a part of the exchange, so that no client may use it."""
    return client_id.startswith((UPSTREAM, OVERLAY, DDS))


def is_served(client_id: str) -> bool:
    """Whether a session is of somebody who wants messages: a client, or the endpoints of DDS."""
    return client_id == DDS or not is_inside(client_id)


def verified(broker: Broker, connection: Connection, right: bool, now: float) -> None:
    """The password of a connection has been checked."""
    packet = connection.asked
    if packet is None or connection.phase is not Phase.CHECKING:
        return  # gone meanwhile
    connection.asked = None
    connection.phase = Phase.NEW
    if right:
        enter(broker, connection, packet, _identity(broker, packet, packet.user), now)
    else:
        refuse(broker, connection, Reason.BAD_USER_NAME_OR_PASSWORD)


def _identity(broker: Broker, packet: Connect, user: str | None) -> Identity:
    known = broker.settings.users.get(user) if user is not None else None
    return Identity(client_id=packet.client_id, user=user, roles=tuple(known.roles) if known is not None else ())


def anonymous_allowed(broker: Broker, address: str) -> bool:
    """Whether somebody without a user may come from there."""
    allowed = broker.settings.anonymous
    return allowed == "always" or (allowed == "loopback" and is_loopback(address))


def is_loopback(address: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


def refuse(broker: Broker, connection: Connection, reason: Reason) -> None:
    """CONNACK with a reason, then the end."""
    broker.counts.connections_refused += 1
    code = reason if connection.version == V5 else _RETURN_CODES.get(reason, 3)
    broker.outboxes.write(connection, encode(Connack(reason=code), connection.version))
    connection.phase = Phase.CLOSING
    connection.reason = reason


def enter(broker: Broker, connection: Connection, packet: Connect, identity: Identity, now: float) -> None:
    """Let a client in: take over or make its session, agree on limits, answer, and send what it is owed."""
    before = broker.sessions.get(packet.client_id)
    if before is not None and before.identity.user != identity.user:  # or it would inherit what is not for it
        refuse(broker, connection, Reason.CLIENT_IDENTIFIER_NOT_VALID)
        return
    if broker.neighbours is not None and not broker.neighbours.lets_in(identity):
        refuse(broker, connection, Reason.NOT_AUTHORIZED)
        return
    assigned = not packet.client_id
    if assigned:
        packet.client_id = f"auto-{secrets.token_hex(8)}"
        identity = Identity(client_id=packet.client_id, user=identity.user, roles=identity.roles)
    session, present = _session(broker, packet, identity, now)
    session.connection = connection
    connection.session = session
    connection.phase = Phase.OPEN
    _agree(broker, connection, session, packet)
    session.will = packet.will
    session.will_at = session.expires_at = NEVER
    if session.durable or session.location:
        broker.journal.session(session)
    broker.connected(connection)
    broker.seat(session, connection, now)
    properties = _announced(broker, session, packet, assigned) if connection.version == V5 else {}
    broker.outboxes.write(
        connection, encode(Connack(session_present=present, properties=properties), connection.version)
    )
    connection.unacknowledged = len(session.received)
    if present:
        connection.last_record = broker.journal.appended  # the log may not have yet what it received or forgot before
    for topic_filter in session.subscriptions:
        broker.note_membership(session, topic_filter, "subscribe", now)
    broker.answering.attach(session, now)


def _session(broker: Broker, packet: Connect, identity: Identity, now: float) -> tuple[Session, bool]:
    """The client's session: the one it has, or a new one (section 3.1.2.4)."""
    before = broker.sessions.get(packet.client_id)
    if before is not None and before.connection is not None:
        disconnect(broker, before.connection, Reason.SESSION_TAKEN_OVER)
        closed(broker, before.connection, now, taken_over=not packet.clean_start)
        before = broker.sessions.get(packet.client_id)
    elif before is not None and before.expires_at <= now:
        when_due(broker, before, now)
        before = None
    if before is not None and packet.clean_start:
        end_session(broker, before, now)
        before = None
    if before is not None:
        before.identity = identity
        return before, True
    return broker.new_session(packet.client_id, identity), False


def _agree(broker: Broker, connection: Connection, session: Session, packet: Connect) -> None:
    limits, properties = broker.limits, packet.properties
    if packet.version == V5:
        asked = properties.get("session_expiry_interval", 0)
        expiry_s = NEVER if asked == FOREVER else float(asked)
    else:
        expiry_s = 0.0 if packet.clean_start else NEVER
    if session.identity.inside:  # no limit of clients is meant for it
        session.lasts(expiry_s)
        connection.window = properties.get("receive_maximum", LARGEST_WINDOW)
        connection.publish_credit = NEVER
        return
    session.lasts(min(expiry_s, _longest(broker)))
    server_keep_alive = broker.settings.keep_alive_s if packet.version == V5 else None
    connection.keep_alive_s = packet.keep_alive_s if server_keep_alive is None else server_keep_alive
    connection.window = min(properties.get("receive_maximum", limits.inflight), limits.inflight)
    connection.largest_out = properties.get("maximum_packet_size", LARGEST_PACKET)
    connection.alias_limit = min(properties.get("topic_alias_maximum", 0), limits.topic_aliases)
    connection.problem_information = bool(properties.get("request_problem_information", 1))
    connection.allowed = set() if broker.settings.access else None
    connection.publish_credit = limits.publish_hz if limits.publish_hz is not None else NEVER


def _longest(broker: Broker) -> float:
    longest = broker.limits.session_expiry_s
    return NEVER if longest is None else longest


def _announced(broker: Broker, session: Session, packet: Connect, assigned: bool) -> dict[str, Any]:
    """What an MQTT 5 client is told in CONNACK: only what differs from what it would assume."""
    limits = broker.limits
    properties: dict[str, Any] = {
        "receive_maximum": limits.inflight,
        "maximum_packet_size": limits.packet_bytes,
        "topic_alias_maximum": limits.topic_aliases,
    }
    if told := announced(broker.neighbours, session.client_id):
        properties["user_property"] = told
    if assigned:
        properties["assigned_client_identifier"] = packet.client_id
    if broker.settings.keep_alive_s is not None:
        properties["server_keep_alive"] = int(broker.settings.keep_alive_s)
    asked = packet.properties.get("session_expiry_interval", 0)
    granted = FOREVER if session.expiry_s == NEVER else int(session.expiry_s)
    if granted != asked:
        properties["session_expiry_interval"] = granted
    return properties


def disconnect(broker: Broker, connection: Connection, reason: Reason, problem: str = "") -> None:
    """Tell an MQTT 5 client why, and close."""
    if connection.phase is Phase.OPEN and connection.version == V5:
        properties = {"reason_string": problem} if problem and connection.problem_information else {}
        wire = encode(Disconnect(reason=reason, properties=properties), V5)
        broker.outboxes.write(connection, wire if len(wire) <= connection.largest_out else b"")
    else:
        broker.outboxes.write(connection, b"")
    connection.phase = Phase.CLOSING
    connection.reason = reason


def handle_disconnect(broker: Broker, connection: Connection, packet: Disconnect, now: float) -> None:
    """A client takes its leave; the will is dropped unless it asks for it (section 3.14.4)."""
    session = connection.session
    assert session is not None
    if "session_expiry_interval" in packet.properties:
        asked = packet.properties["session_expiry_interval"]
        if session.expiry_s == 0 and asked != 0:
            raise protocol_error("a session that was to end with its connection cannot be made to last")
        session.lasts(min(NEVER if asked == FOREVER else float(asked), _longest(broker)))
    if packet.reason != Reason.DISCONNECT_WITH_WILL:
        session.will = None
    connection.phase = Phase.CLOSING
    broker.outboxes.dirty.append(connection)
    closed(broker, connection, now)


def closed(broker: Broker, connection: Connection, now: float, *, taken_over: bool = False) -> None:
    """A connection is over, for whatever reason: its will, and how long its session goes on."""
    connection.phase = Phase.CLOSING
    session = connection.session
    if session is None or session.connection is not connection:
        return
    broker.answering.detach(session)
    broker.disconnected(connection)
    for topic_filter in session.subscriptions:
        broker.note_membership(session, topic_filter, "lost", now)
    if session.will is not None:
        delay_s = float(session.will.properties.get("will_delay_interval", 0))
        session.will_at = now + min(delay_s, session.expiry_s)
        if session.will_at <= now and not (taken_over and delay_s > 0):
            send_will(broker, session, now)
        else:
            broker.ring(session, session.will_at)
    if not session.durable:
        end_session(broker, session, now)
        return
    session.expires_at = now + session.expiry_s
    broker.journal.session(session)
    broker.ring(session, session.expires_at)


def change_will(broker: Broker, session: Session, will: Will | None) -> None:
    """A client that is connected wants another will, or none, as only MQTT-SN lets it."""
    session.will = will
    if session.durable or session.location:
        broker.journal.session(session)


def send_will(broker: Broker, session: Session, now: float) -> None:
    """Publish what a client left behind for this case."""
    will: Will | None = session.will
    session.will, session.will_at = None, NEVER
    if will is None or is_reserved(broker, will.topic) or not broker.access.may_publish(session.identity, will.topic):
        return
    try:
        route = heard(broker, session, will.topic, will.payload, now) if will.topic.startswith(ROOT) else None
    except OfferError:
        broker.counts.publish_refused += 1
        return
    retain = will.retain and route is None
    message = broker.new_message(will.topic.encode(), will.payload, will.qos, retain, session)
    message.take_properties(without_origin(will.properties) if retain else will.properties, now)
    publish(broker, message, now, route)


def end_session(broker: Broker, session: Session, now: float) -> None:
    """A session is over: its subscriptions and what it was owed go with it."""
    if session.will is not None:
        send_will(broker, session, now)
    for subscription in session.subscriptions.values():
        broker.routes.remove(subscription)
    broker.journal.session_ended(session)
    session.subscriptions.clear()
    broker.answering.forget(session, now)
    broker.session_ended(session)


def when_due(broker: Broker, session: Session, now: float) -> None:
    """A timer of a session has rung: its will, or its own end."""
    if session.connection is not None:
        return
    broker.ring(session, min(one for one in (session.will_at, session.expires_at, NEVER) if one > now))
    if session.will_at <= now:
        send_will(broker, session, now)
        broker.journal.session(session)
    if session.expires_at <= now:
        broker.counts.sessions_expired += 1
        end_session(broker, session, now)
