"""What becomes of messages of QoS 1 and 2 under way: answered, sent again to who comes back, put away, given up."""

from __future__ import annotations

from firelane.exchange.clients.session import Session
from firelane.exchange.delivering.outboxes import Outboxes
from firelane.exchange.delivering.serving import Serving
from firelane.exchange.journal.journal import Journal
from firelane.exchange.lanes.lane import Delivery, Dropped, Lane, State
from firelane.exchange.lanes.link import Link
from firelane.mqtt.fields import two_bytes
from firelane.mqtt.reasons import Reason

PUBREL = 0x62


class Answering:
    """Answers of subscribers, and subscribers that come and go."""

    def __init__(self, journal: Journal, outboxes: Outboxes, serving: Serving) -> None:
        self._journal = journal
        self._outboxes = outboxes
        self._serving = serving

    def acknowledged(self, session: Session, packet_id: int) -> None:
        """PUBACK, or a PUBREC that refuses: the client has had it. `window_opened` is to follow."""
        delivery = session.in_flight.get(packet_id)
        if delivery is None or delivery.state is not State.SENT:
            return
        if delivery.waiting:
            self._answered(session, delivery)
        del session.in_flight[packet_id]
        delivery.lane.done += 1
        if delivery.location:
            self._journal.done(session, delivery)
        if session.connection is not None:
            session.connection.window_used -= 1

    def received(self, session: Session, packet_id: int) -> Reason:
        """PUBREC: the client owns it now; PUBREL follows when the log says so."""
        connection = session.connection
        delivery = session.in_flight.get(packet_id)
        if connection is None or delivery is None or delivery.qos != 2:
            return Reason.PACKET_IDENTIFIER_NOT_FOUND
        if delivery.waiting:
            self._answered(session, delivery)
        if delivery.state is State.SENT:
            delivery.state = State.RELEASED
            delivery.message = None
            delivery.lane.done += 1
            if delivery.location and self._journal.keeps(session):
                session.holding_until = self._journal.released(session, delivery)
            elif delivery.location:
                self._journal.done(session, delivery)
                delivery.location = 0
        self._outboxes.write_committed(connection, bytes((PUBREL, 2)) + two_bytes(packet_id), session.holding_until)
        return Reason.SUCCESS

    def completed(self, session: Session, packet_id: int) -> None:
        """PUBCOMP: the identifier is free again. `window_opened` is to follow."""
        delivery = session.in_flight.get(packet_id)
        if delivery is None or delivery.state is not State.RELEASED:
            return
        del session.in_flight[packet_id]
        if self._journal.keeps(session):
            self._journal.completed(session, packet_id)
        if session.connection is not None:
            session.connection.window_used -= 1

    def _answered(self, session: Session, delivery: Delivery) -> None:
        """A client may answer what it was sent on an earlier connection; then it need not be sent again."""
        assert session.connection is not None
        assert session.link is not None
        session.link.remove(delivery)
        session.again.remove(delivery)
        session.connection.window_used += 1

    def window_opened(self, session: Session, now: float) -> None:
        """More messages may be under way: the best lane that waits for this stands in line again, then the next."""
        connection, link = session.connection, session.link
        if connection is None or link is None or not session.waits:
            return
        if session.again:  # whose order counts, and not the classes
            self._serving.resume(session, now)
            return
        link.replaying.update(session.replaying)
        for _ in range(len(session.blocked)):
            best = min(session.blocked, key=lambda one: (one.klass, one.queue[0].order if one.queue else 0))
            link.step_in(best)
            if best.queue:
                self._serving.serve(link, now)
                if best.blocked or connection.window_used >= connection.window or not session.blocked:
                    return
        self._serving.serve(link, now)

    def attach(self, session: Session, now: float) -> None:
        """A session has a connection: send again what was in flight, then what waits."""
        connection, link = session.connection, session.link
        assert connection is not None
        assert link is not None
        again: dict[Lane, list[Delivery]] = {}
        for delivery in session.in_flight.values():
            if delivery.state is State.RELEASED:
                connection.window_used += 1
                released = bytes((PUBREL, 2)) + two_bytes(delivery.packet_id)
                self._outboxes.write_committed(connection, released, session.holding_until)
            else:
                again.setdefault(delivery.lane, []).append(delivery)
                session.again.append(delivery)
        for deliveries in again.values():
            link.add_first(deliveries)
        self._serving.resume(session, now)

    def sit_on(self, session: Session, link: Link, now: float) -> None:
        """A session changes its link, with all that waits for it."""
        before, session.link = session.link, link
        if before is not None:
            for deliveries in before.leave(session).values():
                for delivery in deliveries:
                    link.add(delivery, now)

    def detach(self, session: Session) -> None:
        """A connection is gone: what was in flight will be sent again, what waited in memory moves to the log."""
        link = session.link
        assert link is not None
        session.connection = None
        session.again.clear()
        for lane, deliveries in link.leave(session).items():
            self._put_away(deliveries, lane, session)
        if not session.durable:
            for lane in session.replaying:
                lane.replay = None
            session.replaying.clear()
        for delivery in session.in_flight.values():
            if delivery.location:
                delivery.message = None

    def _put_away(self, deliveries: list[Delivery], lane: Lane, session: Session) -> None:
        waiting: list[tuple[int, int]] = []
        for delivery in deliveries:
            if delivery.packet_id:
                continue  # it is in flight
            if delivery.qos == 0 or not session.durable:
                self._serving.dropping.drop(delivery, Dropped.DISCONNECTED)
                continue
            self._journal.keep(delivery)
            assert delivery.message is not None
            session.stored_one(delivery.message.topic, lane)
            waiting.append((delivery.location, delivery.size_bytes))
        if waiting:
            lane.store_first(waiting)

    def forget(self, session: Session, now: float) -> None:
        """A session has ended: everything it was still owed is dropped, and counted."""
        for delivery in list(session.in_flight.values()):
            if delivery.state is State.RELEASED:
                del session.in_flight[delivery.packet_id]
            else:
                self._serving.dropping.drop(delivery, Dropped.DISCONNECTED)
        for lane in session.lanes.values():
            session.stored -= len(lane.backlog)
            while lane.backlog:
                location, size_bytes = lane.backlog.popleft()
                self._serving.dropping.count_drop(lane, Dropped.DISCONNECTED, None, 1, now)
                self._journal.let_go(session, location, size_bytes)
