"""Reads the log back after a stop or a crash: sessions, subscriptions, what they are owed, retained messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from firelane.exchange.clients.access import Identity
from firelane.exchange.clients.session import Session, Subscription, new_subscription
from firelane.exchange.journal import records
from firelane.exchange.journal.journal import Journal
from firelane.exchange.journal.records import Record
from firelane.exchange.journal.retained import Kept
from firelane.exchange.lanes.lane import Delivery, Lane, State
from firelane.exchange.lanes.message import NEVER
from firelane.mqtt.topics import matches

Place = tuple[int, int]  # location, size
NO_FILTER = ""  # of the lane for what no subscription matches any more


@dataclass(slots=True)
class _Remembered:
    """A session while the log is being read; it lasts if its own record says so, which may come late."""

    session: Session
    owed: dict[int, Place] = field(default_factory=dict)  # by sequence
    topics: dict[int, bytes] = field(default_factory=dict)  # of what is owed
    sent: dict[int, int] = field(default_factory=dict)  # sequence -> packet identifier
    released: dict[int, int] = field(default_factory=dict)  # packet identifier -> sequence


@dataclass(slots=True)
class Recovered:
    """What the log remembered."""

    sessions: list[Session] = field(default_factory=list)
    retained: list[Kept] = field(default_factory=list)
    last_sequence: int = 0
    last_number: int = 0


class Recovery:
    """One pass over the log; a function per kind of record."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._sessions: dict[int, _Remembered] = {}
        self._retained: dict[bytes, Kept] = {}
        self._topics: dict[bytes, bytes] = {}
        self._last_sequence = 0
        self._last_number = 0

    def run(self) -> Recovered:
        """Read everything; what ended is dropped, what is owed is put in the order in which it was published."""
        for location, kind, body in self._journal.log.records():
            self._READERS[Record(kind)](self, location, body)
        self._sessions = {number: one for number, one in self._sessions.items() if one.session.durable}
        self._restore_deliveries()
        sessions = [one.session for one in self._sessions.values()]
        return Recovered(sessions, list(self._retained.values()), self._last_sequence, self._last_number)

    def _named(self, number: int) -> _Remembered:
        """A session that a record names; cleaning may have put the session's own record behind that one."""
        self._last_number = max(self._last_number, number)
        if number not in self._sessions:
            unknown = Session(number=number, client_id="", identity=Identity(client_id=""))
            self._sessions[number] = _Remembered(unknown)
        return self._sessions[number]

    def _session(self, location: int, body: bytes) -> None:
        data = records.read_json(body)
        session = self._named(data["number"]).session
        session.client_id = data["client"]
        session.identity = Identity(client_id=data["client"], user=data["user"], roles=tuple(data["roles"]))
        session.lasts(NEVER if data["expiry"] is None else data["expiry"])
        session.expires_at = self._journal.moment(data["expires_at"])
        session.will = records.will_from(data["will"])
        session.location, session.size_bytes = location, len(body)

    def _session_ended(self, _: int, body: bytes) -> None:
        number = records.read_number(body)
        self._last_number = max(self._last_number, number)
        self._sessions.pop(number, None)

    def _subscribed(self, location: int, body: bytes) -> None:
        data = records.read_json(body)
        session = self._named(data.pop("session")).session
        subscription: Subscription = new_subscription(session, data.pop("filter"), **data)
        subscription.location, subscription.size_bytes = location, len(body)
        session.subscriptions[subscription.filter] = subscription

    def _unsubscribed(self, _: int, body: bytes) -> None:
        data = records.read_json(body)
        if remembered := self._sessions.get(data["session"]):
            remembered.session.subscriptions.pop(data["filter"], None)

    def _message(self, location: int, body: bytes) -> None:
        stored = records.read_message(body)
        self._saw(stored.sequence)
        topic = self._topics.setdefault(stored.topic, stored.topic)
        for one in stored.owed:
            remembered = self._named(one.number)
            remembered.owed[stored.sequence] = location, len(body)
            remembered.topics[stored.sequence] = topic
        if stored.packet_id:
            self._named(stored.publisher).session.received[stored.packet_id] = location, len(body)

    def _saw(self, sequence: int) -> None:
        """A number that was given to a message is never given again, also when only its end is left in the log."""
        self._last_sequence = max(self._last_sequence, sequence)

    def _done(self, _: int, body: bytes) -> None:
        for number, sequence in records.read_done(body):
            self._saw(sequence)
            if remembered := self._sessions.get(number):
                remembered.owed.pop(sequence, None)
                remembered.topics.pop(sequence, None)
                remembered.sent.pop(sequence, None)

    def _sent(self, _: int, body: bytes) -> None:
        number, sequence, packet_id = records.read_sent(body)
        self._saw(sequence)
        self._named(number).sent[sequence] = packet_id

    def _released(self, _: int, body: bytes) -> None:
        number, sequence, packet_id = records.read_sent(body)
        self._saw(sequence)
        remembered = self._named(number)
        remembered.owed.pop(sequence, None)
        remembered.topics.pop(sequence, None)
        remembered.sent.pop(sequence, None)
        remembered.released[packet_id] = sequence

    def _completed(self, _: int, body: bytes) -> None:
        number, packet_id = records.read_identifier(body)
        if remembered := self._sessions.get(number):
            remembered.released.pop(packet_id, None)

    def _forgotten(self, _: int, body: bytes) -> None:
        number, packet_id = records.read_identifier(body)
        if remembered := self._sessions.get(number):
            remembered.session.received.pop(packet_id, None)

    def _retain(self, location: int, body: bytes) -> None:
        stored = records.read_message(body)
        self._saw(stored.sequence)
        self._retained[stored.topic] = Kept(self._journal.revived(stored), location, len(body))

    def _unretain(self, _: int, body: bytes) -> None:
        self._retained.pop(body, None)

    def _restore_deliveries(self) -> None:
        holders: dict[int, int] = {}
        for remembered in self._sessions.values():
            session = remembered.session
            lanes: dict[bytes, Lane] = {}
            for sequence, (location, size_bytes) in sorted(remembered.owed.items()):
                holders[location] = holders.get(location, 0) + 1
                topic = remembered.topics[sequence]
                lane = lanes.get(topic) or lanes.setdefault(topic, _lane_of(session, topic))
                lane.due += 1
                packet_id = remembered.sent.get(sequence)
                if packet_id is None:
                    lane.store(location, size_bytes)
                    session.stored_one(topic, lane)
                else:
                    self._in_flight(lane, location, size_bytes, packet_id)
            for packet_id, sequence in remembered.released.items():
                session.in_flight[packet_id] = _released_delivery(session.lane(NO_FILTER), packet_id, sequence)
            for location, _ in session.received.values():
                holders[location] = holders.get(location, 0) + 1
            session.last_packet_id = max(session.in_flight, default=0)
        self._account(holders)

    def _in_flight(self, lane: Lane, location: int, size_bytes: int, packet_id: int) -> None:
        delivery = self._journal.load(lane, location, size_bytes)
        delivery.packet_id = packet_id
        delivery.state = State.SENT
        delivery.duplicate = True
        delivery.message = None
        lane.session.in_flight[packet_id] = delivery

    def _account(self, holders: dict[int, int]) -> None:
        """Tell the journal what is still needed; everything else in the log is free."""
        sizes = {one.location: one.size_bytes for one in self._retained.values()}
        for remembered in self._sessions.values():
            session = remembered.session
            sizes[session.location] = session.size_bytes
            sizes.update((one.location, one.size_bytes) for one in session.subscriptions.values())
            sizes.update(remembered.owed.values())
            sizes.update(session.received.values())
        self._journal.log.keep_only(sizes)
        for location, count in holders.items():
            self._journal.restore_holders(location, count)

    _READERS: ClassVar[dict[Record, Callable[[Recovery, int, bytes], None]]] = {
        Record.SESSION: _session,
        Record.SESSION_ENDED: _session_ended,
        Record.SUBSCRIBED: _subscribed,
        Record.UNSUBSCRIBED: _unsubscribed,
        Record.MESSAGE: _message,
        Record.DONE: _done,
        Record.SENT: _sent,
        Record.RELEASED: _released,
        Record.COMPLETED: _completed,
        Record.FORGOTTEN: _forgotten,
        Record.RETAINED: _retain,
        Record.UNRETAINED: _unretain,
    }


def _lane_of(session: Session, topic: bytes) -> Lane:
    """The lane for what a session is owed of a topic: of a subscription that matches, else one without any."""
    text = topic.decode()
    matching = [one.lane for one in session.subscriptions.values() if matches(one.topics, text)]
    if len(matching) > 1:
        session.overlap()
    return matching[0] if matching else session.lane(NO_FILTER)


def _released_delivery(lane: Lane, packet_id: int, sequence: int) -> Delivery:
    """A QoS 2 message that its client has; only its identifier is still to be freed."""
    delivery = Delivery(lane, None, sequence, 2, False, (), 0.0)
    delivery.packet_id, delivery.state, delivery.duplicate = packet_id, State.RELEASED, True
    return delivery
