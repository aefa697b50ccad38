"""The one way from a publication to a subscriber's socket: every message of every subscription goes through here.

    deliver     a publication -> one copy per session and shared group
    _accept     a copy -> straight to the socket, or to wait in memory, or in the log
    pump        what waits -> in flight, as fast as socket and window allow
    acknowledged  in flight -> done

Law (checked by tests): due = delivered + dropped + owed, for every session at every moment.
"""

from __future__ import annotations

from collections import deque

from firelane.exchange.connection import Connection
from firelane.exchange.counts import Counts
from firelane.exchange.journal import Due, Journal
from firelane.exchange.message import NEVER, Message
from firelane.exchange.retained import RetainedMessages
from firelane.exchange.routes import Copy, Route
from firelane.exchange.session import Delivery, Dropped, Replay, Session, State, Subscription
from firelane.mqtt.fields import two_bytes
from firelane.mqtt.packets import V3, V5
from firelane.mqtt.reasons import Reason
from firelane.scenario.settings import Limits

MOST_UNWRITTEN_BYTES = 65_536  # what pump adds to an outbox before the socket has had its turn
MOST_STEPS = 2000  # in search of retained messages, before others have their turn
PUBREL = 0x62


class Delivering:
    """Takes publications to sessions; owns the list of connections that have something to write."""

    def __init__(self, limits: Limits, journal: Journal, retained: RetainedMessages, counts: Counts) -> None:
        self.limits = limits
        self.journal = journal
        self.retained = retained
        self.counts = counts
        self.sequence = 0  # of the last message that came in
        self.dirty: list[Connection] = []
        self._after_commit: deque[tuple[int, Connection, bytes]] = deque()

    # ---- publication to copies

    def deliver(self, message: Message, route: Route, now: float) -> None:
        """Hand a message of QoS 0 to all who want it; it is written when the caller's turn ends."""
        copies = route.copies
        count = len(copies)
        if count > 1:  # fan-out starts at a rotating subscriber
            start = message.sequence % count
            copies = copies[start:] + copies[:start]
        for copy in copies:
            session = copy.session
            if not copy.plain or message.retain:
                self._deliver_own(copy, message, now)
                continue
            session.due += 1
            connection = session.connection
            if connection is None:
                session.dropped[Dropped.DISCONNECTED] += 1
            elif connection.direct:
                wire = message.wire5 if connection.version == V5 else message.wire3
                if wire is None:
                    wire = message.wire(connection.version)
                if len(wire) > connection.largest_out:
                    session.dropped[Dropped.TOO_LARGE] += 1
                    continue
                outbox = connection.outbox
                if not outbox:
                    self.dirty.append(connection)
                outbox.append(wire)
                connection.unsent += 1
            else:
                self._accept(session, Delivery(message, 0, False, ()), now)
        for turn in route.groups:
            self._deliver_own(turn.take(0), message, now)

    def _deliver_own(self, copy: Copy, message: Message, now: float) -> None:
        """A QoS 0 copy that has something of its own: identifiers, the retain flag, or a publisher not to be told."""
        chosen = copy.own if copy.session is message.publisher else copy
        if chosen is not None:
            chosen.session.due += 1
            retain = message.retain and chosen.retain_as_published
            self._accept(chosen.session, Delivery(message, 0, retain, chosen.identifiers), now)

    def deliver_reliably(self, message: Message, route: Route, now: float, packet_id: int = 0) -> int:
        """Hand a message of QoS 1 or 2 to all who want it, after it is in the log for those who outlive a crash.

        With a packet identifier its publisher's QoS 2 exchange is in the same record, so that a crash leaves both or
        neither. Returns how many want it.
        """
        due: list[Due] = []
        for copy in route.copies:
            chosen = copy.own if copy.session is message.publisher else copy
            if chosen is not None:
                due.append(_due(chosen, message))
        if not route.groups:
            self._hand_on(message, due, now, packet_id)
            return len(due)
        further: list[Due] = []
        for turn in route.groups:
            chosen = turn.take(message.qos)
            if chosen.qos and any(session is chosen.session and one.qos for session, one in due):
                further.append(_due(chosen, self._anew(message)))
            else:
                due.append(_due(chosen, message))
        self._hand_on(message, due, now, packet_id)
        for one in further:  # after the record with the identifier: should a crash part them, nothing comes twice
            assert one[1].message is not None
            self._hand_on(one[1].message, [one], now, 0)
        return len(due) + len(further)

    def _anew(self, message: Message) -> Message:
        """The same message under a number of its own, as a session that is owed it twice must tell the two apart."""
        self.sequence += 1
        again = Message(message.topic, message.payload, message.qos, message.retain, message.publisher, self.sequence)
        again.properties = message.properties
        again.expires_at, again.expiry_s = message.expires_at, message.expiry_s
        return again

    def _hand_on(self, message: Message, due: list[Due], now: float, packet_id: int) -> None:
        logged = [one for one in due if one[1].qos and self._needs_log(one[0])]
        if logged or packet_id:
            self.journal.message(message, logged, packet_id)
        for session, delivery in due:
            session.due += 1
            self._accept(session, delivery, now)

    def must_store(self, route: Route, qos: int) -> bool:
        """Whether a message of this topic cannot be handed on without the log."""
        copies = (*route.copies, *(copy for turn in route.groups for copy in turn.members))
        return any(copy.qos and qos and self._needs_log(copy.session) for copy in copies)

    def _needs_log(self, session: Session) -> bool:
        """Whether what a session is owed must be in the log: it outlives a crash, or memory has no room for it."""
        if session.durable and (self.journal.durable or session.connection is None):
            return True
        return bool(session.backlog) or self._is_full(session)

    def _is_full(self, session: Session) -> bool:
        return len(session.queue) >= self.limits.queue or session.queue_bytes >= self.limits.queue_bytes

    # ---- copies to a session

    def _accept(self, session: Session, delivery: Delivery, now: float) -> None:
        connection = session.connection
        if connection is not None and connection.direct and connection.window_used < connection.window:
            self._send(connection, session, delivery, now)  # nothing waits, so nothing is overtaken
            connection.direct = session.holding_until <= self.journal.committed
        elif connection is None:
            if delivery.qos and session.durable:
                self._to_backlog(session, delivery)
            else:
                session.dropped[Dropped.DISCONNECTED] += 1
        elif delivery.qos and session.backlog:
            self._to_backlog(session, delivery)
        elif self._is_full(session):
            if delivery.qos:
                self._to_backlog(session, delivery)
            else:
                session.dropped[Dropped.OVERFLOW] += 1
        else:
            self._queue(session, delivery)
            if connection.writable and len(session.queue) == 1:  # else what came before already waits for something
                self.pump(session, now)

    def _to_backlog(self, session: Session, delivery: Delivery) -> None:
        if not delivery.location:
            assert delivery.message is not None
            self.journal.message(delivery.message, [(session, delivery)])
        session.backlog.append(delivery.location, delivery.size_bytes)

    def pump(self, session: Session, now: float) -> None:
        """Send what waits, as far as the socket and the client's window allow."""
        connection = session.connection
        if connection is None:
            return
        while connection.writable and connection.outbox_bytes < MOST_UNWRITTEN_BYTES:
            delivery = self._next(session, now)
            if delivery is None:
                break
            if delivery.qos and connection.window_used >= connection.window:
                break
            if delivery.qos < 2 and session.holding_until > self.journal.committed:
                break  # must not overtake what waits for the log
            self._take_next(session)
            if delivery.message is not None and now >= delivery.message.expires_at and not delivery.duplicate:
                self._drop(session, delivery, Dropped.EXPIRED)
            else:
                self._send(connection, session, delivery, now)
        held = session.holding_until > self.journal.committed
        connection.direct = connection.writable and not (session.waits or held or connection.alias_limit)

    def _next(self, session: Session, now: float) -> Delivery | None:
        """What is to be sent next: first what was in flight, then memory, then the log, then retained messages."""
        if session.resend:
            return session.resend[0]
        if not session.queue:
            if session.backlog:
                location, size_bytes = session.backlog.popleft()
                self._queue(session, self.journal.load(session, location, size_bytes))
            elif session.replays:
                self._replay(session, now)
        return session.queue[0] if session.queue else None

    def _take_next(self, session: Session) -> None:
        if session.resend:
            session.resend.popleft()
            return
        message = session.queue.popleft().message
        assert message is not None
        session.queue_bytes -= message.size_bytes

    def _queue(self, session: Session, delivery: Delivery) -> None:
        assert delivery.message is not None
        session.queue.append(delivery)
        session.queue_bytes += delivery.message.size_bytes

    def _replay(self, session: Session, now: float) -> None:
        """Put one more retained message in the queue; they are pulled one by one, and not looked for for long."""
        steps = 0
        while session.replays:
            replay: Replay = session.replays[0]
            if replay.topics is None:
                replay.topics = self.retained.topics(replay.subscription)
            for topic in replay.topics:
                if topic is not None and self._queue_retained(session, replay.subscription, topic, now):
                    return
                steps += 1
                if steps == MOST_STEPS:
                    assert session.connection is not None
                    self.dirty.append(session.connection)  # nothing to write, but it goes on after the others
                    return
            session.replays.popleft()

    def _queue_retained(self, session: Session, wanted: Subscription, topic: bytes, now: float) -> bool:
        message = self._fresh(self._current(topic, now), session)
        if message is None or session.subscriptions.get(wanted.filter) is not wanted:
            return False
        identifiers = (wanted.identifier,) if wanted.identifier else ()
        delivery = Delivery(message, min(message.qos, wanted.qos), True, identifiers)
        if delivery.qos and self.journal.keeps(session):
            self.journal.message(message, [(session, delivery)])
        session.due += 1
        self._queue(session, delivery)
        return True

    def _current(self, topic: bytes, now: float) -> Message | None:
        """A topic's retained message, unless its time is over."""
        message = self.retained.get(topic)
        if message is not None and now >= message.expires_at:
            over = self.retained.clear(topic)
            assert over is not None
            self.journal.unretained(over)
            return None
        return message

    def _fresh(self, message: Message | None, session: Session) -> Message | None:
        """A retained message for a session that may be owed it twice: under a number of its own."""
        if message is None or not (message.qos and session.durable):
            return message
        return self._anew(message)

    # ---- on the wire

    def _send(self, connection: Connection, session: Session, delivery: Delivery, now: float) -> None:
        if delivery.state is State.RELEASED:
            connection.window_used += 1
            released = bytes((PUBREL, 2)) + two_bytes(delivery.packet_id)
            self.write_committed(connection, released, session.holding_until)
            return
        if delivery.message is None:  # in flight when its client went away; the log has it
            delivery.message = self.journal.load(session, delivery.location, delivery.size_bytes).message
        if delivery.qos and not delivery.packet_id:
            delivery.packet_id = session.next_packet_id()
        wire = self._wire(connection, delivery, now)
        if wire is None:
            self._drop(session, delivery, Dropped.TOO_LARGE)
            return
        if delivery.qos == 0:
            connection.unsent += 1
            self.write(connection, wire)
            return
        connection.window_used += 1
        first_time = delivery.packet_id not in session.in_flight
        session.in_flight[delivery.packet_id] = delivery
        delivery.state = State.SENT
        delivery.duplicate = True  # should it be sent again
        if delivery.qos == 2 and first_time and delivery.location and self.journal.keeps(session):
            session.holding_until = self.journal.sent(session, delivery)
        self.write_committed(connection, wire, session.holding_until)

    def _wire(self, connection: Connection, delivery: Delivery, now: float) -> bytes | None:
        """The bytes of a copy, with an alias for its topic where the client takes them; None if it is too large."""
        message = delivery.message
        assert message is not None
        first = 0x30 | delivery.duplicate << 3 | delivery.qos << 1 | delivery.retain
        if connection.version != V5:
            return message.encoded(V3, first, delivery.packet_id, b"", message.topic)
        topic, alias, new = message.topic, 0, False
        if not (connection.alias_limit or delivery.identifiers) and message.expires_at == NEVER:
            wire = message.encoded(V5, first, delivery.packet_id, b"", topic)
            return wire if len(wire) <= connection.largest_out else None
        if connection.alias_limit:
            alias = connection.aliases_out.get(topic, 0)
            new = not alias and len(connection.aliases_out) < connection.alias_limit
            alias = len(connection.aliases_out) + 1 if new else alias
        extra = message.own_properties(delivery.identifiers, alias, now)
        wire = message.encoded(V5, first, delivery.packet_id, extra, b"" if alias and not new else topic)
        if alias and len(wire) > connection.largest_out:  # it may fit without
            new, extra = False, message.own_properties(delivery.identifiers, 0, now)
            wire = message.encoded(V5, first, delivery.packet_id, extra, topic)
        if len(wire) > connection.largest_out:
            return None
        if new:
            connection.aliases_out[topic] = alias
        return wire

    def write(self, connection: Connection, data: bytes) -> None:
        """Put bytes in the outbox of a connection."""
        if not connection.outbox:
            self.dirty.append(connection)
        connection.outbox.append(data)
        connection.outbox_bytes += len(data)

    def write_committed(self, connection: Connection, data: bytes, position: int) -> None:
        """The same, once the log is safe up to `position`."""
        if position <= self.journal.committed:
            self.write(connection, data)
        else:
            self._after_commit.append((position, connection, data))

    def committed(self, now: float) -> None:
        """The log is safe further than before: acknowledge, and send what had to wait."""
        waiting, self._after_commit = self._after_commit, deque()
        safe = self.journal.committed
        resumed: dict[Session, None] = {}
        for position, connection, data in waiting:
            session = connection.session
            if position > safe:
                self._after_commit.append((position, connection, data))
                continue
            if session is None or session.connection is None:
                continue  # gone meanwhile; what it is owed is sent when it comes back
            if session.connection is connection:  # else it has come back, and may be waiting for the same
                self.write(connection, data)
            if not session.connection.direct:
                resumed[session] = None
        for session in resumed:
            self.pump(session, now)

    # ---- what comes of it

    def acknowledged(self, session: Session, packet_id: int, now: float) -> None:
        """PUBACK, or a PUBREC that refuses: the client has had it."""
        delivery = session.in_flight.get(packet_id)
        if delivery is None or delivery.state is not State.SENT:
            return
        if session.resend:
            self._answered(session, delivery)
        del session.in_flight[packet_id]
        session.delivered += 1
        self._finished(session, delivery, now)

    def received(self, session: Session, packet_id: int) -> Reason:
        """PUBREC: the client owns it now; PUBREL follows when the log says so."""
        connection = session.connection
        delivery = session.in_flight.get(packet_id)
        if connection is None or delivery is None or delivery.qos != 2:
            return Reason.PACKET_IDENTIFIER_NOT_FOUND
        self._answered(session, delivery)
        if delivery.state is State.SENT:
            delivery.state = State.RELEASED
            delivery.message = None
            session.delivered += 1
            if delivery.location and self.journal.keeps(session):
                session.holding_until = self.journal.released(session, delivery)
            elif delivery.location:
                self.journal.done(session, delivery)
                delivery.location = 0
        self.write_committed(connection, bytes((PUBREL, 2)) + two_bytes(packet_id), session.holding_until)
        return Reason.SUCCESS

    def completed(self, session: Session, packet_id: int, now: float) -> None:
        """PUBCOMP: the identifier is free again."""
        delivery = session.in_flight.get(packet_id)
        if delivery is None or delivery.state is not State.RELEASED:
            return
        self._answered(session, delivery)
        del session.in_flight[packet_id]
        if self.journal.keeps(session):
            self.journal.completed(session, packet_id)
        delivery.location = 0
        self._finished(session, delivery, now)

    def _answered(self, session: Session, delivery: Delivery) -> None:
        """A client may answer what it was sent on an earlier connection; then it need not be sent again."""
        if session.resend and delivery in session.resend and session.connection is not None:
            session.resend.remove(delivery)
            session.connection.window_used += 1

    def _finished(self, session: Session, delivery: Delivery, now: float) -> None:
        if delivery.location:
            self.journal.done(session, delivery)
        if session.connection is not None:
            session.connection.window_used -= 1
            if session.waits:
                self.pump(session, now)

    def _drop(self, session: Session, delivery: Delivery, why: Dropped) -> None:
        session.dropped[why] += 1
        session.in_flight.pop(delivery.packet_id, None)
        if delivery.location:
            self.journal.done(session, delivery)

    def detach(self, session: Session) -> None:
        """A connection is gone: what was in flight will be sent again, what waited in memory moves to the log."""
        connection = session.connection
        assert connection is not None
        session.dropped[Dropped.DISCONNECTED] += connection.unsent
        connection.unsent = 0
        session.connection = None
        if not session.durable:
            session.replays.clear()
        waiting: list[tuple[int, int]] = []
        for delivery in session.queue:
            if delivery.qos == 0 or not session.durable:
                self._drop(session, delivery, Dropped.DISCONNECTED)
                continue
            if not delivery.location:
                assert delivery.message is not None
                self.journal.message(delivery.message, [(session, delivery)])
            waiting.append((delivery.location, delivery.size_bytes))
        session.queue.clear()
        session.queue_bytes = 0
        if waiting:
            session.backlog.prepend(waiting)
        session.resend = deque(session.in_flight.values())
        for delivery in session.resend:
            if delivery.location:
                delivery.message = None

    def forget(self, session: Session) -> None:
        """A session has ended: everything it was still owed is dropped, and counted."""
        for delivery in list(session.in_flight.values()):
            if delivery.state is State.RELEASED:
                del session.in_flight[delivery.packet_id]
            else:
                self._drop(session, delivery, Dropped.DISCONNECTED)
        session.resend.clear()
        while session.backlog:
            location, size_bytes = session.backlog.popleft()
            session.dropped[Dropped.DISCONNECTED] += 1
            self.journal.let_go(session, location, size_bytes)


def _due(copy: Copy, message: Message) -> Due:
    qos = copy.qos if copy.qos < message.qos else message.qos
    return copy.session, Delivery(message, qos, message.retain and copy.retain_as_published, copy.identifiers)
