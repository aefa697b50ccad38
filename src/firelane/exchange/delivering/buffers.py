"""When a link's buffer is full: who gives way, and what waits in the log instead."""

from __future__ import annotations

from firelane.exchange.clients.session import Session
from firelane.exchange.delivering.dropping import Dropping
from firelane.exchange.journal.journal import Journal
from firelane.exchange.lanes.lane import Delivery, Dropped
from firelane.exchange.lanes.link import Link


class Buffers:
    """Makes room on links, and keeps what finds none."""

    def __init__(self, journal: Journal, dropping: Dropping) -> None:
        self._journal = journal
        self._dropping = dropping

    def room_for(self, delivery: Delivery, link: Link, now: float) -> bool:
        """Make room on a full link: what has expired goes first, then what a client that takes nothing more has beyond
        its share, then the newest of the lowest class.
        """
        if link.own and not link.full:
            return True
        session = delivery.lane.session
        if session.blocked and link.has_its_share(session):
            self._drop_expired(link, now)
            if link.has_its_share(session):
                return self._push_out(_newest_of(session, delivery.lane.klass), delivery, link)
        while link.full_at(now):
            if self._drop_expired(link, now) or self.relieve(link, session):
                continue
            if not self._push_out(link.victim_of(delivery.lane.klass), delivery, link):
                return False
        link.crowded = link.full
        return True

    def settle(self, link: Link) -> None:
        """A fan-out had one place more than there are, as its first was about to be sent: if that was not to be, the
        newest of the lowest class gives way after all.
        """
        victim = link.victim_of(-1) if link.over_full else None
        if victim is not None:
            link.remove(victim)
            self._overflow(victim)
        link.crowded = False

    def relieve(self, link: Link, session: Session) -> bool:
        """Push out one message of a client that takes nothing more and has more than its share.

        For one that does take more it is enough that all who do not have more than half of the buffer together.
        """
        if link.own or not link.stalled:
            return False
        greedy = max(link.stalled, key=lambda one: one.fresh)
        together = 0 if session in link.stalled else sum(one.fresh for one in link.stalled)
        victim = _newest_of(greedy, -1) if greedy.fresh > link.share or 2 * together > link.most else None
        if victim is None:
            return False
        link.remove(victim)
        self._overflow(victim)
        return True

    def _drop_expired(self, link: Link, now: float) -> bool:
        found = False
        while (expired := link.expired(now)) is not None:
            link.remove(expired)
            self._dropping.drop(expired, Dropped.EXPIRED)
            found = True
        return found

    def _push_out(self, victim: Delivery | None, delivery: Delivery, link: Link) -> bool:
        """Whether one gives way to another."""
        if victim is None:
            self._overflow(delivery)
            return False
        link.remove(victim)
        self._overflow(victim)
        return True

    def _overflow(self, delivery: Delivery) -> None:
        """There is no room in memory: QoS 0 is dropped, the others go on waiting in the log."""
        lane, message = delivery.lane, delivery.message
        if delivery.qos:
            self.store(delivery, first=True)
            if lane.session.link is not None and not lane.reliable:
                lane.session.link.hungry.join(lane)
        else:
            self._dropping.count_drop(lane, Dropped.OVERFLOW, message, 0, delivery.arrived)

    def store(self, delivery: Delivery, *, first: bool = False) -> None:
        """Let a message wait in the log, behind the others of its lane or before them."""
        lane, session = delivery.lane, delivery.lane.session
        self._journal.keep(delivery)
        if first and lane.backlog:
            lane.store_first([(delivery.location, delivery.size_bytes)])
        else:
            lane.store(delivery.location, delivery.size_bytes)
        assert delivery.message is not None
        session.stored_one(delivery.message.topic, lane)
        if session.connection is not None:
            session.connection.direct = False


def _newest_of(session: Session, klass: int) -> Delivery | None:
    """The newest message of a client's lowest class that is lower than this one."""
    lanes = [one for one in session.lanes.values() if one.queue and one.klass > klass and not one.queue[-1].packet_id]
    return max(lanes, key=lambda one: (one.klass, one.queue[-1].order)).queue[-1] if lanes else None
