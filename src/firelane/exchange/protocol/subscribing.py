"""SUBSCRIBE and UNSUBSCRIBE (MQTT 5, sections 3.8 to 3.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firelane.exchange.clients.access import Verdict
from firelane.exchange.clients.connection import Connection
from firelane.exchange.clients.needs import Given, Granted, NeedError, asked, ours, stands_for
from firelane.exchange.clients.session import Session, Subscription, new_subscription
from firelane.exchange.lanes.lane import Replay
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Kind, Suback, Subscribe, Unsubscribe
from firelane.mqtt.packets import Subscription as Wish
from firelane.mqtt.reasons import PacketError, Reason
from firelane.mqtt.topics import SHARED, plain_filter
from firelane.sense.offer import SENSOR_TYPE, OfferError

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker

MOST_LEVELS = 200
SPARE_LANES = 100
MOST_TOLD = 1000  # user properties; some clients take no more
REFUSED_V3 = 0x80


def handle_subscribe(broker: Broker, connection: Connection, packet: Subscribe, now: float) -> None:
    """Take in each filter or refuse it; the answer waits until a durable session's subscriptions are in the log."""
    session = connection.session
    assert session is not None
    answer = Suback(kind=Kind.SUBACK, packet_id=packet.packet_id, reasons=[])
    told: list[tuple[str, str]] = []
    wishes = ours(packet.properties.get("user_property", ()))
    try:
        wanted: Given | NeedError = asked(wishes)
    except NeedError as problem:
        wanted = problem
    for index, wish in enumerate(packet.subscriptions):
        try:
            granted = _subscribe(broker, session, wish, packet.properties, wishes, wanted)
            broker.note_membership(session, wish.filter, "subscribe", now)
            answer.reasons.append(wish.qos)
            told += [(f"{index}.{name}", text) for name, text in granted.told]
        except _RefusedError as refused:
            answer.reasons.append(refused.reason if connection.version == V5 else REFUSED_V3)
        except (NeedError, OfferError) as problem:
            answer.reasons.append(Reason.IMPLEMENTATION_SPECIFIC_ERROR if connection.version == V5 else REFUSED_V3)
            answer.properties.setdefault("reason_string", str(problem))
    session.rank()
    if told and len(told) <= MOST_TOLD:
        answer.properties["user_property"] = told
    _answer(broker, connection, session, answer)
    broker.serving.resume(session, now)


