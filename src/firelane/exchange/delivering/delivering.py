"""The one way from a publication to a subscriber's socket: every message of every subscription goes through here.

    deliver       a publication -> one copy per session and shared group, each on the lane of its subscription
    _accept       a copy -> straight to the socket, or to wait on its link, or in the log, or dropped
    serve         (serving.py) what waits on a link -> in flight, by class, as fast as link, socket and window allow
    acknowledged  (answering.py) in flight -> done

Law (checked by tests): due = delivered + dropped + owed, for every session at every moment.
"""

from __future__ import annotations

from firelane.exchange.delivering.outboxes import Outboxes
from firelane.exchange.delivering.passing import Passing
from firelane.exchange.delivering.routes import Copy, Route
from firelane.exchange.delivering.serving import Serving
from firelane.exchange.journal.journal import Journal
from firelane.exchange.lanes.lane import Delivery, Dropped, Lane, hash64
from firelane.exchange.lanes.link import Link
from firelane.exchange.lanes.message import Message, Numbers
from firelane.mqtt.packets import V5

MOST_POSITION = 0xFFFF
FILL_S = 0.05  # of a link's time that may wait beside what a plan wants, while it is found out what the link carries


class Delivering:
    """Takes publications to the lanes of those who want them."""

    def __init__(self, journal: Journal, outboxes: Outboxes, serving: Serving, numbers: Numbers, *, boot: int) -> None:
        self._journal = journal
        self._outboxes = outboxes
        self._serving = serving
        self._buffers = serving.buffers
        self._dropping = serving.dropping
        self._numbers = numbers
        self._boot = boot  # with its sequence, what tells a message from all others
        self._touched: list[Link] = []

    def deliver(self, message: Message, route: Route, now: float) -> None:
        """Hand a message of QoS 0 to all who want it; it is written when the caller's turn ends."""
        route.seen.count(len(message.payload))
        copies = route.copies
        count = len(copies)
        start = message.sequence % count if count > 1 else 0
        if start:  # fan-out starts at a rotating subscriber
            copies = copies[start:] + copies[:start]
        own_way = message.retain or message.weight
        if route.passing is not None and not own_way and self._cut_through(route.passing, message, copies, now):
            return
        position = 0
        for copy in copies:
            if own_way or not copy.plain:
                position += 1
                self._deliver_own(copy, message, position, now)
                continue
            lane = copy.lane
            lane.due += 1
            connection = copy.session.connection
            if connection is None:
                self._dropping.count_drop(lane, Dropped.DISCONNECTED, message, 0, now)
            elif connection.direct:
                wire = message.wire5 if connection.version == V5 else message.wire3
                if wire is None:
                    wire = message.wire(connection.version)
                if len(wire) > connection.largest_out:
                    self._dropping.count_drop(lane, Dropped.TOO_LARGE, message, 0, now)
                    continue
                outbox = connection.outbox
                if not outbox:
                    self._outboxes.dirty.append(connection)
                outbox.append(wire)
                lane.passed += 1
            else:
                self._accept(Delivery(lane, message, message.sequence, 0, False, (), now), now)
        for turn in route.groups:
            self._deliver_own(turn.take(0), message, position + 1, now)
        if self._touched:
            self._serve_touched(now)

    def _cut_through(self, passing: Passing, message: Message, copies: tuple[Copy, ...], now: float) -> bool:
        """Hand all copies over an idle link at once, if all of them fit in what may be sent ahead."""
        link = passing.link
        if link.mask or not link.may_start(now):
            return False
        size_bytes = link.wire_bytes(message)
        service_s = size_bytes * link.byte_s
        waits_s = link.free_at - now if link.free_at > now else 0.0
        count = len(copies)
        if waits_s + (count - 1) * service_s > link.ahead_s:
            return False
        dirty = self._outboxes.dirty
        for copy in copies:
            connection = copy.session.connection
            if connection is None or not connection.direct:
                break
            wire = message.wire5 if connection.version == V5 else message.wire3
            if wire is None:
                wire = message.wire(connection.version)
            if len(wire) > connection.largest_out:
                break
            outbox = connection.outbox
            if not outbox:
                dirty.append(connection)
            outbox.append(wire)
        else:
            link.free_at = now + waits_s + count * service_s
            link.sent_bytes += count * size_bytes
            if not passing.start:
                self._serving.passings.append(passing)
            passing.bytes += size_bytes
            passing.start.append(message.sequence % count)
            passing.first_s.append(waits_s + link.propagation_s)
            passing.service_s.append(service_s)
            return True
        self._finish_singly(link, message, copies, copies.index(copy), now)
        return True

    def _finish_singly(self, link: Link, message: Message, copies: tuple[Copy, ...], sent: int, now: float) -> None:
        """So many copies are out, and the next cannot go straight: count those, and take the others their own way."""
        for copy in copies[:sent]:
            copy.lane.due += 1
            copy.lane.done += 1
            self._serving.account(Delivery(copy.lane, message, message.sequence, 0, False, (), now), now)
        for position, copy in enumerate(copies[sent:]):
            self._deliver_own(copy, message, position, now)
        if self._touched:
            self._serve_touched(now)

    def _deliver_own(self, copy: Copy, message: Message, position: int, now: float) -> None:
        """A QoS 0 copy that has something of its own: identifiers, the retain flag, a drop rate, a paced link."""
        chosen = copy.own if copy.session is message.publisher else copy
        if chosen is None:
            return
        if self._keeps(chosen, message, now):
            delivery = _due(chosen, message, position, now)
            delivery.lane.due += 1
            self._accept(delivery, now)

    def _keeps(self, copy: Copy, message: Message, now: float) -> bool:
        """Whether a copy is not dropped on purpose, as a share of those of QoS 0 may be; the dropped one is counted."""
        if copy.others:
            copy.choose()  # the lane that carried it before may be empty by now
            for other in copy.others:
                other.merged += 1
        lane = copy.lane
        if not copy.threshold or (copy.qos and message.qos):
            return True
        if hash64(self._boot, message.sequence, lane.key) >= copy.threshold or self._may_fill(lane.session.link):
            return True
        lane.due += 1
        self._dropping.count_drop(lane, Dropped.POLICY, message, 0, now)
        for other in copy.others:
            other.unmerged += 1
        return False

    @staticmethod
    def _may_fill(link: Link | None) -> bool:
        """Whether what is to be dropped may use a link on which little waits, to find out if it carries that too."""
        if link is None:
            return False
        if link.probing and link.queued_bytes * link.byte_s < FILL_S:
            return True
        link.withheld += 1
        return False

    def deliver_reliably(self, message: Message, route: Route, now: float, packet_id: int = 0) -> int:
        """Hand a message of QoS 1 or 2 to all who want it, after it is in the log for those who outlive a crash.

        With a packet identifier its publisher's QoS 2 exchange is in the same record, so that a crash leaves both or
        neither. Returns how many want it.
        """
        route.seen.count(len(message.payload))
        due: list[Delivery] = []
        copies = route.copies
        if len(copies) == 1 and copies[0].simple and not (route.groups or packet_id):  # the common case
            delivery = _due(copies[0], message, 0, now)
            lane = delivery.lane
            if delivery.qos and self._needs_log(lane):
                self._journal.keep(delivery)
            lane.due += 1
            self._accept(delivery, now)
            if self._touched:
                self._serve_touched(now)
            return 1
        if len(copies) > 1:
            start = message.sequence % len(copies)
            copies = copies[start:] + copies[:start]
        publisher = message.publisher
        for copy in copies:
            chosen = copy if copy.session is not publisher else copy.own
            if chosen is None or ((chosen.others or chosen.threshold) and not self._keeps(chosen, message, now)):
                continue
            due.append(_due(chosen, message, len(due), now))
        if not route.groups:
            self._hand_on(message, due, now, packet_id)
            return len(due)
        further: list[Delivery] = []
        for turn in route.groups:
            chosen = turn.take(message.qos)
            if not self._keeps(chosen, message, now):
                continue
            if chosen.qos and any(one.lane.session is chosen.session and one.qos for one in due):
                further.append(_due(chosen, self._numbers.again(message), 0, now))
            else:
                due.append(_due(chosen, message, len(due), now))
        self._hand_on(message, due, now, packet_id)
        for one in further:  # after the record with the identifier: should a crash part them, nothing comes twice
            assert one.message is not None
            self._hand_on(one.message, [one], now, 0)
        return len(due) + len(further)

    def _hand_on(self, message: Message, due: list[Delivery], now: float, packet_id: int) -> None:
        logged = [one for one in due if one.qos and self._needs_log(one.lane)]
        if logged or packet_id:
            self._journal.message(message, logged, packet_id)
        for delivery in due:
            delivery.lane.due += 1
            self._accept(delivery, now)
        if self._touched:
            self._serve_touched(now)

    def must_store(self, route: Route, qos: int) -> bool:
        """Whether a message of this topic cannot be handed on without the log."""
        copies = (*route.copies, *(copy for turn in route.groups for copy in turn.members))
        return any(copy.qos and qos and self._needs_log(copy.lane) for copy in copies)

    def _needs_log(self, lane: Lane) -> bool:
        """Whether what a lane is owed must be in the log: its session outlives a crash, or memory has no room."""
        session = lane.session
        if session.durable and (self._journal.durable or session.connection is None):
            return True
        return bool(lane.backlog) or (session.link is not None and session.link.full)

    def _accept(self, delivery: Delivery, now: float) -> None:
        lane = delivery.lane
        session = lane.session
        connection, link = session.connection, session.link
        if connection is None or link is None:
            if delivery.qos and session.durable:
                self._buffers.store(delivery)
            else:
                self._dropping.count_drop(lane, Dropped.DISCONNECTED, delivery.message, delivery.qos, now)
        elif connection.direct and not link.paced and (delivery.qos == 0 or connection.window_used < connection.window):
            self._serving.send(connection, session, delivery, now)  # nothing waits, so nothing is overtaken
            connection.direct = session.holding_until <= self._journal.committed
        elif delivery.qos and lane.backlog:
            self._buffers.store(delivery)
        elif (lane.by_topic is None or not self._supersedes(delivery, link)) and self._buffers.room_for(
            delivery, link, now
        ):
            link.add(delivery, now)
            connection.direct = False
            if link.paced or not link.own:
                self._touch(link)
            elif connection.writable and len(lane.queue) == 1:  # else what came before already waits for something
                self._serving.serve(link, now)

    def _supersedes(self, delivery: Delivery, link: Link) -> bool:
        """`keep: latest`: take the place of an older message of the same topic that still waits."""
        by_topic, message = delivery.lane.by_topic, delivery.message
        if delivery.qos:
            return False
        assert by_topic is not None
        assert message is not None
        older = by_topic.get(message.topic)
        if older is None:
            return False
        assert older.message is not None
        self._dropping.count_drop(delivery.lane, Dropped.SUPERSEDED, older.message, 0, older.arrived)
        older.message, older.arrived = message, delivery.arrived
        older.retain, older.identifiers = delivery.retain, delivery.identifiers
        link.resized(older)
        return True

    def _touch(self, link: Link) -> None:
        if not link.touched:
            link.touched = True
            self._touched.append(link)

    def _serve_touched(self, now: float) -> None:
        """A whole fan-out stands in line before the first of it is served, so that classes count inside it too."""
        touched, self._touched = self._touched, []
        for link in touched:
            link.touched = False
            self._serving.serve(link, now)
            if link.crowded:
                self._buffers.settle(link)


def _due(copy: Copy, message: Message, position: int, now: float) -> Delivery:
    qos = copy.qos if copy.qos < message.qos else message.qos
    retain = message.retain and copy.retain_as_published
    delivery = Delivery(copy.lane, message, message.sequence, qos, retain, copy.identifiers, now)
    if position:
        delivery.order += min(position, MOST_POSITION)
    return delivery
