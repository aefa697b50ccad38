"""A publisher's side of one stream, without a network: readings in, messages out.

Implements: rdds, section III-B, Algorithm 1, and the heartbeats of section II-A.
Differs:    silence means "as predicted" only while heartbeats come. Where messages get lost, they carry in turn the
            whole state of some sensors (`heal`), so that subscribers who cannot ask are right again after a while.
Symbols:    delta -> delta.
Checked by: tests/sense/test_sending.py
"""

from __future__ import annotations

import math

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.errors import FirelaneError
from firelane.sense.bank import AUTO, EVERY, SendingBank
from firelane.sense.offer import Offer, Resync
from firelane.sense.told import Told
from firelane.sense.updates import Updates
from firelane.sense.wire import gone_portions, portions

MOST_BYTES = 60_000  # of a message, unless its transport takes less
HEALED_IN = 12  # heartbeats, until every sensor's whole state was told again
FORGET = 0.9  # of the longest time between readings, from one to the next
NOBODY: Ints = np.zeros(0, np.int64)
SILENT = 3.0  # heartbeats, and times as long as between readings before: then a sensor is gone


class SendingStream:
    """The models of a stream's sensors, and what subscribers are told of them."""

    def __init__(self, offer: Offer, *, model: str = AUTO, most_bytes: int = MOST_BYTES, heal: bool = False) -> None:
        self.offer = offer
        self.most_bytes = most_bytes
        self._heal = heal
        count = len(offer.sensors)
        self._sending = SendingBank(count, delta=offer.precision or 1.0, model=EVERY if offer.discrete else model)
        self._told = Told(count)
        self._told.trailing = heal
        self._turn = 0
        self._between_s: Floats = np.zeros(count)  # readings of each, lately
        self._beat_at = -math.inf
        self.delta = offer.precision or 0.0
        self.readings = 0
        self.sent = 0
        self.messages = 0
        self.bytes = 0

    def observe(
        self, time_s: float, readings: Floats, sensors: Ints | None = None, *, apart: bool = False
    ) -> list[bytes]:
        """Take a reading of each of some sensors (all by default) and return the messages that have to be sent.

        They are as few as fit; `apart`, there is one for each update.
        """
        chosen = self._sending.bank.all if sensors is None else sensors
        before_s = self._sending.read_s[chosen]
        updates = self._sending.observe(time_s, readings, sensors)
        since_s = np.where(np.isfinite(before_s), time_s - before_s, 0.0)
        self._between_s[chosen] = np.maximum(since_s, FORGET * self._between_s[chosen])
        self.readings += len(readings)
        self.sent += len(updates)
        if not len(updates):
            return []
        return self._messages(updates, time_s, most_bytes=1 if apart else self.most_bytes)

    def beat(self, time_s: float) -> list[bytes]:
        """A heartbeat, if it is time for one: what is whole again in turn, and which sensors are gone.

        Those for which it has no room are in further messages right behind it.
        """
        if time_s < self._beat_at:
            return []
        self._beat_at = time_s + self.offer.heartbeat_s
        made: list[bytes] = []
        for gone in gone_portions(self._gone(time_s), self.most_bytes):
            made += self._messages(self._nothing, time_s, heartbeat=not made, gone=gone)
        if self._heal:
            made += self.whole(time_s, self._next_few())
        return made

    def whole(self, time_s: float, sensors: Ints | None = None) -> list[bytes]:
        """The whole state of some sensors (all by default) again, for who lacks it."""
        known = np.flatnonzero(self._sending.bank.sequence)
        wanted = known if sensors is None else np.intersect1d(sensors, known)
        return self._messages(self._sending.bank.whole(wanted), time_s, again=True) if len(wanted) else []

    def wanted(self, asked: Resync) -> Ints | None:
        """The sensors whose states somebody asks for; None: of all."""
        if asked.everything:
            return None
        named = np.array(asked.sensors or (), np.int64)
        return np.union1d(named[named < len(self.offer.sensors)], self._told.among(asked.batches or ()))

    def trail(self, wanted: bool) -> None:
        """Whether messages say which updates went in the last ones before, as they may get lost; or do so anyway."""
        self._told.trailing = wanted or self._heal

    def set_delta(self, time_s: float, delta: float) -> list[bytes]:
        """Another precision from now on; who subscribes is told at once.

        If it is tighter, last readings that are no longer within it are told before that.
        """
        if self.offer.discrete:
            raise FirelaneError("discrete sensors have no precision; every reading of theirs is sent")
        if delta == self.delta:
            return []
        self._sending.delta = delta
        missed = self._sending.tightened() if delta < self.delta else self._nothing
        self.sent += len(missed)
        made = self._messages(missed, time_s) if len(missed) else []
        self.delta = delta
        return made + self._messages(self._nothing, time_s)

    @property
    def _nothing(self) -> Updates:
        return self._sending.bank.whole(NOBODY)

    def _next_few(self) -> Ints:
        """Whose turn it is to be told whole."""
        count = len(self.offer.sensors)
        some = math.ceil(count / HEALED_IN)
        turn = (self._turn + np.arange(some)) % count
        self._turn = (self._turn + some) % count
        return turn

    def _gone(self, time_s: float) -> Ints:
        """The sensors that are no longer read."""
        read_s = self._sending.read_s
        patience_s = SILENT * np.maximum(self.offer.heartbeat_s, self._between_s)
        return np.flatnonzero(np.isfinite(read_s) & (read_s < time_s - patience_s))

    def _messages(
        self,
        updates: Updates,
        time_s: float,
        *,
        again: bool = False,
        heartbeat: bool = False,
        gone: Ints = NOBODY,
        most_bytes: int | None = None,
    ) -> list[bytes]:
        if not again:
            self._told.count(updates)
        made = [
            self._told.encoded(
                part,
                again=again,
                boot=self.offer.boot,
                time_s=time_s,
                delta=self.delta,
                heartbeat=heartbeat,
                discrete=self.offer.discrete,
                gone=gone,
            )
            for part in portions(updates, most_bytes or self.most_bytes)
        ]
        self.messages += len(made)
        self.bytes += sum(map(len, made))
        return made
