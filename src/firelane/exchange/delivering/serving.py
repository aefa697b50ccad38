"""From a link to the wire: what waits is sent by class, as fast as link, socket and window allow."""

from __future__ import annotations

import heapq
from itertools import count

from firelane.errors import StoreError
from firelane.exchange.clients.connection import Connection, Gate
from firelane.exchange.clients.session import Session
from firelane.exchange.delivering.buffers import Buffers
from firelane.exchange.delivering.dropping import Dropping
from firelane.exchange.delivering.outboxes import Outboxes
from firelane.exchange.delivering.passing import Passing
from firelane.exchange.delivering.replays import Replays
from firelane.exchange.journal.journal import Journal
from firelane.exchange.lanes.lane import POSITION_BITS, Delivery, Dropped, Lane, State
from firelane.exchange.lanes.link import Link
from firelane.exchange.lanes.message import NEVER, Numbers, number_property
from firelane.mqtt.packets import V3, V5

MOST_UNWRITTEN_BYTES = 65_536  # what is added to an outbox before the socket has had its turn
KEPT_FOR_THE_BEST = 8  # one in so many messages under way is kept for a session's best class


class Serving:
    """Serves the links; keeps when which of them is to be looked at again."""

    def __init__(
        self, journal: Journal, dropping: Dropping, replays: Replays, outboxes: Outboxes, numbers: Numbers
    ) -> None:
        self.journal = journal
        self.dropping = dropping
        self.buffers = Buffers(journal, dropping)
        self.numbers = numbers
        self.replays = replays
        self.outboxes = outboxes
        self.timed: list[Lane] = []  # lanes that have noted delays
        self.unreadable: dict[Session, str] = {}  # whose messages the log cannot give back, and why
        self.passings: list[Passing] = []  # and fan-outs that are not counted yet
        self.wakes: list[tuple[float, int, Link]] = []  # a heap: when a link will be free for what waits on it
        self._ticket = count()

    def serve(self, link: Link, now: float) -> None:
        """Send what waits on a link, as far as it and its clients take it."""
        committed = self.journal.committed
        if link.hungry:
            self._feed(link, now)
        unpaced = not link.paced
        while link.mask and (unpaced or link.may_start(now)):
            lane = link.first()
            if lane is None:
                break
            session, delivery = lane.session, lane.queue[0]
            connection = session.connection
            assert connection is not None
            if self._takes_no_more(connection, session, delivery, committed):
                if link.own and link.alone(lane):
                    break
                link.step_out(lane)
                if link.hungry:
                    self._feed(link, now)
                continue
            link.take(lane)
            if delivery.message is not None and now >= delivery.message.expires_at and not delivery.duplicate:
                self.dropping.drop(delivery, Dropped.EXPIRED)
            else:
                self.send(connection, session, delivery, now)
            if lane.backlog and not lane.reliable:
                link.hungry.join(lane)
            if link.hungry:
                self._feed(link, now)
            if not session.queued:
                self.settle_direct(session)
        if link.replaying and not link.mask:
            self._replay(link, now)
        if (link.mask or link.replaying) and not link.may_start(now):
            self._wake_later(link, now)

    def _feed(self, link: Link, now: float) -> None:
        """There is room again for the best of the lanes that had to leave everything in the log.

        Who takes nothing more is left out when the buffer is full or it has its share, and gives way to others.
        """
        while link.hungry:
            lane = link.hungry.first()
            session = lane.session
            wants = lane.backlog and not lane.reliable and session.connection is not None
            if wants and not (session in link.stalled and (link.full or link.has_its_share(session))):
                if link.full and not self.buffers.relieve(link, session):
                    break
                self._refill(lane, now)
            link.hungry.leave(lane)  # who was left out is reminded of when it takes more, see Link.step_in

    def _takes_no_more(self, connection: Connection, session: Session, delivery: Delivery, committed: int) -> bool:
        if not connection.writable or connection.outbox_bytes >= MOST_UNWRITTEN_BYTES:
            return True
        if connection.gate is not None and not self._passes(connection.gate, session, delivery):
            return True
        if delivery.qos:
            if session.again and session.again[0] is not delivery and (delivery.packet_id or session.overlaps):
                return True  # what is sent again keeps its order, and is not overtaken
            window = connection.window
            if delivery.lane.klass > session.best_class:
                window -= _kept(window)
            if connection.window_used >= window:
                return True
        return delivery.qos < 2 and session.holding_until > committed  # must not overtake what waits for the log

    def _passes(self, gate: Gate, session: Session, delivery: Delivery) -> bool:
        if not self._loaded(session, delivery):
            return True  # and `send` says what is wrong
        assert delivery.message is not None
        return gate.ready(delivery.message)

    def _loaded(self, session: Session, delivery: Delivery) -> bool:
        """Get back a message that was in flight when its client went away; the log has it."""
        if delivery.message is None:
            try:
                delivery.message = self.journal.load(delivery.lane, delivery.location, delivery.size_bytes).message
            except StoreError as problem:
                self.unreadable[session] = str(problem)
                return False
        return True

    def resume(self, session: Session, now: float) -> None:
        """A client may take more again: its lanes stand in line again, and what waits in the log comes to mind."""
        connection, link = session.connection, session.link
        if connection is None or link is None or not connection.writable:
            return
        if session.blocked:
            link.step_in_all(session)
        link.remind(session)
        link.replaying.update(session.replaying)
        self.settle_direct(session)
        self.serve(link, now)

    def settle_direct(self, session: Session) -> None:
        """Whether the next message may go straight to the socket, as nothing waits before it."""
        connection = session.connection
        assert connection is not None
        held = session.holding_until > self.journal.committed
        own_way = held or connection.alias_limit or connection.numbered or connection.gate is not None
        connection.direct = connection.writable and not (session.waits or own_way)

    def _wake_later(self, link: Link, now: float) -> None:
        when = max(link.free_at, now + 2 * link.ahead_s) - link.ahead_s
        if when < link.wakes_at:
            link.wakes_at = when
            heapq.heappush(self.wakes, (when, next(self._ticket), link))

    def wake(self, now: float) -> None:
        """Serve the links whose time has come."""
        while self.wakes and self.wakes[0][0] <= now:
            when, _, link = heapq.heappop(self.wakes)
            if when == link.wakes_at:
                link.wakes_at = NEVER
                self.serve(link, now)

    def _refill(self, lane: Lane, now: float) -> None:
        """Get a lane its next message from the log: one at a time, as there is room."""
        session = lane.session
        assert session.link is not None
        location, size_bytes = lane.backlog.popleft()
        try:
            delivery = self.journal.load(lane, location, size_bytes)
        except StoreError as problem:
            lane.store_first([(location, size_bytes)])
            self.unreadable[session] = str(problem)
            return
        session.fetched_one()
        delivery.order = self.numbers.next() << POSITION_BITS  # it stands in line from now on
        session.link.add(delivery, now)

    def _replay(self, link: Link, now: float) -> None:
        """Nobody stands in line: send retained messages to those who still want them, one each in turn."""
        while link.replaying and not link.mask and link.may_start(now):
            lane, _ = link.replaying.popitem(last=False)
            session = lane.session
            connection = session.connection
            if connection is None or lane.replay is None or self._takes_no_replay(connection, lane):
                continue  # who is there is looked at again when it takes more, see `resume`
            delivery = self.replays.next(lane, now)
            if delivery is not None:
                lane.due += 1
                if connection.gate is not None and not self._passes(connection.gate, session, delivery):
                    self._hold(link, delivery, now)
                    continue
                self.send(connection, session, delivery, now)
                link.replaying[lane] = None
            elif lane.replay is None:
                self.settle_direct(session)
            else:
                self.outboxes.dirty.append(connection)  # nothing to write yet, but it goes on after the others
                return

    def _hold(self, link: Link, delivery: Delivery, now: float) -> None:
        """Let a retained message wait before a gate like any other; its lane steps in again when it may pass."""
        if self.buffers.room_for(delivery, link, now):
            link.add(delivery, now)
            lane = link.first()
            assert lane is delivery.lane
            link.step_out(lane)
            link.first()  # nobody stands in line any more
        if link.crowded:
            self.buffers.settle(link)

    def _takes_no_replay(self, connection: Connection, lane: Lane) -> bool:
        session, replay = lane.session, lane.replay
        assert replay is not None
        if session.blocked or not connection.writable or connection.outbox_bytes >= MOST_UNWRITTEN_BYTES:
            return True
        window = connection.window - (_kept(connection.window) if lane.klass > session.best_class else 0)
        full = replay.subscription.qos > 0 and connection.window_used >= window
        return full or session.holding_until > self.journal.committed

    def send(self, connection: Connection, session: Session, delivery: Delivery, now: float) -> None:
        """Send a delivery now."""
        if not self._loaded(session, delivery):
            return
        if delivery.qos and not delivery.packet_id:
            delivery.packet_id = session.next_packet_id()
        elif delivery.qos:
            assert session.link is not None
            session.again.popleft()
            self._let_next_in(session, session.link)
        wire = self._wire(connection, delivery, now)
        if wire is None:
            self.dropping.drop(delivery, Dropped.TOO_LARGE)
            return
        self.account(delivery, now)
        if delivery.qos == 0:
            delivery.lane.done += 1
            self.outboxes.put(connection, wire)
            return
        connection.window_used += 1
        first_time = delivery.packet_id not in session.in_flight
        session.in_flight[delivery.packet_id] = delivery
        delivery.state = State.SENT
        delivery.duplicate = True  # should it be sent again
        if delivery.qos == 2 and first_time and delivery.location and self.journal.keeps(session):
            session.holding_until = self.journal.sent(session, delivery)
        if session.holding_until <= self.journal.committed:
            self.outboxes.put(connection, wire)
        else:
            self.outboxes.after_commit.append((session.holding_until, connection, wire))

    def _let_next_in(self, session: Session, link: Link) -> None:
        """One was sent again: the next one may wait in another lane, and after the last all others may go on."""
        if not session.again:
            link.step_in_all(session)
        elif session.again[0].lane.blocked:
            link.step_in(session.again[0].lane)

    def account(self, delivery: Delivery, now: float) -> None:
        """Take the time of the link, and note how long the message took to get through."""
        lane = delivery.lane
        link, message = lane.session.link, delivery.message
        assert link is not None
        assert message is not None
        if link.paced:
            size_bytes = link.wire_bytes(message)
            lane.bytes += size_bytes
            left_s = link.start(size_bytes, now)
            connection = lane.session.connection
            if connection is not None and connection.gate is not None:
                link.untold_bytes += size_bytes
        else:
            left_s = 0.0
        if delivery.duplicate:
            return
        delay_s = None
        if delivery.arrived:
            delays_s = lane.delays_s
            if not delays_s:
                self.timed.append(lane)
            delay_s = now - delivery.arrived + left_s + link.propagation_s
            delays_s.append(delay_s)
        if message.weight:
            arrived = delivery.arrived or now
            self.dropping.record(lane, message, delivery.qos, arrived, delay_s, "delivered", message.weight)

    def _wire(self, connection: Connection, delivery: Delivery, now: float) -> bytes | None:
        """The bytes of a copy, with an alias for its topic where the client takes them; None if it is too large."""
        message = delivery.message
        assert message is not None
        if connection.gate is not None and not connection.gate.fits(message):
            return None
        first = 0x30 | delivery.duplicate << 3 | delivery.qos << 1 | delivery.retain
        if connection.version != V5:
            return message.encoded(V3, first, delivery.packet_id, b"", message.topic)
        topic, alias, new = message.topic, 0, False
        if connection.numbered:
            extra = message.own_properties(delivery.identifiers, 0, now) + number_property(
                message.sequence, message.first
            )
            return message.encoded(V5, first, delivery.packet_id, extra, topic)
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


def _kept(window: int) -> int:
    """How many of so many messages under way are kept for the best class."""
    return max(1, window // KEPT_FOR_THE_BEST) if window > 1 else 0