class _RefusedError(Exception):
    """Why a filter is not taken in."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


def _subscribe(
    broker: Broker,
    session: Session,
    wish: Wish,
    properties: dict[str, Any],
    wishes: list[tuple[str, str]],
    wanted: Given | NeedError,
) -> Granted:
    if isinstance(wanted, NeedError):
        raise wanted
    wish.filter, profile = broker.needs.plain(wish.filter)
    before = session.subscriptions.get(wish.filter)
    refusal = _refusal(broker, session, wish, new=before is None)
    if refusal is not None:
        raise _RefusedError(refusal)
    granted = broker.needs.granted(session.identity, session.subscriber, wish.filter, profile, wanted)
    _check_offers(broker, session, wish.filter, profile, granted, wishes, wanted)
    subscription = new_subscription(
        session,
        wish.filter,
        qos=wish.qos,
        no_local=wish.no_local,
        retain_as_published=wish.retain_as_published,
        identifier=properties.get("subscription_identifier", [0])[0],
        profile=profile,
        wishes=wishes,
    )
    subscription.lane.want(granted.need, granted.best_class)
    subscription.partly = broker.access.may_subscribe(session.identity, wish.filter) is Verdict.SOME
    if before is not None:
        broker.routes.remove(before)
        subscription.location, subscription.size_bytes = before.location, before.size_bytes
        if subscription.lane.replay is not None:
            subscription.lane.replay.subscription = subscription
    session.subscriptions[wish.filter] = subscription
    broker.changed += 1
    broker.treat(session, subscription.lane)
    broker.routes.add(subscription)
    broker.journal.subscribed(subscription)
    if not subscription.group and (wish.retain_handling == 0 or (wish.retain_handling == 1 and before is None)):
        start_replay(subscription)
    return granted


def _check_offers(
    broker: Broker,
    session: Session,
    topic_filter: str,
    profile: str | None,
    granted: Granted,
    wishes: list[tuple[str, str]],
    wanted: Given,
) -> None:
    """Refuse who asks for more precision than is offered or another type of sensor; not who was given that unasked."""
    asks = "tolerance" in wanted or profile is not None
    broker.streams.check(
        session, plain_filter(topic_filter), granted.need.tolerance if asks else None, dict(wishes).get(SENSOR_TYPE)
    )


def start_replay(subscription: Subscription) -> None:
    """Have the retained messages of a subscription sent, from the first one on."""
    lane = subscription.lane
    lane.replay = Replay(subscription)
    lane.session.replaying[lane] = None


def _refusal(broker: Broker, session: Session, wish: Wish, *, new: bool) -> Reason | None:
    if wish.filter.startswith(SHARED) and (wish.filter.count("/") < 2 or not all(wish.filter.split("/", 2)[1:])):
        return Reason.TOPIC_FILTER_INVALID
    if wish.filter.count("/") >= MOST_LEVELS:
        return Reason.TOPIC_FILTER_INVALID
    if session.identity.inside:
        return None
    if broker.access.may_subscribe(session.identity, wish.filter) is Verdict.NONE:
        return Reason.NOT_AUTHORIZED
    if new and len(session.subscriptions) >= broker.limits.subscriptions:
        return Reason.QUOTA_EXCEEDED
    if wish.filter not in session.lanes and len(session.lanes) >= 2 * broker.limits.subscriptions + SPARE_LANES:
        return Reason.QUOTA_EXCEEDED  # too much is still owed on filters that were given up
    if broker.journal.keeps(session) and broker.journal.refusing:
        return Reason.QUOTA_EXCEEDED
    return None


def handle_unsubscribe(broker: Broker, connection: Connection, packet: Unsubscribe, now: float) -> None:
    """Let go of filters; what is already on its way still arrives (MQTT-3.10.4-3)."""
    session = connection.session
    assert session is not None
    reasons = []
    for topic_filter in packet.filters:
        subscription = session.subscriptions.pop(_plain(topic_filter), None)
        if subscription is None:
            reasons.append(int(Reason.NO_SUBSCRIPTION_EXISTED))
            continue
        broker.routes.remove(subscription)
        broker.journal.unsubscribed(subscription)
        broker.note_membership(session, subscription.filter, "unsubscribe", now)
        broker.changed += 1
        if subscription.lane.replay is not None:
            subscription.lane.replay = None
            session.replaying.pop(subscription.lane, None)
        reasons.append(int(Reason.SUCCESS))
    broker.tidy(session)
    _answer(broker, connection, session, Suback(kind=Kind.UNSUBACK, packet_id=packet.packet_id, reasons=reasons))


def _plain(topic_filter: str) -> str:
    try:
        return stands_for(topic_filter)[0]
    except NeedError:
        return topic_filter


def _answer(broker: Broker, connection: Connection, session: Session, answer: Suback) -> None:
    position = broker.journal.appended if session.durable else 0
    if connection.version != V5 or not connection.problem_information:
        answer.properties.clear()
    wire = encode(answer, connection.version)
    if len(wire) > connection.largest_out:  # without what it may do without (MQTT-3.9.2-2, -3)
        answer.properties.clear()
        wire = encode(answer, connection.version)
    broker.outboxes.write_committed(connection, wire, position)


def check_levels(topic: str) -> None:
    """Refuse a topic so deep that keeping it would cost more than it can be worth."""
    if topic.count("/") >= MOST_LEVELS:
        raise PacketError(Reason.TOPIC_NAME_INVALID, f"a topic of more than {MOST_LEVELS} levels")
