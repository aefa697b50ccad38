"""A stream of sensors as one subscriber gets it that bears more, or may have to: told anew in messages of its own.

It has a boot and numbers of its own, as its updates are others than the publisher's. While nothing is to be coarser,
the publisher's updates are passed on as they are, so that what a plan changes later does not begin with all states.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np

from firelane.arrays import Ints
from firelane.exchange.delivering.routes import Copy, Route
from firelane.exchange.measuring.traffic import Seen
from firelane.sense.recoding import NOW, RecodingBank
from firelane.sense.told import Told
from firelane.sense.updates import Updates
from firelane.sense.wire import WRAP, gone_portions, portions

if TYPE_CHECKING:
    from firelane.exchange.clients.connection import Connection
    from firelane.exchange.sensors.stream import Stream

AHEAD_S = 0.2  # two ticks: what will differ too much by then is sent now
TOGETHER_S = 3.0  # and with it what will by then
SPARE_BYTES = 100  # of a packet beside topic and payload
LEAST_BYTES = 300
NOBODY: Ints = np.zeros(0, np.int64)


class Coarser:
    """What one session is told of a stream, and what that is worth: updates that it need not be told."""

    def __init__(self, stream: Stream, bound: float) -> None:
        self.stream = stream
        self.recoding = RecodingBank(stream.bank, bound, stream.sure)
        self.connection: Connection | None = None  # that it was last told over
        self.route = Route("", Seen(""), (), ())
        self.copy: Copy | None = None
        self.boot = secrets.randbelow(WRAP)
        self.told = Told(len(stream))
        self.sent_at = -np.inf
        self.unsaid = True  # it is to be told something, even if no sensor has news: that it begins, to begin with
        self._claimed = np.inf  # the bound that its subscriber was last told
        self._withheld = self._alarmed = False  # it was last told that something is missing here; or will be
        self._delta = stream.delta  # for which it was last seen when something is due
        self.messages = 0
        self.rows = 0
        self.suppressed = 0

    @property
    def exact(self) -> bool:
        """Whether nothing is to be coarser for now."""
        return self.recoding.bound <= self.stream.delta

    @property
    def bound(self) -> float:
        """What is kept to now."""
        return max(self.recoding.bound, self.stream.delta)

    @property
    def owes(self) -> bool:
        """Whether its subscriber has to hear of it at once: it would rely on too much, or on too little."""
        return self.unsaid or self._claimed < self.bound or (self._withheld and not self.stream.unsure)

    def alarm(self) -> None:
        """Something that it depends on was lost: its subscriber is to know, by a number that is left out.

        As long as something is missing here, its messages say that there was an update more than were told.
        """
        if not self._alarmed:
            self.told.skip()
        self.unsaid = self._alarmed = True

    def look_anew(self) -> None:
        """What was not vouched for is again; meanwhile it may have come to differ too much."""
        self.recoding.next_s = NOW

    def carry(self, copy: Copy) -> None:
        """Send by this copy of the session's from now on; who was away meanwhile is told everything again."""
        text = self.stream.topic
        self.copy = copy
        self.route = Route(text, Seen(text), (copy,), ())
        connection = copy.session.connection
        if connection is not self.connection and connection is not None:
            if self.connection is not None and not (copy.qos and self.stream.qos):
                self.begin()
            self.connection = connection
            self.told.trailing = connection.gate is not None

    def let_go(self) -> None:
        """The session gets no stream of its own any more."""
        for lane in self.copy.lanes if self.copy is not None else ():
            lane.share = 1.0

    def begin(self) -> None:
        """The subscriber is to forget what it knows, and is told everything whole."""
        self.recoding = RecodingBank(self.stream.bank, self.recoding.bound, self.stream.sure)
        self.boot = secrets.randbelow(WRAP)
        trailing = self.told.trailing
        self.told = Told(len(self.stream))
        self.told.trailing = trailing
        self.unsaid, self._claimed = True, np.inf
        self._withheld = self._alarmed = False

    def take(self, updates: Updates, time_s: float) -> Updates:
        """What of the publisher's updates, which have just been taken in, is to be told, and what else."""
        if self.exact:
            told = self.recoding.pass_on(updates)
        else:
            self.recoding.note(updates, self.stream.delta)
            told = self.due(time_s, updates.sensor)
        self.suppressed += len(updates) - int(np.isin(updates.sensor, told.sensor).sum())
        return told

    def due(self, time_s: float, just: Ints | None = None) -> Updates:
        """What is to be told at a time of the publisher's, at which some sensors were just updated."""
        recoding = self.recoding
        if self.stream.delta > self._delta:
            recoding.next_s = NOW  # there is less room between both
        self._delta = self.stream.delta
        if self.exact:
            if recoding.next_s == NOW:
                return recoding.pass_on(recoding.bank.whole(NOBODY))
        elif recoding.next_s <= time_s + AHEAD_S:
            return recoding.due(time_s, time_s + TOGETHER_S, self.stream.delta, just)
        return recoding.bank.whole(NOBODY)

    def payloads(
        self, updates: Updates, time_s: float, most_bytes: int, *, heartbeat: bool = False, again: bool = False
    ) -> list[bytes]:
        """Messages with these updates, each within so many bytes; `again`, they were told before."""
        if not again:
            self.told.count(updates)
        gone = self.stream.gone if heartbeat else NOBODY
        parts = list(portions(updates, most_bytes)) if len(updates) or not len(gone) else []
        made = [self._message(one, time_s, heartbeat=heartbeat and not len(gone), again=again) for one in parts]
        for number, some in enumerate(gone_portions(gone, most_bytes) if len(gone) else ()):
            made.append(self._message(self.recoding.bank.whole(NOBODY), time_s, heartbeat=number == 0, gone=some))
        self.messages += len(made)
        self.rows += len(updates)
        self.unsaid, self._claimed = False, self.bound
        self._withheld, self._alarmed = self.stream.unsure, False
        return made

    def _message(
        self, updates: Updates, time_s: float, *, heartbeat: bool, again: bool = False, gone: Ints = NOBODY
    ) -> bytes:
        return self.told.encoded(
            updates,
            again=again,
            withheld=int(self.stream.unsure),
            boot=self.boot,
            time_s=time_s,
            delta=self.bound,
            heartbeat=heartbeat,
            gone=gone,
        )
