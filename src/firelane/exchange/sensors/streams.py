"""The streams of sensors that the exchange follows: it knows what their sensors read, tells publishers how precise they
have to be, and gives subscribers that bear more a coarser stream of their own (docs/reference/sense.md).

So much is followed and no more (`exchange.limits`). A stream beyond that passes like any topic: its publisher keeps to
what it offers, and who lacks a state asks the publisher.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from firelane.arrays import Ints
from firelane.exchange.clients.session import Session
from firelane.exchange.delivering.routes import Copy, Route
from firelane.exchange.lanes.message import Message, without_length
from firelane.exchange.measuring.traffic import Seen
from firelane.exchange.sensors.coarser import LEAST_BYTES, SPARE_BYTES, Coarser
from firelane.exchange.sensors.splitting import LEAST_HELD, split_up
from firelane.exchange.sensors.stream import Split, Stream
from firelane.mqtt import TopicTree
from firelane.mqtt.properties import write_properties
from firelane.sense.offer import Offer, OfferError, Resync
from firelane.sense.updates import Updates
from firelane.sense.wire import CONTENT_TYPE, Batch, encode, portions

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker

SHARE = 4  # of all there is room for, one client gets a part
MOST_NEWS = 100
REFUSED = ("offer", "load", "resync", "foreign")  # what may not be heeded: the last, messages of others on its topic
BEAT = 0.9  # of a heartbeat without a word to somebody, after which there is one
_PROPERTIES = without_length(write_properties({"content_type": CONTENT_TYPE}))


def _held(stream: Stream) -> int:
    """How many sensors a stream counts for: its own, and those of the streams made of it, each some at least."""
    return len(stream) + max(len(stream), LEAST_HELD) * len(stream.coarse)


class Streams:
    """All of them. Times are those of the broker's clock."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.followed: dict[bytes, Stream] = {}
        self._topics: TopicTree[bytes] = TopicTree()
        self.refused: Counter[str] = Counter()  # what was said of streams and not heeded, by reason
        self.unfollowed = 0  # offers for which there was no room
        self.crowded = 0  # subscriptions that got a stream as it is, as there was no room for one of their own
        self.ended: list[str] = []  # whose grants are to be taken back
        self._news: list[str] = []
        self._told: set[str] = set()
        self.ready = True  # or the models' machine code is yet to be loaded, and streams pass like any topic meanwhile
        self.on_offer: Callable[[], None] = lambda: None  # called when there is a new one

    # ---- what is followed

    def find(self, topic: str) -> Stream | None:
        """A stream that is followed."""
        return self.followed.get(topic.encode())

    def deltas(self) -> dict[str, float]:
        """The precision that each stream that can be told coarser has to keep."""
        continuous = (one for one in self.followed.values() if not one.offer.discrete)
        return {one.topic: max(one.delta, one.tightest or 0.0) for one in continuous}

    def offer(self, topic: str, offer: Offer, session: Session | None) -> None:
        """A stream is offered: follow it, or go on with it."""
        name = topic.encode()
        stream = self.followed.get(name)
        owner = None if session is None else session.client_id
        if stream is not None:
            self._check_owner(stream, session)
            if len(offer.sensors) > len(stream) and not self._room_for(offer, owner, instead_of=stream):
                self.end(topic)
                self._too_much(topic)
                return
            stream.offered(offer)
            stream.owner = owner
        elif not self._room_for(offer, owner):
            self._too_much(topic)
            return
        else:
            self.followed[name] = Stream(topic, offer, owner)
            self._topics.add(topic, name)
            if self.ready:
                self._broker.routes.set_apart(name)
            self.on_offer()
        self._broker.changed += 1
        stream = self.followed[name]
        stream.split = None
        stream.listen(self._broker.settings.sense)

    def begin(self) -> None:
        """Follow what passed like any topic so far; what its sensors read is asked for."""
        self.ready = True
        for name, stream in self.followed.items():
            self._broker.routes.set_apart(name)
            stream.lacks = True

    def end(self, topic: str) -> None:
        """A stream is no more."""
        name = topic.encode()
        stream = self.followed.pop(name, None)
        if stream is not None:
            self._topics.remove(topic)
            self._broker.routes.set_back(name)
            self._broker.changed += 1
            for coarser in stream.coarse.values():
                coarser.let_go()
            if stream.grant is not None:
                self.ended.append(topic)

    def _too_much(self, topic: str) -> None:
        self.unfollowed += 1
        self.tell_once("full", f"{topic}: there is no room to follow this stream of sensors; it passes as it is (raise "
                               "exchange.limits.streams or stream_sensors)")  # fmt: skip

    def _room_for(self, offer: Offer, owner: str | None, instead_of: Stream | None = None) -> bool:
        """Whether there is, and its owner has not more than its share."""
        limits, count = self._broker.limits, len(offer.sensors)
        others = [one for one in self.followed.values() if one is not instead_of]
        freed = 0 if instead_of is None else _held(instead_of)
        if len(others) >= limits.streams or count > self.room + freed:
            return False
        own = [one for one in others if one.owner == owner and owner is not None]
        most_streams, most_sensors = (max(1, most // SHARE) for most in (limits.streams, limits.stream_sensors))
        return len(own) < most_streams and sum(map(len, own)) + count <= max(most_sensors, count * (not own))

    @property
    def room(self) -> int:
        """How many sensors more can be followed, or told to somebody of its own."""
        return self._broker.limits.stream_sensors - sum(map(_held, self.followed.values()))

    def _check_owner(self, stream: Stream, session: Session | None) -> None:
        if self.foreign(stream, session):
            self.refused["offer"] += 1
            raise OfferError(f"{stream.topic}: another client offers this stream, and is connected; use another topic")

    def foreign(self, stream: Stream, session: Session | None) -> bool:
        """Whether somebody else than its publisher speaks for a stream; whoever goes away may be replaced."""
        owner = None if stream.owner is None else self._broker.sessions.get(stream.owner)
        return owner is not None and owner.connection is not None and owner is not session

    def check(self, session: Session, topic_filter: str, tolerance: float | None, type_name: str | None) -> None:
        """OfferError if a subscription asks for more than a stream that it matches offers."""
        for name in self._topics.matching(topic_filter) if self.followed else ():
            stream = self.followed[name]
            if self._broker.access.may_receive(session.identity, stream.topic):
                try:
                    stream.offer.meets(tolerance, type_name)
                except OfferError as problem:
                    raise OfferError(f"{stream.topic}: {problem}") from None

    # ---- what passes

    def pass_on(self, message: Message, route: Route, now: float) -> Route:
        """Take in a message of a stream and tell those who get one of their own; returns the others."""
        stream = self.followed[message.topic]
        if self.foreign(stream, message.publisher):  # the will of somebody else
            self.refused["foreign"] += 1
            return Route(route.text, route.seen, (), ())
        batch = stream.read(message.payload, now)
        stream.speaker, stream.qos = message.publisher, message.qos
        if stream.owner is None and message.publisher is not None and batch is not None:
            stream.owner = message.publisher.client_id
        split, left = self._split(stream, route)
        if batch is not None:
            self._take(stream, batch, split.coarse, now)
        self._tell_all(stream, left, now)
        if stream.lossy and batch is not None and len(batch.updates) and not batch.discrete:
            return self._in_portions(stream, split.direct, batch, len(message.payload), now)
        return split.direct

    def _in_portions(self, stream: Stream, direct: Route, batch: Batch, size_bytes: int, now: float) -> Route:
        """Tell those who cannot take a message as large as this the states that it is about; returns the others."""
        small = [
            copy
            for copy in direct.copies
            if copy.session.connection is not None
            and copy.session.connection.gate is not None
            and copy.session.connection.gate.most_bytes < size_bytes
        ]
        for copy in small:
            self.tell(stream, copy, stream.whole(np.unique(batch.updates.sensor)), now)
        if not small:
            return direct
        return Route(direct.text, direct.seen, tuple(one for one in direct.copies if one not in small), direct.groups)

    def split(self, stream: Stream, route: Route, now: float) -> None:
        """See who gets a stream as it is and who does not, as of now."""
        _, left = self._split(stream, route)
        self._tell_all(stream, left, now)

    def _split(self, stream: Stream, route: Route) -> tuple[Split, list[Copy]]:
        """How a stream is split up, and who no longer gets one of its own."""
        split, left = stream.split, list[Copy]()
        if split is None or split.route is not route or split.delta != stream.delta:
            if split is None or split.route is not route:
                self._settle(stream)
            left = split_up(self, stream, route)
            split = stream.split
            assert split is not None
        return split, left

    def _tell_all(self, stream: Stream, copies: list[Copy], now: float) -> None:
        for copy in copies:
            self.tell(stream, copy, stream.whole(stream.bank.all), now)

    def _settle(self, stream: Stream) -> None:
        """Those who subscribe to a stream, or their needs, have changed."""
        problems = stream.settle(self._broker.routes.subscriptions(stream.topic))
        for client_id, topic_filter, problem in problems:
            line = f"{stream.topic}: {client_id} subscribes to {topic_filter}, but {problem}"
            self.tell_once(f"{client_id} {topic_filter}", line)

    def _take(self, stream: Stream, batch: Batch, coarse: list[Coarser], now: float) -> None:
        for part in stream.follow(batch.updates, batch.number):
            for coarser in coarse:
                if self._there(coarser):
                    before = coarser.suppressed
                    self._tell_anew(coarser, coarser.take(part, batch.time_s), batch.time_s, now)
                    self._count(coarser, coarser.suppressed - before)
        stream.look_again()
        for coarser in coarse:
            if coarser.owes and self._there(coarser):
                self._tell_anew(coarser, coarser.due(batch.time_s), batch.time_s, now)

    def _count(self, coarser: Coarser, suppressed: int) -> None:
        assert coarser.copy is not None
        coarser.copy.lane.suppressed += suppressed
        self._broker.counts.suppressed += suppressed

    @staticmethod
    def _there(coarser: Coarser) -> bool:
        """Whether it makes sense to tell a session anything: it is there, or what it is owed waits for it."""
        copy = coarser.copy
        assert copy is not None
        if copy.session.connection is not coarser.connection:
            coarser.carry(copy)
        return copy.session.connection is not None or bool(copy.session.durable and copy.qos and coarser.stream.qos)

    def beat(self, stream: Stream, now: float) -> None:
        """A tenth of a second has passed: tell what will soon be too far off, and who has not heard anything lately."""
        if stream.silent(now):
            return
        theirs_s = stream.clock.theirs(now)
        for coarser in stream.coarse.values():
            if not self._there(coarser):
                continue
            heartbeat = now - coarser.sent_at > BEAT * stream.offer.heartbeat_s and stream.heard_at > coarser.sent_at
            self._tell_anew(coarser, coarser.due(theirs_s), theirs_s, now, heartbeat=heartbeat)

    # ---- what is told

    def _tell_anew(
        self,
        coarser: Coarser,
        updates: Updates,
        time_s: float,
        now: float,
        *,
        heartbeat: bool = False,
        again: bool = False,
    ) -> None:
        """Send a session updates of its own stream, if there are any, or it is time for a word."""
        if not (len(updates) or heartbeat or coarser.owes):
            return
        assert coarser.copy is not None
        most_bytes = self._most_bytes(coarser.copy, coarser.stream)
        beat = heartbeat or coarser.owes
        for payload in coarser.payloads(updates, time_s, most_bytes, heartbeat=beat, again=again):
            self._deliver(coarser.stream, payload, coarser.route, now)
        coarser.sent_at = now

    def tell(self, stream: Stream, copy: Copy, updates: Updates, now: float) -> None:
        """Send one session that gets a stream as it is some states again, under the number of the last message."""
        time_s = stream.clock.theirs(now)
        route = Route(stream.topic, Seen(stream.topic), (copy,), ())
        for part in portions(updates, self._most_bytes(copy, stream)) if len(updates) else ():
            number, count = stream.number, len(stream)
            batch = Batch(
                boot=stream.boot, number=number, sensors=count, time_s=time_s, delta=stream.delta, updates=part,
                total=stream.ledger.total, repeat=True,
            )  # fmt: skip
            self._deliver(stream, encode(batch), route, now)

    def wanted(self, stream: Stream, copy: Copy, asked: Resync) -> Ints:
        """The sensors whose states a session asks for, by the messages of the stream as it gets it."""
        coarser = stream.coarse.get(copy.session)
        if coarser is None:
            return stream.wanted(asked)
        return stream.named(asked, coarser.told.among(asked.batches or ()))

    def answer(self, stream: Stream, copy: Copy, sensors: Ints, now: float) -> None:
        """Tell a session again what it lacks; what is not known here either is asked for."""
        coarser = stream.coarse.get(copy.session)
        if coarser is None:
            self.tell(stream, copy, stream.whole(sensors), now)
        elif self._there(coarser):
            states = coarser.recoding.bank.whole(sensors[stream.sure[sensors]])
            self._tell_anew(coarser, states, stream.clock.theirs(now), now, again=True)
        stream.lacks = True

    def _deliver(self, stream: Stream, payload: bytes, route: Route, now: float) -> None:
        broker = self._broker
        message = broker.new_message(stream.name, payload, stream.qos, False, stream.speaker)
        message.properties = _PROPERTIES
        if message.qos:
            broker.delivering.deliver_reliably(message, route, now)
        else:
            broker.delivering.deliver(message, route, now)

    def _most_bytes(self, copy: Copy, stream: Stream) -> int:
        connection = copy.session.connection
        largest = self._broker.limits.packet_bytes
        if connection is not None:
            largest = min(largest, connection.largest_out)
        most = largest - len(stream.name) - SPARE_BYTES
        if connection is not None and connection.gate is not None:
            most = min(most, connection.gate.most_bytes)
        return max(LEAST_BYTES, most)

    # ---- what an operator is told

    def tell_once(self, subject: str, line: str) -> None:
        """Have an operator told something, the first time only."""
        if subject not in self._told and len(self._told) < MOST_NEWS:
            self._told.add(subject)
            self._news.append(line)

    def take_news(self) -> list[str]:
        """What an operator is to be told now."""
        news, self._news = self._news, []
        return news
