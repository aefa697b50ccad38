"""The models of many sensors, as both ends of a stream hold them.

Implements: rdds, section III-B, Algorithms 1 and 2, for all sensors in one call.
Differs:    the model in use may change from update to update (`auto`): each reading scores every model by a soft count
            of what it would have had to send lately, and when an update is due anyway, it names the better one.
Symbols:    m_i -> a row of state, v -> reading, v^ -> predicted, delta -> delta.
Checked by: tests/sense/test_both_ends.py, tests/sense/test_auto.py
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.errors import FirelaneError
from firelane.sense.state import FIELDS, KALMAN, KEPT, LAST_VALUE, MODELS, SENT_WHOLE, TIME, VALUE
from firelane.sense.trace import LEAST_DELTA, MOST_VALUE
from firelane.sense.updates import UpdateError, Updates

AUTO = "auto"
EVERY = "every"  # discrete sensors: each reading counts and is sent
CHOICES = (*MODELS, AUTO)
NEVER_WITHIN = -1.0  # no prediction is as near as this


class ModelBank:
    """What is known of sensors from updates alone; it is the same, bit for bit, wherever these have arrived."""

    def __init__(self, sensors: int) -> None:
        self.state: Floats = np.full((sensors, FIELDS), np.nan)
        self.model: Ints = np.full(sensors, KALMAN, np.int64)
        self.sequence: Ints = np.zeros(sensors, np.int64)  # of the last update, 0 before the first
        self.delta: Floats = np.full(sensors, np.nan)  # as last told
        self.in_step: Flags = np.zeros(sensors, np.bool_)  # no update was lost since the last whole one
        self.all: Ints = np.arange(sensors)

    def __len__(self) -> int:
        return len(self.sequence)

    def predict(self, time_s: float | Floats, sensors: Ints | None = None) -> Floats:
        """What sensors (all by default) read at a time or at one each; NaN before their first update.

        At the time of its last update, or before, that is the value received.
        """
        chosen = self.all if sensors is None else self.all[sensors]
        from firelane.sense.filter import believe

        return believe(self.state, self.model, self.sequence, chosen, np.full(chosen.shape, time_s, np.float64))

    def apply(self, updates: Updates) -> None:
        """Take updates, in the order of their rows.

        One that is old or there twice changes nothing, unless it is whole and mends a sensor that is not in step.
        """
        if not len(updates):
            return
        updates.check(len(self))
        from firelane.sense.filter import follow

        done = follow(
            self.state,
            self.model,
            self.sequence,
            self.delta,
            self.in_step,
            updates.sensor,
            updates.sequence,
            updates.time_s,
            updates.value,
            updates.delta,
            updates.model,
            updates.whole,
            updates.state,
        )
        if done < len(updates):
            number, sensor = updates.sequence[done], updates.sensor[done]
            why = "is the first one here and without the state" if self.sequence[sensor] == 0 else "goes back in time"
            raise UpdateError(f"update {number} of sensor {sensor} {why}; ask its publisher for the whole state")

    def whole(self, sensors: Ints | None = None) -> Updates:
        """The last update of sensors (all by default) once more, with the state after it, for whoever lacks that.

        Sensors of which this bank does not know it, as there was no update or one was lost, are left out.
        """
        chosen = self.all if sensors is None else self.all[sensors]
        known = chosen[(self.sequence[chosen] > 0) & self.in_step[chosen]]
        return Updates(
            sensor=known,
            sequence=self.sequence[known],
            time_s=self.state[known, TIME],
            value=self.state[known, VALUE],
            delta=self.delta[known],
            model=self.model[known],
            whole=np.ones(len(known), np.bool_),
            state=self.state[known],
        )


class SendingBank:
    """The publisher's side: which readings have to be sent, so that subscribers stay within delta of all of them."""

    def __init__(self, sensors: int, *, delta: float | Floats, model: str = AUTO) -> None:
        if model not in (*CHOICES, EVERY):
            raise FirelaneError(f'there is no model "{model}"; choose from: {", ".join(CHOICES)}')
        self.bank = ModelBank(sensors)
        self.bank.in_step[:] = True
        if model == EVERY:
            self.bank.delta[:] = NEVER_WITHIN
        else:
            self.delta = delta
        self.bank.model[:] = LAST_VALUE if model in (MODELS[LAST_VALUE], EVERY) else KALMAN
        self.choosing = model == AUTO
        self.score: Floats = np.zeros((len(MODELS), sensors))
        self.read_s: Floats = np.full(sensors, -np.inf)  # when each was last read
        self.reading: Floats = np.full(sensors, np.nan)  # and what

    def __len__(self) -> int:
        return len(self.bank)

    @property
    def delta(self) -> Floats:
        """The precision in force, of each sensor; set one for all of them, or one each, from the next reading on.

        A filter's noise stays what the delta of its first update made it.
        """
        return self.bank.delta

    @delta.setter
    def delta(self, delta: float | Floats) -> None:
        wanted = np.asarray(delta, np.float64)
        if wanted.shape not in ((), (len(self),)):
            raise FirelaneError(f"{wanted.size} deltas for {len(self)} sensors; give one for all of them, or one each")
        if not np.all((wanted >= LEAST_DELTA) & (wanted <= MOST_VALUE)):
            raise FirelaneError(f"a delta must be from {LEAST_DELTA:g} to {MOST_VALUE:g}; it is {delta}")
        self.bank.delta[:] = wanted

    def observe(self, time_s: float | Floats, readings: Floats, sensors: Ints | None = None) -> Updates:
        """Take a reading of each of some sensors (all by default) and return those that must be sent."""
        chosen = self.bank.all if sensors is None else self.bank.all[sensors]
        times_s, read = np.full(chosen.shape, time_s, np.float64), np.ascontiguousarray(readings, np.float64)
        self._check(chosen, times_s, read)
        return self._watch(chosen, times_s, read, choosing=self.choosing)

    def tightened(self) -> Updates:
        """The last readings that were near enough before delta became less, and are no longer: they must be sent."""
        kept = np.flatnonzero(self.read_s > self.bank.state[:, TIME])
        return self._watch(kept, self.read_s[kept], self.reading[kept], choosing=False)

    def _watch(self, chosen: Ints, times_s: Floats, read: Floats, *, choosing: bool) -> Updates:
        bank = self.bank
        from firelane.sense.filter import watch

        outcome = watch(bank.state, bank.model, bank.sequence, self.score, bank.delta, choosing, chosen, times_s, read)
        rows = np.flatnonzero(outcome != KEPT)
        sent, whole = chosen[rows], outcome[rows] == SENT_WHOLE
        return Updates(
            sensor=sent,
            sequence=bank.sequence[sent],
            time_s=times_s[rows],
            value=read[rows],
            delta=np.maximum(bank.delta[sent], LEAST_DELTA),
            model=bank.model[sent],
            whole=whole,
            state=bank.state[sent[whole]],
        )

    def _check(self, sensors: Ints, times_s: Floats, readings: Floats) -> None:
        if readings.shape != sensors.shape:
            raise UpdateError(f"{readings.size} readings of {len(sensors)} sensors; give one of each")
        if sensors is not self.bank.all and len(np.unique(sensors)) < len(sensors):
            raise UpdateError("a sensor is there twice; give one reading of each at a time")
        good = np.abs(readings) <= MOST_VALUE  # NaN is not
        if not good.all():
            row = int(np.flatnonzero(~good)[0])
            raise UpdateError(f"sensor {sensors[row]} reads {readings[row]}; leave out what is no finite number")
        good = (times_s > self.read_s[sensors]) & (np.abs(times_s) <= MOST_VALUE)
        if not good.all():
            row = int(np.flatnonzero(~good)[0])
            before = self.read_s[sensors[row]]
            raise UpdateError(f"time does not go forward at sensor {sensors[row]}: {times_s[row]} s after {before} s")
        self.read_s[sensors], self.reading[sensors] = times_s, readings
