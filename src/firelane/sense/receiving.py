"""A subscriber's side of one stream, without a network: messages in, and at any time what every sensor reads now.

Implements: rdds, section III-B, Algorithms 2 and 3 and the validity interval of section III-B2.
Differs:    a refresh is due after delta / |slope| as in the paper, but after `heartbeat_s` at the latest, as the slope
            may be 0, and not more often than a hundred times a second.
Symbols:    v^ -> value, delta_i -> bound, dx/dt -> slope, avi -> valid_s, t_cur -> now.
Checked by: tests/sense/test_sending.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.sense.bank import ModelBank
from firelane.sense.filter import KALMAN, SLOPE, TIME
from firelane.sense.offer import Offer
from firelane.sense.updates import UpdateError, Updates
from firelane.sense.wire import WRAP, decode

HEARTBEAT_S = 10.0  # until an offer says otherwise
STALE, LOST = 1.5, 2.5  # heartbeats without a word
LEAST_REFRESH_S = 0.01
CLOCK_WINDOW_S = 60.0
MOST_OVERTAKEN = 1000  # messages; further back is a new count
HISTORY = 100  # updates that are remembered of each sensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readings:
    """What sensors read at one time, a row each. NaN: nothing is known yet."""

    sensor: Ints
    value: Floats
    updated_s: Floats  # when the last update was made, by the publisher's clock
    age_s: Floats  # since then
    bound: Floats  # |value - reading| is less than this; infinite where something may have been lost
    predicted: Flags  # or received just now
    valid_s: Floats  # how long the value stays within twice the bound of what it will be (avi)
    stale: Flags  # nobody vouches for it: the publisher has missed a heartbeat
    lost: Flags  # the publisher is silent, or reads this sensor no longer


class Clock:
    """The publisher's clock, as far as arrivals tell: messages take the least time of late, or longer."""

    def __init__(self) -> None:
        self._least, self._before, self._turn_at = math.inf, math.inf, -math.inf

    def heard(self, theirs_s: float, ours_s: float) -> None:
        """A message made at their time came in at ours."""
        if ours_s >= self._turn_at:
            self._before, self._least, self._turn_at = self._least, math.inf, ours_s + CLOCK_WINDOW_S
        self._least = min(self._least, ours_s - theirs_s)

    def theirs(self, ours_s: float) -> float:
        """What their clock shows now."""
        ahead = min(self._least, self._before)
        return ours_s - ahead if math.isfinite(ahead) else ours_s


