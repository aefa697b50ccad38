"""Keeps the log small: the oldest segment's records that still matter are written anew, then the segment goes.

Done a step at a time between other work, as a generator. What is let go of meanwhile is seen through
`journal.watched`, so that nothing is written anew for someone who has just had it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from firelane.exchange.clients.session import Session
from firelane.exchange.journal import records
from firelane.exchange.journal.journal import PUBLISHER, Journal
from firelane.exchange.journal.records import Record
from firelane.exchange.journal.retained import RetainedMessages
from firelane.exchange.lanes.lane import State

RECORDS_A_STEP = 100


class Cleaning:
    """Cleans the oldest segment, if it is worth it."""

    def __init__(self, journal: Journal, sessions: dict[int, Session], retained: RetainedMessages) -> None:
        self._journal = journal
        self._sessions = sessions
        self._retained = retained

    def steps(self) -> Iterator[None]:
        """Clean the oldest segment; yields where other work may be done."""
        journal, segment = self._journal, self._journal.log.oldest_to_clean()
        if segment is None:
            return
        known_by = journal.moved_into(segment)
        journal.watched = self._held_in(segment, known_by)
        for count, (location, kind, body) in enumerate(journal.log.segment_records(segment)):
            self._keep(known_by.get(location, location), location, Record(kind), body)
            if count % RECORDS_A_STEP == RECORDS_A_STEP - 1:
                yield
        journal.watched = {}
        journal.log.drop_segment(segment)

    def _held_in(self, segment: int, known_by: dict[int, int]) -> dict[int, set[int]]:
        """Who holds on to which message of a segment, by the location by which the message is known."""
        held: dict[int, set[int]] = {}
        moved_here = set(known_by.values())
        for session in self._sessions.values():
            mine = [one.location for one in session.in_flight.values() if one.state is not State.RELEASED]
            for lane in session.lanes.values():
                mine += [one.location for one in lane.queue]
                waiting = np.frombuffer(lane.backlog.locations(), np.uint64)
                mine += waiting[waiting >> np.uint64(32) <= segment].tolist()
            for location in mine:
                if location >> 32 == segment or location in moved_here:
                    held.setdefault(location, set()).add(session.number)
            for location, _ in session.received.values():
                if location >> 32 == segment or location in moved_here:
                    held.setdefault(location, set()).add(PUBLISHER)
        return held

    def _keep(self, known: int, location: int, kind: Record, body: bytes) -> None:
        """Write a record anew if it still matters."""
        journal = self._journal
        if kind is Record.MESSAGE:
            self._keep_message(known, body)
        elif kind is Record.SESSION:
            session = self._sessions.get(records.read_json(body)["number"])
            if session is not None and session.location == location:
                journal.rewrite(session, kind, body)
        elif kind is Record.SUBSCRIBED:
            data = records.read_json(body)
            session = self._sessions.get(data["session"])
            subscription = session.subscriptions.get(data["filter"]) if session is not None else None
            if subscription is not None and subscription.location == location:
                journal.rewrite(subscription, kind, body)
        elif kind is Record.RETAINED:
            kept = self._retained.find(records.read_message(body).topic)
            if kept is not None and kept.location == location:
                journal.rewrite(kept, kind, body)
        elif kind in (Record.SENT, Record.RELEASED):
            self._keep_progress(kind, body)

    def _keep_message(self, known: int, body: bytes) -> None:
        holders = self._journal.watched.get(known)
        if not holders:
            return
        stored = records.read_message(body)
        owed: list[tuple[int, int, bool, tuple[int, ...]]] = [one for one in stored.owed if one.number in holders]
        packet_id = stored.packet_id if PUBLISHER in holders else 0
        # Whoever else is named has had it, so only those who have not are named again.
        flags = stored.qos | stored.retain << 2
        self._journal.move(
            known,
            records.write_message(
                owed, stored.sequence, stored.expires_at, stored.publisher, packet_id, flags, stored.topic,
                stored.properties, stored.payload, stored.first,
            ),
        )  # fmt: skip

    def _keep_progress(self, kind: Record, body: bytes) -> None:
        number, sequence, packet_id = records.read_sent(body)
        session = self._sessions.get(number)
        delivery = session.in_flight.get(packet_id) if session is not None else None
        wanted = State.SENT if kind is Record.SENT else State.RELEASED
        if delivery is not None and delivery.sequence == sequence and delivery.state is wanted:
            self._journal.note(kind, body)
