"""Retained messages for new subscriptions: looked for one by one, when a link has nothing else to carry."""

from __future__ import annotations

from firelane.exchange.clients.session import Session, Subscription
from firelane.exchange.journal.journal import Journal
from firelane.exchange.journal.retained import RetainedMessages
from firelane.exchange.lanes.lane import Delivery, Lane
from firelane.exchange.lanes.message import Message, Numbers

MOST_STEPS = 2000  # in search of one, before others have their turn


class Replays:
    """Finds the retained messages that a lane is still to be sent."""

    def __init__(self, journal: Journal, retained: RetainedMessages, numbers: Numbers) -> None:
        self._journal = journal
        self._retained = retained
        self._numbers = numbers

    def next(self, lane: Lane, now: float) -> Delivery | None:
        """The next one; None if there are no more, and then `lane.replay` is over, or if it took too long for once."""
        replay = lane.replay
        assert replay is not None
        if replay.topics is None:
            replay.topics = self._retained.topics(replay.subscription)
        for steps, topic in enumerate(replay.topics):
            if topic is not None:
                delivery = self._delivery(lane, replay.subscription, topic, now)
                if delivery is not None:
                    return delivery
            if steps == MOST_STEPS:
                return None
        lane.replay = None
        lane.session.replaying.pop(lane, None)
        return None

    def _delivery(self, lane: Lane, wanted: Subscription, topic: bytes, now: float) -> Delivery | None:
        session = lane.session
        message = self._fresh(self._current(topic, now), session)
        if message is None or session.subscriptions.get(wanted.filter) is not wanted:
            return None
        identifiers = (wanted.identifier,) if wanted.identifier else ()
        qos = min(message.qos, wanted.qos)
        delivery = Delivery(lane, message, message.sequence, qos, True, identifiers, now)
        if delivery.qos and self._journal.keeps(session):
            self._journal.message(message, [delivery])
        return delivery

    def _current(self, topic: bytes, now: float) -> Message | None:
        """A topic's retained message, unless its time is over."""
        message = self._retained.get(topic)
        if message is not None and now >= message.expires_at:
            over = self._retained.clear(topic)
            assert over is not None
            self._journal.unretained(over)
            return None
        return message

    def _fresh(self, message: Message | None, session: Session) -> Message | None:
        """A retained message for a session that may be owed it twice: under a number of its own."""
        numbered = session.connection is not None and session.connection.numbered
        if message is None or not (numbered or (message.qos and session.durable)):
            return message
        return self._numbers.again(message, says_first=numbered)
