"""A subscriber's side of one stream, without a network: messages in, and at any time what every sensor reads now.

Implements: rdds, section III-B, Algorithms 2 and 3 and the validity interval of section III-B2.
Differs:    a refresh is due after delta / |slope| as in the paper, but after `heartbeat_s` at the latest, as the slope
            may be 0, and not more often than a hundred times a second.
Symbols:    v^ -> value, delta_i -> bound, dx/dt -> slope, avi -> valid_s, t_cur -> now.
Checked by: tests/sense/test_sending.py
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.sense.bank import ModelBank
from firelane.sense.ledger import Ledger
from firelane.sense.offer import Offer
from firelane.sense.state import KALMAN, SLOPE, TIME
from firelane.sense.updates import UpdateError, Updates
from firelane.sense.wire import Batch, decode

HEARTBEAT_S = 10.0  # until an offer says otherwise
STALE, LOST = 1.5, 2.5  # heartbeats without a word
LEAST_REFRESH_S = 0.01
CLOCK_WINDOW_S = 60.0
FORMER = 8  # boots that are remembered
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
        self.refused = 0  # messages that made no sense
        self.outdated = 0  # messages of a boot that was over when they came
        self._history = history
        self.ledger = Ledger()
        self._ended: deque[int] = deque(maxlen=FORMER)  # boots of offers that others have replaced
        self._former: deque[int] = deque(maxlen=FORMER)  # boots that others have followed
        self._latest_s = -math.inf  # when the latest message of this boot was made, by the publisher's clock
        self._heard_s = -math.inf
        self._begin(len(offer.sensors) if offer is not None else 0)

    def _admit(self, sensors: int) -> None:
        """UpdateError if there is no room for so many."""

    def _begin(self, sensors: int) -> None:
        self.bank = ModelBank(sensors)
        self.ledger.restart(sensors)
        self.gone: Flags = np.zeros(sensors, np.bool_)
        self.told: Ints = np.zeros(sensors, np.int64)  # updates taken of each
        self._past: Floats = np.zeros((self._history, sensors, 2))  # time and value, in a ring that fills as needed
        self._refresh_at: Floats = np.full(sensors, -np.inf)

    def __len__(self) -> int:
        return len(self.bank)

    def expect(self, offer: Offer) -> None:
        """The publisher has begun anew, with these sensors."""
        if self.offer is not None and self.offer.boot != offer.boot:
            self._ended.append(self.offer.boot)
        while offer.boot in self._ended:
            self._ended.remove(offer.boot)
        self.offer = offer
        self._turn_to(offer.boot, len(offer.sensors))

    def _turn_to(self, boot: int, sensors: int) -> None:
        """Forget everything, as the stream has begun anew, or is told by somebody else."""
        self._admit(sensors)
        if self.boot is not None and self.boot != boot:
            self._former.append(self.boot)
        self.boot, self.clock, self._latest_s = boot, Clock(), -math.inf
        self._begin(sensors)

    @property
    def missed(self) -> int:
        """Messages that never came, by their numbers."""
        return self.ledger.numbering.missed

    @property
    def suspect(self) -> Flags:
        """The sensors of which an update may have been lost."""
        return self.ledger.suspect(self.bank)

    @property
    def heartbeat_s(self) -> float:
        """How often the publisher is to be heard of, at least."""
        return HEARTBEAT_S if self.offer is None else self.offer.heartbeat_s

    def take(self, payload: bytes, now: float) -> Updates:
        """Algorithm 2: take a message and return the updates that were new; UpdateError if it makes no sense."""
        try:
            batch = decode(payload)
            batch.updates.check(batch.sensors)
            if self._is_outdated(batch):
                self.outdated += 1
                return batch.updates.pick(np.zeros(len(batch.updates), np.bool_))
            if batch.boot != self.boot or batch.sensors != len(self):
                self._turn_to(batch.boot, batch.sensors)
        except UpdateError:
            self.refused += 1
            raise
        late = self.ledger.take(batch)
        self.messages += 1
        self.clock.heard(batch.time_s, now)
        self._heard_s, self._latest_s = now, max(self._latest_s, batch.time_s)
        if not late:
            self._take_word(batch)
        return self._follow(batch.updates, discrete=batch.discrete)

    def _is_outdated(self, batch: Batch) -> bool:
        """Whether a message is of a publisher's life before this one, or was told before the stream was told anew."""
        if batch.boot == self.boot:
            return False
        known = batch.boot in self._former or self.offer is not None  # a life with another clock is offered first
        return batch.boot in self._ended or (known and batch.time_s < self._latest_s)

    def _take_word(self, batch: Batch) -> None:
        """What the latest message says of the stream as a whole."""
        self.delta = batch.delta
        if batch.heartbeat:
            self.gone[:] = False
        self.gone[batch.gone] = True

    def _follow(self, updates: Updates, *, discrete: bool) -> Updates:
        bank = self.bank
        first = bank.sequence[updates.sensor] == 0
        usable = updates.pick(~first | updates.whole)
        before = bank.sequence.copy()
        try:
            bank.apply(usable)
        except UpdateError:  # its time goes back: somebody else's, or a clock that was set
            self.refused += 1
            raise
        if discrete:  # one reading says it all
            bank.in_step[usable.sensor] = True
        new = usable.pick(usable.sequence > before[usable.sensor])
        self.gone[new.sensor] = False
        self.updates += len(new)
        place = self.told[new.sensor] % self._history
        self._past[place, new.sensor, 0], self._past[place, new.sensor, 1] = new.time_s, new.value
        self.told[new.sensor] += 1
        self._refresh_at[new.sensor] = -np.inf
        return new

    def missing(self) -> Ints:
        """The sensors whose state is to be asked for, as something of them was lost, or may have been."""
        return np.flatnonzero(self.ledger.lacking(self.bank))

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
        ring, told = self._past[:, sensor], int(self.told[sensor])
        if told < self._history:
            return ring[:told, 0].copy(), ring[:told, 1].copy()
        ring = np.roll(ring, -(told % self._history), axis=0)
        return ring[:, 0].copy(), ring[:, 1].copy()
