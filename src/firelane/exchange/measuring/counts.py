"""Running totals of the exchange, for $SYS and for monitoring."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from firelane.exchange.clients.session import Session, Totals
from firelane.exchange.measuring.measuring import Delays
from firelane.scenario.model import MOST_PRIORITIES


@dataclass(slots=True)
class Counts:
    """Since the start. Deliveries of sessions that have ended are kept here; the others count for themselves."""

    bytes_received: int = 0
    bytes_sent: int = 0
    packets_received: int = 0
    packets_sent: int = 0
    publish_received: int = 0
    publish_bytes_received: int = 0
    publish_refused: int = 0  # by access rules, or because the log was full
    connections_opened: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    connected: int = 0  # now
    most_connected: int = 0
    protocol_errors: int = 0
    sessions_expired: int = 0
    retained_refused: int = 0
    suppressed: int = 0  # updates of sensors that somebody need not be sent
    datagrams_received: int = 0
    datagrams_sent: int = 0
    datagrams_again: int = 0  # of these: sent again for want of an answer
    datagrams_malformed: int = 0
    datagrams_ignored: int = 0  # well-formed, but from nobody known, out of place, or too many
    timed: list[int] = field(default_factory=lambda: [0] * MOST_PRIORITIES)  # deliveries that waited, by class
    delays_s: list[float] = field(default_factory=lambda: [0.0] * MOST_PRIORITIES)  # and how long, in all
    ended: Totals = field(default_factory=Totals)  # deliveries of sessions that are no more

    def note_delays(self, delays: Delays) -> None:
        """Count how long deliveries took."""
        klass = np.array([lane.klass for lane in delays.lanes], np.int64)
        for number in np.unique(klass).tolist():
            its = klass == number
            self.timed[number] += int(delays.counts[its].sum())
            self.delays_s[number] += float(delays.sums_s[its].sum())

    def deliveries(self, sessions: Iterable[Session]) -> Totals:
        """Of everybody."""
        totals = Totals()
        totals.add(self.ended)
        for session in sessions:
            totals.add(session.totals)
        return totals
