"""Deliveries that are not made: counted with their reason, recorded, and no longer kept."""

from __future__ import annotations

from firelane.exchange.journal.journal import Journal
from firelane.exchange.lanes.lane import Delivery, Dropped, Lane
from firelane.exchange.lanes.message import Message
from firelane.exchange.telemetry import Recorder

OUTCOMES = [why.name.lower() for why in Dropped]


class Dropping:
    """Where every delivery that was due and is not made ends."""

    def __init__(self, journal: Journal) -> None:
        self.recorder: Recorder | None = None
        self._journal = journal

    def drop(self, delivery: Delivery, why: Dropped) -> None:
        """Give a delivery up, and count it."""
        lane = delivery.lane
        self.count_drop(lane, why, delivery.message, delivery.qos, delivery.arrived)
        if delivery.packet_id:
            lane.session.in_flight.pop(delivery.packet_id, None)
            if delivery in lane.session.again:
                lane.session.again.remove(delivery)
        if delivery.location:
            self._journal.done(lane.session, delivery)

    def count_drop(self, lane: Lane, why: Dropped, message: Message | None, qos: int, arrived: float) -> None:
        """Count a delivery that will not be made, with its reason; every one is recorded."""
        lane.dropped[why] += 1
        if self.recorder is not None:
            self.record(lane, message, qos, arrived, None, OUTCOMES[why], 1.0)

    def record(
        self,
        lane: Lane,
        message: Message | None,
        qos: int,
        arrived: float,
        delay_s: float | None,
        outcome: str,
        weight: float,
    ) -> None:
        """Have what became of a delivery recorded."""
        assert self.recorder is not None
        session = lane.session
        topic, size_bytes = (b"", 0) if message is None else (message.topic, len(message.payload))
        if message is not None and session.link is not None:
            size_bytes = session.link.wire_bytes(message)
        self.recorder.delivery(
            arrived, session.name, lane.filter, topic, lane.klass, qos, size_bytes, delay_s, outcome, weight
        )
