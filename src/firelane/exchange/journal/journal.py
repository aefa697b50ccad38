"""What of the exchange survives a crash, as it is written down: the meaning of the log's records.

Every message of QoS 1 or 2 that someone who outlives a crash is owed lies in the log before its publisher is told
that it was accepted. The log is also where messages wait that memory has no room for; with `durability: memory` that
is all it is, and nothing waits for it.

Messages are known by the location at which they were first written, also after cleaning has moved them.
"""

from __future__ import annotations

from dataclasses import dataclass

from firelane.exchange.clients.session import Session, Subscription
from firelane.exchange.journal import records
from firelane.exchange.journal.records import RETAIN, Record, StoredMessage
from firelane.exchange.journal.retained import Kept
from firelane.exchange.lanes.lane import Delivery, Lane
from firelane.exchange.lanes.message import NEVER, Message, RetoldMessage
from firelane.exchange.log import Log

ALWAYS = 1 << 62
_MESSAGE = int(Record.MESSAGE)
MOST_UNWRITTEN_BYTES = 32_000_000
PUBLISHER = 0  # stands for the publisher among those who hold on to a message


@dataclass(slots=True)
class _Moved:
    location: int
    size_bytes: int


class Journal:
    """Writes down what must survive; `committed` says up to where it would."""

    def __init__(self, log: Log, *, durable: bool, wall_ahead_s: float) -> None:
        self.log = log
        self.durable = durable
        self.committed = 0 if durable else ALWAYS
        self._wall_ahead_s = wall_ahead_s  # wall clock minus the clock of the sessions
        self._holders: dict[int, int] = {}  # of messages that more than one holds
        self._moved: dict[int, _Moved] = {}
        self._done: list[bytes] = []  # DONE records to be written together
        self.watched: dict[int, set[int]] = {}  # while cleaning: who holds the messages that are to be moved

    @property
    def refusing(self) -> bool:
        """Whether new messages must be refused: the log is full, or cannot be written."""
        return self.log.full or self.log.failed is not None

    @property
    def behind(self) -> bool:
        """Whether so much is not on disk yet that who adds to it should wait."""
        return self.log.appended - self.log.committed > MOST_UNWRITTEN_BYTES

    def keeps(self, session: Session) -> bool:
        """Whether what a session is owed survives a crash."""
        return self.durable and session.durable

    @property
    def appended(self) -> int:
        """The position after everything written so far."""
        return self.log.appended if self.durable else 0

    # ---- messages

    def message(self, message: Message, due: list[Delivery], packet_id: int = 0) -> None:
        """Write a message down for these; with its publisher's packet identifier if that is to be remembered too."""
        publisher, expires_at = message.publisher, message.expires_at
        body = records.write_message(
            [(one.lane.session.number, one.qos, one.retain, one.identifiers) for one in due],
            message.sequence,
            0.0 if expires_at == NEVER else self._wall(expires_at),
            0 if publisher is None else publisher.number,
            packet_id,
            message.qos | message.retain << 2,
            message.topic,
            message.properties,
            message.payload,
            message.first,
        )
        location = self.log.append(_MESSAGE, body)
        for one in due:
            one.location = location
            one.size_bytes = len(body)
        if packet_id:
            assert publisher is not None
            publisher.received[packet_id] = location, len(body)
            if due:
                self._holders[location] = len(due) + 1
        elif len(due) > 1:
            self._holders[location] = len(due)

    def keep(self, delivery: Delivery) -> None:
        """Write a delivery's message down, unless it is."""
        message = delivery.message
        if delivery.location:
            return
        assert message is not None
        if delivery.identifiers or message.expires_at != NEVER or message.first:
            self.message(message, [delivery])
            return
        publisher = message.publisher
        body = records.write_message_for_one(
            delivery.lane.session.number,
            delivery.qos | delivery.retain << 2,
            message.sequence,
            0 if publisher is None else publisher.number,
            message.qos | message.retain << 2,
            message.topic,
            message.properties,
            message.payload,
        )
        delivery.location = self.log.append(_MESSAGE, body)
        delivery.size_bytes = len(body)

    def load(self, lane: Lane, location: int, size_bytes: int) -> Delivery:
        """A message from the log, as this lane's session is to get it."""
        _, body = self.log.read(self.place(location))
        stored = records.read_message(body)
        owed = next(one for one in stored.owed if one.number == lane.session.number)
        message = self.revived(stored)
        delivery = Delivery(lane, message, stored.sequence, owed.qos, owed.retain, owed.identifiers, 0.0)
        delivery.location, delivery.size_bytes = location, size_bytes
        return delivery

    def done(self, session: Session, delivery: Delivery) -> None:
        """A session has had a message, or will never get it."""
        if self.durable and session.durable:
            self._done.append(records.write_done(session.number, delivery.sequence))
        self._release(session.number, delivery.location, delivery.size_bytes)

    def flush(self) -> None:
        """Hand what was written down to the disk. Nobody waits for a DONE, so they come together, in one record."""
        if self._done:
            self.note(Record.DONE, b"".join(self._done))
            self._done.clear()
        self.log.flush()

    def let_go(self, session: Session, location: int, size_bytes: int) -> None:
        """A session no longer needs a message; the last one frees its room."""
        self._release(session.number, location, size_bytes)

    def sent(self, session: Session, delivery: Delivery) -> int:
        """A QoS 2 message is about to go out under its packet identifier; returns the position to wait for."""
        self.note(Record.SENT, records.write_sent(session.number, delivery.sequence, delivery.packet_id))
        return self.appended

    def released(self, session: Session, delivery: Delivery) -> int:
        """A QoS 2 message is with its client; returns the position to wait for."""
        self.note(Record.RELEASED, records.write_sent(session.number, delivery.sequence, delivery.packet_id))
        self.let_go(session, delivery.location, delivery.size_bytes)
        return self.appended

    def completed(self, session: Session, packet_id: int) -> None:
        """A QoS 2 exchange with a subscriber is over."""
        self.note(Record.COMPLETED, records.write_identifier(session.number, packet_id))

    def forgotten(self, session: Session, packet_id: int) -> int:
        """A QoS 2 exchange with a publisher is over; returns the position to wait for."""
        location, size_bytes = session.received.pop(packet_id)
        if not location:
            return 0
        self.note(Record.FORGOTTEN, records.write_identifier(session.number, packet_id))
        self._release(PUBLISHER, location, size_bytes)
        return self.appended

    def _release(self, holder: int, location: int, size_bytes: int) -> None:
        if self.watched and location in self.watched:
            self.watched[location].discard(holder)
        holders = self._holders.get(location) if self._holders else None
        if holders is None:
            if self._moved and location in self._moved:
                place = self._moved.pop(location)
                location, size_bytes = place.location, place.size_bytes
            self.log.release(location, size_bytes)
        elif holders == 2:
            del self._holders[location]
        else:
            self._holders[location] = holders - 1

    # ---- sessions, subscriptions, retained messages

    def session(self, session: Session) -> None:
        """Write down who a session is and how long it lasts; it replaces what was written before."""
        if not self.durable:
            return
        body = records.write_json(
            {
                "number": session.number,
                "client": session.client_id,
                "user": session.identity.user,
                "roles": session.identity.roles,
                "expiry": None if session.expiry_s == NEVER else session.expiry_s,
                "expires_at": self._wall(session.expires_at),
                "will": records.will_data(session.will),
            }
        )
        self._replace(session, Record.SESSION, body)

    def session_ended(self, session: Session) -> None:
        """A session is no more, and with it its subscriptions and all it was owed."""
        if session.location:
            self.note(Record.SESSION_ENDED, records.write_number(session.number))
            self._free(session)
            for subscription in session.subscriptions.values():
                self._free(subscription)
        for location, size_bytes in session.received.values():
            if location:
                self._release(PUBLISHER, location, size_bytes)
        session.received.clear()

    def subscribed(self, subscription: Subscription) -> None:
        """Write a durable session's subscription down."""
        if not self.keeps(subscription.session):
            return
        body = records.write_json(
            {
                "session": subscription.session.number,
                "filter": subscription.filter,
                "qos": subscription.qos,
                "no_local": subscription.no_local,
                "retain_as_published": subscription.retain_as_published,
                "identifier": subscription.identifier,
                "profile": subscription.profile,
                "wishes": subscription.wishes,
            }
        )
        self._replace(subscription, Record.SUBSCRIBED, body)

    def unsubscribed(self, subscription: Subscription) -> None:
        """And cross it out."""
        if subscription.location:
            data = {"session": subscription.session.number, "filter": subscription.filter}
            self.note(Record.UNSUBSCRIBED, records.write_json(data))
            self._free(subscription)

    def retained(self, kept: Kept, before: Kept | None) -> None:
        """Write a retained message down in the place of the one before."""
        if not self.durable:
            return
        message = kept.message
        expires_at, flags = self._wall(message.expires_at), message.qos | RETAIN
        body = records.write_message(
            [], message.sequence, expires_at, 0, 0, flags, message.topic, message.properties, message.payload
        )
        self._replace(kept, Record.RETAINED, body)
        if before is not None:
            self._free(before)

    def unretained(self, kept: Kept) -> None:
        """A retained message was cleared."""
        if kept.location:
            self.note(Record.UNRETAINED, kept.message.topic)
            self._free(kept)

    def note(self, kind: Record, body: bytes) -> None:
        """Write something that only ends something older: it takes no room of its own once that is gone."""
        self.log.note(kind, body)

    def _replace(self, what: Session | Subscription | Kept, kind: Record, body: bytes) -> None:
        self._free(what)
        what.location, what.size_bytes = self.log.append(kind, body), len(body)

    def _free(self, what: Session | Subscription | Kept) -> None:
        if what.location:
            self.log.release(what.location, what.size_bytes)
            what.location = what.size_bytes = 0

    # ---- cleaning

    def moved_into(self, segment: int) -> dict[int, int]:
        """Messages that an earlier cleaning put into a segment: location now -> location by which they are known."""
        return {now.location: known for known, now in self._moved.items() if now.location >> 32 == segment}

    def move(self, known: int, body: bytes) -> None:
        """Write a message anew, as its segment is about to go."""
        self._moved[known] = _Moved(self.log.append(Record.MESSAGE, body), len(body))

    def rewrite(self, what: Session | Subscription | Kept, kind: Record, body: bytes) -> None:
        """Write a session, subscription or retained message anew."""
        what.location, what.size_bytes = self.log.append(kind, body), len(body)

    def restore_holders(self, location: int, holders: int) -> None:
        """While the log is read back: how many hold on to a message."""
        if holders > 1:
            self._holders[location] = holders

    # ---- places and times

    def place(self, location: int) -> int:
        """Where a message lies now."""
        moved = self._moved.get(location)
        return location if moved is None else moved.location

    def _wall(self, moment: float) -> float:
        return 0.0 if moment == NEVER else moment + self._wall_ahead_s

    def moment(self, wall: float) -> float:
        """A time of the wall clock on the clock of the sessions; 0 is never."""
        return NEVER if wall == 0 else wall - self._wall_ahead_s

    def revived(self, stored: StoredMessage) -> Message:
        """A message as it was before it was written down."""
        kind = RetoldMessage if stored.first else Message
        message = kind(stored.topic, stored.payload, stored.qos, stored.retain, None, stored.sequence)
        if isinstance(message, RetoldMessage):
            message.first = stored.first
        message.properties = stored.properties
        message.expires_at = self.moment(stored.expires_at)
        return message
