"""SUBSCRIBE and UNSUBSCRIBE (MQTT 5, sections 3.8 to 3.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firelane.exchange.access import Verdict
from firelane.exchange.connection import Connection
from firelane.exchange.session import Replay, Session, Subscription
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Kind, Suback, Subscribe, Unsubscribe
from firelane.mqtt.packets import Subscription as Wish
from firelane.mqtt.reasons import PacketError, Reason

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker

MOST_LEVELS = 200
SHARE = "$share/"
REFUSED_V3 = 0x80


def new_subscription(
    session: Session,
    topic_filter: str,
    *,
    qos: int,
    no_local: bool = False,
    retain_as_published: bool = False,
    identifier: int = 0,
) -> Subscription:
    """A subscription of a session; a shared one is taken apart into its group and its filter."""
    group, topics = "", topic_filter
    if topic_filter.startswith(SHARE):
        _, group, topics = topic_filter.split("/", 2)
    return Subscription(
        session=session,
        filter=topic_filter,
        topics=topics,
        group=group,
        qos=qos,
        no_local=no_local,
        retain_as_published=retain_as_published,
        identifier=identifier,
    )


def handle_subscribe(broker: Broker, connection: Connection, packet: Subscribe, now: float) -> None:
    """Take in each filter or refuse it; the answer waits until a durable session's subscriptions are in the log."""
    session = connection.session
    assert session is not None
    identifier = packet.properties.get("subscription_identifier", [0])[0]
    reasons = [_subscribe(broker, session, wish, identifier, connection.version) for wish in packet.subscriptions]
    answer = Suback(kind=Kind.SUBACK, packet_id=packet.packet_id, reasons=reasons)
    _answer(broker, connection, session, answer)
    broker.delivering.pump(session, now)


def _subscribe(broker: Broker, session: Session, wish: Wish, identifier: int, version: int) -> int:
    before = session.subscriptions.get(wish.filter)
    refusal = _refusal(broker, session, wish, new=before is None)
    if refusal is not None:
        return refusal if version == V5 else REFUSED_V3
    subscription = new_subscription(
        session,
        wish.filter,
        qos=wish.qos,
        no_local=wish.no_local,
        retain_as_published=wish.retain_as_published,
        identifier=identifier,
    )
    subscription.partly = broker.access.may_subscribe(session.identity, wish.filter) is Verdict.SOME
    if before is not None:
        broker.routes.remove(before)
        subscription.location, subscription.size_bytes = before.location, before.size_bytes
        for replay in session.replays:
            if replay.subscription is before:
                replay.subscription = subscription
    session.subscriptions[wish.filter] = subscription
    broker.routes.add(subscription)
    broker.journal.subscribed(subscription)
    if not subscription.group and (wish.retain_handling == 0 or (wish.retain_handling == 1 and before is None)):
        session.replays.append(Replay(subscription))
    return wish.qos


def _refusal(broker: Broker, session: Session, wish: Wish, *, new: bool) -> Reason | None:
    if wish.filter.startswith(SHARE) and (wish.filter.count("/") < 2 or not all(wish.filter.split("/", 2)[1:])):
        return Reason.TOPIC_FILTER_INVALID
    if wish.filter.count("/") >= MOST_LEVELS:
        return Reason.TOPIC_FILTER_INVALID
    if broker.access.may_subscribe(session.identity, wish.filter) is Verdict.NONE:
        return Reason.NOT_AUTHORIZED
    if new and len(session.subscriptions) >= broker.limits.subscriptions:
        return Reason.QUOTA_EXCEEDED
    if broker.journal.keeps(session) and broker.journal.refusing:
        return Reason.QUOTA_EXCEEDED
    return None


def handle_unsubscribe(broker: Broker, connection: Connection, packet: Unsubscribe) -> None:
    """Let go of filters; what is already on its way still arrives (MQTT-3.10.4-3)."""
    session = connection.session
    assert session is not None
    reasons = []
    for topic_filter in packet.filters:
        subscription = session.subscriptions.pop(topic_filter, None)
        if subscription is None:
            reasons.append(int(Reason.NO_SUBSCRIPTION_EXISTED))
            continue
        broker.routes.remove(subscription)
        broker.journal.unsubscribed(subscription)
        reasons.append(int(Reason.SUCCESS))
    _answer(broker, connection, session, Suback(kind=Kind.UNSUBACK, packet_id=packet.packet_id, reasons=reasons))


def _answer(broker: Broker, connection: Connection, session: Session, answer: Suback) -> None:
    position = broker.journal.appended if session.durable else 0
    broker.delivering.write_committed(connection, encode(answer, connection.version), position)


def check_levels(topic: str) -> None:
    """Refuse a topic so deep that keeping it would cost more than it can be worth."""
    if topic.count("/") >= MOST_LEVELS:
        raise PacketError(Reason.TOPIC_NAME_INVALID, f"a topic of more than {MOST_LEVELS} levels")
