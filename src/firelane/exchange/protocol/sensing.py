"""What clients say of streams of sensors on `$sense/...`, a function for each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firelane.exchange.clients.session import Session
from firelane.exchange.delivering.routes import Copy, Route
from firelane.exchange.lanes.message import Message
from firelane.exchange.measuring.traffic import Seen
from firelane.exchange.sensors.asking import Asking
from firelane.exchange.sensors.stream import Stream
from firelane.mqtt import topic_problem
from firelane.sense.offer import (
    LOAD,
    OFFER,
    RESYNC,
    LoadSignal,
    Offer,
    OfferError,
    Resync,
    from_json,
)

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker

NOBODY = Route("", Seen(""), (), ())  # where messages to the exchange itself go


def heard(broker: Broker, session: Session, topic: str, payload: bytes, now: float) -> Route | None:
    """Take in what somebody says of a stream: NOBODY if nobody else is to hear it; OfferError if it makes no sense."""
    for word, handle in ((OFFER, _offered), (LOAD, _load), (RESYNC, _resync)):
        if topic.startswith(word):
            return handle(broker, session, topic.removeprefix(word), payload, now)
    return None


def recovered(broker: Broker, message: Message) -> None:
    """An offer that the log has kept."""
    try:
        topic = message.topic.decode().removeprefix(OFFER)
        broker.streams.offer(topic, from_json(Offer, message.payload), None)
    except OfferError:  # of another release
        broker.streams.refused["offer"] += 1


def _offered(broker: Broker, session: Session, topic: str, payload: bytes, now: float) -> Route | None:
    problem = topic_problem(topic)
    if problem or topic.startswith("$"):
        broker.streams.refused["offer"] += 1
        raise OfferError(f"this cannot be the topic of a stream: {problem or 'it starts with $'}")
    if not payload:
        stream = broker.streams.find(topic)
        if stream is not None and broker.streams.foreign(stream, session):
            broker.streams.refused["offer"] += 1
            raise OfferError(f"{topic}: another client offers this stream, and is connected; only it can end it")
        broker.streams.end(topic)
        return None
    try:
        offer = from_json(Offer, payload)
    except OfferError:
        broker.streams.refused["offer"] += 1
        raise
    broker.streams.offer(topic, offer, session)
    return None


def _load(broker: Broker, session: Session, topic: str, payload: bytes, now: float) -> Route | None:
    stream = broker.streams.find(topic)
    if stream is None:
        return None
    try:
        signal = from_json(LoadSignal, payload)
    except OfferError:
        broker.streams.refused["load"] += 1
        raise
    if _copy(broker, stream, session) is None or not stream.hear(session, signal.load, now):
        broker.streams.refused["load"] += 1
    return NOBODY


def _resync(broker: Broker, session: Session, topic: str, payload: bytes, now: float) -> Route | None:
    stream = broker.streams.find(topic)
    if stream is None:
        return None
    try:
        wanted = from_json(Resync, payload)
    except OfferError:
        broker.streams.refused["resync"] += 1
        raise
    if stream.offer.transport is not None:
        return None  # its updates do not come by here: its publisher answers, all who ask together
    copy = _copy(broker, stream, session)
    asking = stream.asked.setdefault(session, Asking()) if copy is not None else None
    if copy is None or asking is None or asking.too_soon(now):
        broker.streams.refused["resync"] += 1
        return NOBODY
    if stream.offer.discrete:  # its publisher answers
        many = asking.may(now, wanted.named) < wanted.named
        broker.streams.refused["resync"] += many
        return NOBODY if many else None
    sensors = broker.streams.wanted(stream, copy, wanted)
    broker.streams.answer(stream, copy, sensors[: asking.may(now, len(sensors))], now)
    return NOBODY


def _copy(broker: Broker, stream: Stream, session: Session) -> Copy | None:
    """How a session gets a stream; None if it does not."""
    route = broker.routes.find(stream.name)
    return next((one for one in route.copies if one.session is session), None)