class ReceivingStream:
    """What is known of a stream's sensors; times of its own are this side's clock, in seconds."""

    def __init__(self, offer: Offer | None = None, *, history: int = HISTORY) -> None:
        self.offer = offer
        self.clock = Clock()
        self.boot: int | None = None
        self.delta = math.nan
        self.messages = 0
        self.updates = 0
        self.missed = 0  # messages that never came, by their numbers
        self.refused = 0  # messages that made no sense
        self._history = history
        self._next: int | None = None  # the number of the next message
        self._heard_s = -math.inf
        self._begin(len(offer.sensors) if offer is not None else 0)

    def _begin(self, sensors: int) -> None:
        self.bank = ModelBank(sensors)
        self.suspect: Flags = np.zeros(sensors, np.bool_)  # an update of theirs may have been lost
        self.gone: Flags = np.zeros(sensors, np.bool_)
        self.told: Ints = np.zeros(sensors, np.int64)  # updates taken of each
        self._past: Floats = np.full((sensors, self._history, 2), np.nan)  # time and value, in a ring
        self._refresh_at: Floats = np.full(sensors, -np.inf)

    def __len__(self) -> int:
        return len(self.bank)

    def expect(self, offer: Offer) -> None:
        """The publisher has begun anew, with these sensors."""
        self.offer, self.boot, self._next, self.clock = offer, offer.boot, None, Clock()
        self._begin(len(offer.sensors))

    @property
    def heartbeat_s(self) -> float:
        """How often the publisher is to be heard of, at least."""
        return HEARTBEAT_S if self.offer is None else self.offer.heartbeat_s

    def take(self, payload: bytes, now: float) -> Updates:
        """Algorithm 2: take a message and return the updates that were new; UpdateError if it makes no sense."""
        try:
            batch = decode(payload)
            batch.updates.check(batch.sensors)
        except UpdateError:
            self.refused += 1
            raise
        if batch.boot != self.boot or batch.sensors != len(self):
            self.boot, self._next, self.clock = batch.boot, None, Clock()
            self._begin(batch.sensors)
        self._count(batch.number)
        self.messages += 1
        self.delta = batch.delta
        self.clock.heard(batch.time_s, now)
        self._heard_s = now
        if batch.heartbeat:
            self.gone[:] = False
            self.gone[batch.gone] = True
        return self._follow(batch.updates)

    def _count(self, number: int) -> None:
        """See by its number whether messages before this one were lost, or have been overtaken by it."""
        ahead = 0 if self._next is None else (number - self._next) % WRAP
        if ahead >= WRAP - MOST_OVERTAKEN:
            self.missed = max(0, self.missed - 1)
            return
        if 0 < ahead < WRAP // 2:
            self.missed += ahead
            self.suspect |= self.bank.sequence > 0
        self._next = (number + 1) % WRAP

    def _follow(self, updates: Updates) -> Updates:
        bank = self.bank
        first = bank.sequence[updates.sensor] == 0
        usable = updates.pick(~first | updates.whole)
        before = bank.sequence.copy()
        try:
            bank.apply(usable)
        except UpdateError:  # its time goes back: somebody else's, or a clock that was set
            self.suspect[updates.sensor] = True
            self.refused += 1
            raise
        healed = usable.sensor[bank.in_step[usable.sensor]]
        self.suspect[healed] = False
        self.gone[usable.sensor] = False
        new = usable.pick(usable.sequence > before[usable.sensor])
        self.updates += len(new)
        place = self.told[new.sensor] % self._history
        self._past[new.sensor, place, 0], self._past[new.sensor, place, 1] = new.time_s, new.value
        self.told[new.sensor] += 1
        self._refresh_at[new.sensor] = -np.inf
        return new

    def missing(self) -> Ints:
        """The sensors whose state is to be asked for: nothing is known of them, or something was lost."""
        return np.flatnonzero((self.bank.sequence == 0) | ~self.bank.in_step | self.suspect)

    def read(self, now: float, sensors: Ints | None = None) -> Readings:
        """What sensors (all by default) read now, without asking anybody."""
        bank = self.bank
        chosen = bank.all if sensors is None else bank.all[sensors]
        theirs = self.clock.theirs(now)
        updated_s = bank.state[chosen, TIME]
        unsure = ~bank.in_step[chosen] | self.suspect[chosen]
        silent_s = now - self._heard_s
        return Readings(
            sensor=chosen,
            value=bank.predict(theirs, chosen),
            updated_s=updated_s,
            age_s=np.maximum(theirs - updated_s, 0.0),
            bound=np.where(unsure, np.inf, self.delta),
            predicted=theirs > updated_s,
            valid_s=2.0 * self._period_s(chosen),
            stale=np.full(chosen.shape, silent_s > STALE * self.heartbeat_s) | self.gone[chosen],
            lost=np.full(chosen.shape, silent_s > LOST * self.heartbeat_s) | self.gone[chosen],
        )

    def refresh(self, now: float) -> Readings | None:
        """Algorithm 3: the sensors whose value is due to be brought up to date, if there are any."""
        due = np.flatnonzero((self._refresh_at <= now) & (self.bank.sequence > 0))
        if not len(due):
            return None
        self._refresh_at[due] = now + self._period_s(due)
        return self.read(now, due)

    def next_refresh(self) -> float:
        """When something is due next; infinite if nothing is known."""
        known = self.bank.sequence > 0
        return float(self._refresh_at[known].min()) if known.any() else math.inf

    def _period_s(self, sensors: Ints) -> Floats:
        """delta / |slope|, by which a value moves as much as it may be wrong."""
        moving = self.bank.model[sensors] == KALMAN
        slope = np.abs(np.where(moving, self.bank.state[sensors, SLOPE], 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            period = np.where(slope > 0, self.delta / slope, self.heartbeat_s)
        return np.clip(period, LEAST_REFRESH_S, self.heartbeat_s)

    def history(self, sensor: int) -> tuple[Floats, Floats]:
        """Times and values of the last updates of a sensor, oldest first."""
        ring, told = self._past[sensor], int(self.told[sensor])
        if told < self._history:
            return ring[:told, 0].copy(), ring[:told, 1].copy()
        ring = np.roll(ring, -(told % self._history), axis=0)
        return ring[:, 0].copy(), ring[:, 1].copy()
