"""A link: the lanes that share it stand in line here, by class and inside a class by arrival, paced to its bandwidth.

Strict priority without pre-emption; a class with a guaranteed share goes first whenever that share is due. The clock is
virtual: `free_at` is when the link will have sent all it was given. A message may start a little before that, and
a little late does not cost capacity, so that timers of a millisecond do.

The buffer is bounded over all classes together. Data only, no I/O, no clock.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Literal

from firelane.exchange.lanes.hungry import Hungry
from firelane.exchange.lanes.lane import NOTHING, Delivery, Lane
from firelane.exchange.lanes.message import NEVER, Message
from firelane.scenario import model
from firelane.scenario.model import MOST_PRIORITIES
from firelane.scenario.overhead import TCP_IP_ETHERNET_BYTES, auto_overhead_bytes

if TYPE_CHECKING:
    from firelane.exchange.clients.session import Session

MOST_AHEAD_S = 0.0005  # how long before its time a message may start, on a link that is fast enough for several
LEAST_AHEAD_S = 0.00005
SEGMENT_BYTES = 1500
SPARE_PLACES = 4  # of a guaranteed class beyond its share of the buffer, or it would run dry by chance
SPARE_NOTES = 64  # of messages that are gone, before they are looked through
MOST_CONTROL_S = 0.01  # how far ahead control packets may book a link
LAG_S = 0.005  # how much lateness is made up for
CONTROL_BYTES = TCP_IP_ETHERNET_BYTES

KnownBy = Literal["configured", "acknowledged", "probed"]  # how a link's bandwidth is known
Entry = tuple[int, int, Lane]  # order of the first message that waits, number of the lane


class Link:
    """One real link. `own`: of a single client. Unpaced, it is only the buffer of a client that cannot take more."""

    __slots__ = (
        "_counts",
        "_expiring",
        "_fixed_bytes",
        "_guaranteed",
        "_last_wire",
        "_lines",
        "_newest",
        "_reserved",
        "_unsorted",
        "again",
        "ahead_s",
        "bandwidth_bps",
        "byte_s",
        "charged_bytes",
        "crowded",
        "described",
        "free_at",
        "hungry",
        "known_by",
        "mask",
        "most",
        "most_bytes",
        "name",
        "own",
        "paced",
        "probing",
        "propagation_s",
        "queued",
        "queued_bytes",
        "replaying",
        "sent_bytes",
        "share",
        "stalled",
        "touched",
        "untold_bytes",
        "wakes_at",
        "withheld",
    )

    def __init__(self, name: str, link: model.Link, *, most: int, most_bytes: int) -> None:
        self.name = name
        self.described = link
        self.own = link.each
        self.paced = link.bandwidth_bps is not None
        self.bandwidth_bps = link.bandwidth_bps or math.inf  # as configured, or less where that is known
        self.known_by: KnownBy = "configured"
        self.repace(link.paced_bps)
        self.probing = False  # somebody finds out whether it carries more: what is to be dropped may fill it
        self.withheld = 0  # messages dropped on purpose
        self.propagation_s = link.propagation_s
        self._fixed_bytes = None if link.overhead_bytes is None else math.ceil(link.overhead_bytes)
        self.charged_bytes = 0  # of control packets whose time is not booked yet
        self._last_wire = 0, (-1, -1)  # wire bytes, and of what
        self.free_at = 0.0
        self.wakes_at = NEVER
        self.crowded = False  # a fan-out was given one place more than there are
        self.touched = False  # something was added to it that is to be looked at
        self.most = most if link.buffer_messages is None else link.buffer_messages
        self.most_bytes = most_bytes
        self.share = self.most if self.own else max(1, self.most // 4)  # of a client that takes nothing more
        self.queued = 0
        self.again = 0  # of these: sent before, which take no room in the buffer
        self.queued_bytes = 0  # of the others
        self.sent_bytes = 0
        self.untold_bytes = 0  # of these: over UDP, of which the kernel cannot say whether they got through
        self.mask = 0  # classes in which somebody stands in line
        self.hungry = Hungry()
        self.stalled: dict[Session, None] = {}  # clients that take nothing more for now
        # Lanes that want retained messages when there is nothing else to do, in turn.
        self.replaying: OrderedDict[Lane, None] = OrderedDict()
        self._lines: dict[int, list[Entry]] = {}
        self._newest: dict[int, list[tuple[int, int, Lane]]] = defaultdict(list)  # of a class: order, moves, lane
        self._unsorted: set[int] = set()  # classes whose arrivals are not in order, as lanes have moved
        self._counts = [0] * MOST_PRIORITIES  # messages in the buffer by class, also of lanes that are blocked
        self._expiring: list[tuple[float, int, int, Delivery]] = []
        self._reserved = [0] * MOST_PRIORITIES  # places in the buffer, by class
        for klass, share in link.guaranteed.items():
            self._reserved[klass] = min(math.ceil(share * self.most) + SPARE_PLACES, math.ceil(self.most / 2))
        self._guaranteed = tuple(_Guarantee(klass, share) for klass, share in sorted(link.guaranteed.items()))

    # ---- time

    @property
    def narrow(self) -> bool:
        """Whether it is known to carry less than it is configured for."""
        return self.paced and self.bandwidth_bps != self.described.bandwidth_bps

    @property
    def overhead_is_fixed(self) -> bool:
        """Whether a message counts for its payload and so many bytes, whatever its headers are."""
        return self._fixed_bytes is not None

    def repace(self, pace_bps: float) -> None:
        """Send as fast as this from now on; what was sent keeps the time it has booked."""
        self.byte_s = 8 / pace_bps
        self.ahead_s = max(LEAST_AHEAD_S, MOST_AHEAD_S - SEGMENT_BYTES * self.byte_s)

    def like(self, before: Link) -> None:
        """Take the place of a link of this name: it is as busy as that was, and carries what is known of it."""
        self.free_at = before.free_at
        if self.described.bandwidth_bps == before.described.bandwidth_bps:
            self.bandwidth_bps, self.known_by = before.bandwidth_bps, before.known_by
            self.repace(self.described.pace * self.bandwidth_bps)

    def may_start(self, now: float) -> bool:
        """Whether the next message may be sent now."""
        if self.charged_bytes:
            self.settle_charges(now)
        return self.free_at <= now + self.ahead_s or not self.paced

    def settle_charges(self, now: float) -> None:
        """Book the time of the control packets that were sent lately."""
        booked = max(self.free_at, now) + self.charged_bytes * self.byte_s
        self.free_at = max(self.free_at, min(booked, now + MOST_CONTROL_S))
        self.charged_bytes = 0

    def wire_bytes(self, message: Message) -> int:
        """What a message takes of the link (`firelane.scenario.model.wire_bytes`)."""
        size = len(message.payload)
        if self._fixed_bytes is not None:
            return size + self._fixed_bytes
        name_bytes = len(message.topic)
        before, sizes = self._last_wire
        if sizes != (size, name_bytes):
            before = size + round(auto_overhead_bytes(size, name_bytes))
            self._last_wire = before, (size, name_bytes)
        return before

    def start(self, size_bytes: int, now: float) -> float:
        """Send so many bytes; returns the time from now until the last of them has left."""
        free_at = max(self.free_at, now - LAG_S)
        starts_at = max(free_at, now)
        service_s = size_bytes * self.byte_s
        self.free_at = free_at + service_s
        self.sent_bytes += size_bytes
        return starts_at - now + service_s

    def charge(self, size_bytes: int) -> None:
        """A control packet goes before everything that waits, and takes its time too; nobody can book much of it."""
        self.sent_bytes += size_bytes + CONTROL_BYTES
        self.charged_bytes += size_bytes + CONTROL_BYTES

    # ---- lanes in line

    def add(self, delivery: Delivery, now: float) -> None:
        """Let a delivery wait in its lane."""
        lane, message = delivery.lane, delivery.message
        if not self.mask and self.free_at < now:
            self.free_at = now  # it was idle, which earns nothing
        if lane.queue is NOTHING:
            lane.queue = deque()
        lane.queue.append(delivery)
        self._came(delivery)
        klass = lane.klass
        newest = self._newest[klass]
        if newest and newest[-1][0] > delivery.order:  # it waited elsewhere before
            self._unsorted.add(klass)
        if not delivery.packet_id:
            newest.append((delivery.order, lane.moves, lane))
        if len(newest) > 4 * self._counts[klass] + SPARE_NOTES:  # most have been sent by now
            newest[:] = [one for one in newest if _still_waits(*one)]
        if message is not None and message.expires_at != NEVER:
            self._note_expiry(delivery, message.expires_at)
        if lane.entry is None and not lane.blocked:
            self.line_up(lane)

    def _note_expiry(self, delivery: Delivery, expires_at: float) -> None:
        expiring = self._expiring
        if len(expiring) > 2 * self.queued + SPARE_NOTES:  # most have been sent by now
            expiring[:] = [one for one in expiring if one[3].waiting]
            heapq.heapify(expiring)
        heapq.heappush(expiring, (expires_at, delivery.order, delivery.lane.number, delivery))

    def add_first(self, deliveries: list[Delivery]) -> None:
        """Let deliveries of one lane that were sent before wait in front of all others of theirs, beyond the buffer."""
        lane = deliveries[0].lane
        if lane.queue is NOTHING:
            lane.queue = deque()
        lane.queue.extendleft(reversed(deliveries))
        for delivery in deliveries:
            self._came(delivery)
        if not lane.blocked:
            self.line_up(lane)

    def line_up(self, lane: Lane) -> None:
        """Put a lane in line by the first message that waits in it; where it stood before counts no more."""
        lane.entry = entry = (lane.queue[0].order, lane.number, lane)
        line = self._lines.setdefault(lane.klass, [])
        if len(line) > 2 * self.queued + SPARE_NOTES:  # most have left it by now
            line[:] = [one for one in line if one[2].entry is one]
            heapq.heapify(line)
        heapq.heappush(line, entry)
        self.mask |= 1 << lane.klass

    def first(self) -> Lane | None:
        """The lane whose turn it is."""
        mask = self.mask
        if mask and not self._guaranteed:  # the common case, without a call
            line = self._lines[(mask & -mask).bit_length() - 1]
            if line and line[0][2].entry is line[0]:
                return line[0][2]
        for one in self._guaranteed:
            if self.mask >> one.klass & 1 and one.due_at <= self.free_at:
                lane = self._first_of(one.klass)
                if lane is not None:
                    return lane
        while self.mask:
            klass = (self.mask & -self.mask).bit_length() - 1
            lane = self._first_of(klass)
            if lane is not None:
                return lane
        return None

    def _first_of(self, klass: int) -> Lane | None:
        line = self._lines[klass]
        while line:
            entry = line[0]
            if entry[2].entry is entry:
                return entry[2]
            heapq.heappop(line)
        self.mask &= ~(1 << klass)
        return None

    def take(self, lane: Lane) -> Delivery:
        """The first delivery of the lane whose turn it is."""
        queue = lane.queue
        delivery = queue.popleft()
        self._gone(delivery)
        line = self._lines[lane.klass]
        if queue:
            lane.entry = entry = (queue[0].order, lane.number, lane)
            heapq.heapreplace(line, entry)
        else:
            heapq.heappop(line)
            lane.entry = None
            if not line:
                self.mask &= ~(1 << lane.klass)
        for one in self._guaranteed:
            if one.klass == lane.klass and delivery.message is not None:
                service_s = self.wire_bytes(delivery.message) * self.byte_s
                one.due_at = max(one.due_at, self.free_at) + service_s / one.share
        return delivery

    def step_out(self, lane: Lane) -> None:
        """The client of the lane whose turn it is takes nothing more for now."""
        heapq.heappop(self._lines[lane.klass])
        lane.entry = None
        lane.blocked = True
        lane.session.blocked[lane] = None
        self.stalled[lane.session] = None

    def alone(self, lane: Lane) -> bool:
        """Whether nobody else stands in line, so that stepping out would change nothing."""
        return self.mask == 1 << lane.klass and len(self._lines[lane.klass]) == 1

    def step_in(self, lane: Lane) -> None:
        """The client of a lane that has stepped out takes more again."""
        session = lane.session
        lane.blocked = False
        del session.blocked[lane]
        if not session.blocked:
            del self.stalled[session]
            self.remind(session)
        if lane.queue:
            self.line_up(lane)

    def remind(self, session: Session) -> None:
        """Have what a client has in the log brought to mind as there is room."""
        if session.stored:
            for lane in session.lanes.values():
                if lane.backlog and not lane.reliable:
                    self.hungry.join(lane)

    def step_in_all(self, session: Session) -> None:
        """The same of all lanes of a client."""
        for lane in list(session.blocked):
            self.step_in(lane)

    def leave(self, session: Session) -> dict[Lane, list[Delivery]]:
        """A client goes away, or to another link: what waited for it in memory."""
        self.stalled.pop(session, None)
        session.blocked.clear()
        waited = {}
        for lane in session.lanes.values():
            self.replaying.pop(lane, None)
            self.hungry.leave(lane)
            lane.blocked = False
            if lane.queue:
                waited[lane] = self._clear(lane)
        return waited

    def move(self, lane: Lane, klass: int) -> None:
        """A lane changes its class, with all that waits in it, which is merged by arrival."""
        before, lane.klass = lane.klass, klass
        if lane in self.hungry:
            self.hungry.join(lane)
        if not lane.queue:
            return
        lane.moves = moves = lane.moves + 1  # what was noted of it before counts no more
        notes = [(one.order, moves, lane) for one in lane.queue if not one.packet_id]
        self._counts[before] -= len(notes)
        self._counts[klass] += len(notes)
        self._newest[klass] += notes
        self._unsorted.add(klass)
        if lane.entry is not None:
            self.line_up(lane)

    # ---- the buffer

    @property
    def full(self) -> bool:
        """Whether nothing more fits."""
        return self.queued - self.again >= self.most or self.queued_bytes >= self.most_bytes

    @property
    def over_full(self) -> bool:
        """Whether more waits than there is room for."""
        return self.queued - self.again > self.most

    def has_its_share(self, session: Session) -> bool:
        """Whether a client has as much of the buffer as one may that takes nothing more."""
        return session.fresh >= self.share and not self.own

    def full_at(self, now: float) -> bool:
        """The same; a free link takes one more of a fan-out that has begun to stand in line, as it is about to send."""
        if self.touched and self.mask and self.free_at <= now and self.queued - self.again == self.most:
            return self.queued_bytes >= self.most_bytes
        return self.full

    def victim_of(self, klass: int) -> Delivery | None:
        """Who gives way to a message of this class: the newest of the lowest class, if that is lower than this one.

        A class with a guaranteed share has the same share of the buffer for itself.
        """
        counts, reserved = self._counts, self._reserved
        over = (one for one in range(MOST_PRIORITIES - 1, -1, -1) if counts[one] > reserved[one])
        lowest = next(over, klass)
        if lowest == klass or (lowest < klass and counts[klass] >= reserved[klass]):
            return None
        newest = self._newest[lowest]
        if lowest in self._unsorted:
            newest.sort(key=lambda one: one[0])
            self._unsorted.discard(lowest)
        while not _is_last(*newest[-1]):
            newest.pop()
        return newest[-1][2].queue[-1]

    def expired(self, now: float) -> Delivery | None:
        """A delivery that waits in vain, as its message has expired."""
        expiring = self._expiring
        while expiring and expiring[0][0] <= now:
            delivery = heapq.heappop(expiring)[3]
            message = delivery.message
            if delivery.waiting and not delivery.packet_id and message is not None and message.expires_at <= now:
                return delivery  # one that was sent before does not expire (MQTT-4.4.0-1)
        return None

    def remove(self, delivery: Delivery) -> None:
        """Take a delivery out, wherever it stands in its lane."""
        lane = delivery.lane
        if lane.queue[-1] is delivery:
            lane.queue.pop()
        else:
            lane.queue.remove(delivery)
        self._gone(delivery)
        if lane.backlog and not lane.reliable:
            self.hungry.join(lane)
        if not lane.queue:
            lane.entry = None
            if lane.blocked:
                self.step_in(lane)  # it no longer waits for anything
        elif lane.entry is not None and lane.entry[0] != lane.queue[0].order:
            self.line_up(lane)

    def _clear(self, lane: Lane) -> list[Delivery]:
        deliveries = list(lane.queue)
        lane.queue.clear()
        lane.entry = None
        for delivery in deliveries:
            self._gone(delivery)
        return deliveries

    def resized(self, delivery: Delivery) -> None:
        """The message of a delivery that waits was replaced by another."""
        assert delivery.message is not None
        size_bytes = delivery.message.size_bytes
        self.queued_bytes += size_bytes - delivery.held_bytes
        delivery.held_bytes = size_bytes
        if delivery.message.expires_at != NEVER:
            self._note_expiry(delivery, delivery.message.expires_at)

    def _came(self, delivery: Delivery) -> None:
        lane, message = delivery.lane, delivery.message
        delivery.waiting = True
        self.queued += 1
        lane.session.queued += 1
        if delivery.packet_id:
            self.again += 1
        else:
            delivery.held_bytes = held_bytes = 0 if message is None else message.size_bytes
            self.queued_bytes += held_bytes
            self._counts[lane.klass] += 1
        if delivery.qos:
            lane.reliable += 1
        elif lane.by_topic is not None and message is not None:
            lane.by_topic[message.topic] = delivery
        if lane.topics is not None and message is not None:
            lane.topics[message.topic] += 1

    def _gone(self, delivery: Delivery) -> None:
        lane = delivery.lane
        delivery.waiting = False
        self.queued -= 1
        lane.session.queued -= 1
        if delivery.packet_id:
            self.again -= 1
        else:
            self.queued_bytes -= delivery.held_bytes
            self._counts[lane.klass] -= 1
        if delivery.qos:
            lane.reliable -= 1
        if delivery.message is None:
            return
        topic = delivery.message.topic
        if lane.by_topic is not None and lane.by_topic.get(topic) is delivery:
            del lane.by_topic[topic]
        if lane.topics is not None:
            lane.topics[topic] -= 1
            if not lane.topics[topic]:
                del lane.topics[topic]


class _Guarantee:
    """A class that gets at least a share of the link: when it is next due."""

    __slots__ = ("due_at", "klass", "share")

    def __init__(self, klass: int, share: float) -> None:
        self.klass = klass
        self.share = share
        self.due_at = 0.0


def _still_waits(order: int, moves: int, lane: Lane) -> bool:
    return lane.moves == moves and bool(lane.queue) and lane.queue[0].order <= order <= lane.queue[-1].order


def _is_last(order: int, moves: int, lane: Lane) -> bool:
    return lane.moves == moves and bool(lane.queue) and lane.queue[-1].order == order
