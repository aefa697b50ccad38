"""A stream told anew to a subscriber that bears more: only what its coarser view of the sensors needs is sent.

Whoever stands between publisher and subscriber (an exchange) knows sensors to within the stream's delta. It keeps
the subscriber's models too, and sends an update when they are about to be further than `bound - delta` from its own,
so that both errors together stay below `bound`. Between two looks both predictions are straight lines, so their
distance is largest at one end.

Implements: rdds, section III-B, Algorithm 1, with the stream's models in the place of readings.
Differs:    there is no reading to look at, so what will differ too much soon is sent along with what does already.
Symbols:    delta_i -> bound; m_i -> a row of state.
Checked by: tests/sense/test_recoding.py
"""

from __future__ import annotations

import math

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.compiled import compiled
from firelane.sense.bank import ModelBank
from firelane.sense.filter import KALMAN, KEPT, LEVEL, SENT, SENT_WHOLE, SLOPE, TIME, VALUE, believe, correct
from firelane.sense.updates import Updates

NOW = -math.inf


class RecodingBank:
    """The models of one such subscriber, and which updates keep them right."""

    def __init__(self, source: ModelBank, bound: float, sure: Flags | None = None) -> None:
        count = len(source)
        self.source = source
        self.sure = source.in_step if sure is None else sure  # which states of the source may be passed on
        self.bound = bound  # |subscriber's value - reading| is less than this
        self.bank = ModelBank(count)
        self.bank.in_step[:] = True
        self.alike: Flags = np.zeros(count, np.bool_)  # its model of a sensor is the source's, bit for bit
        self.next_s = NOW  # when something will differ too much, by the publisher's clock

    def aim(self, bound: float) -> None:
        """Keep to another bound from now on."""
        if bound != self.bound:
            self.bound = bound
            self.next_s = NOW

    def note(self, updates: Updates, delta: float) -> None:
        """The source has taken these updates; see when the first of them has to be passed on."""
        touched = np.unique(updates.sensor)
        self.alike[touched] = False
        soonest_s = soonest(*self._both, touched, self.source.state[touched, TIME], self.bound, self.bound - delta)
        self.next_s = min(self.next_s, soonest_s)

    def due(self, time_s: float, until_s: float, delta: float, just: Ints | None = None) -> Updates:
        """What is to be sent at a time of the publisher's, so that nothing differs too much until another.

        Of sensors that were `just` updated, everything since then counts.
        """
        starts_s = np.maximum(time_s, self.source.state[:, TIME])
        if just is not None:
            starts_s[just] = self.source.state[just, TIME]
        room = self.bound - delta
        outcome, self.next_s = recode(*self._both, self.alike, starts_s, until_s, self.bound, room)
        return self._updates(outcome)

    def pass_on(self, updates: Updates) -> Updates:
        """The updates that the source has just taken, and whatever else makes the subscriber's models the same as its.

        Each sensor is in them once: one that had several updates, or differed before, is whole.
        """
        bank, source = self.bank, self.source
        known = self.sure & (source.sequence > 0)
        sensors, rows, counts = np.unique(updates.sensor, return_index=True, return_counts=True)
        simple = (counts == 1) & ~updates.whole[rows] & self.alike[sensors] & (bank.sequence[sensors] > 0)
        outcome: Ints = np.where(known & ~self.alike, SENT_WHOLE, KEPT)
        changed = (source.state[sensors, TIME] != bank.state[sensors, TIME]) & known[sensors]
        outcome[sensors[changed]] = np.where(simple[changed], SENT, SENT_WHOLE)
        sent = np.flatnonzero(outcome)
        bank.state[sent], bank.model[sent] = source.state[sent], source.model[sent]
        bank.sequence[sent] += 1
        self.alike[sent] = True
        self.next_s = math.inf
        return self._updates(outcome)

    def off(self, time_s: float) -> Floats:
        """How far apart both are at a time; NaN where one of them knows nothing."""
        both = (believe(one.state, one.model, one.sequence, one.all, np.full(len(one), time_s))
                for one in (self.bank, self.source))  # fmt: skip
        mine, theirs = both
        return np.abs(mine - theirs)

    @property
    def _both(self) -> tuple[Floats, Ints, Ints, Flags, Floats, Ints, Ints]:
        source, bank = self.source, self.bank
        return (
            source.state, source.model, source.sequence, self.sure, bank.state, bank.model, bank.sequence,
        )  # fmt: skip

    def _updates(self, outcome: Ints) -> Updates:
        bank = self.bank
        sent = np.flatnonzero(outcome != KEPT)
        whole = outcome[sent] == SENT_WHOLE
        bank.delta[sent] = self.bound
        return Updates(
            sensor=sent,
            sequence=bank.sequence[sent],
            time_s=bank.state[sent, TIME],
            value=bank.state[sent, VALUE],
            delta=bank.delta[sent],
            model=bank.model[sent],
            whole=whole,
            state=bank.state[sent[whole]],
        )


@compiled
def line(state: Floats, model: Ints, sensor: int, time_s: float) -> tuple[float, float]:
    """What is predicted just after a time, and how fast that moves."""
    if model[sensor] != KALMAN:
        return state[sensor, VALUE], 0.0
    dt = max(time_s - state[sensor, TIME], 0.0)
    return state[sensor, LEVEL] + state[sensor, SLOPE] * dt, state[sensor, SLOPE]


@compiled
def crosses(
    fine: Floats, fine_model: Ints, coarse: Floats, model: Ints, sensor: int, start_s: float, bound: float, room: float
) -> float:
    """When both will be `room` apart, from a time on; -inf if they are then, or a reading that is known is missed."""
    if start_s <= fine[sensor, TIME]:
        told = coarse[sensor, VALUE]
        if fine[sensor, TIME] > coarse[sensor, TIME]:
            told = line(coarse, model, sensor, fine[sensor, TIME])[0]
        if not abs(told - fine[sensor, VALUE]) < bound:
            return -np.inf
    theirs, their_slope = line(fine, fine_model, sensor, start_s)
    mine, my_slope = line(coarse, model, sensor, start_s)
    off, moving = mine - theirs, my_slope - their_slope
    if not abs(off) < room:
        return -np.inf
    if moving == 0.0:
        return np.inf
    return start_s + ((room if moving > 0.0 else -room) - off) / moving


@compiled
def soonest(
    fine: Floats,
    fine_model: Ints,
    fine_sequence: Ints,
    sure: Flags,
    coarse: Floats,
    model: Ints,
    sequence: Ints,
    sensors: Ints,
    starts_s: Floats,
    bound: float,
    room: float,
) -> float:
    """When the first of some sensors will be too far off; at once where the subscriber knows nothing."""
    first_s = np.inf
    for row in range(len(sensors)):
        sensor = sensors[row]
        if fine_sequence[sensor] == 0 or not sure[sensor]:
            continue
        if sequence[sensor] == 0:
            return -np.inf
        first_s = min(first_s, crosses(fine, fine_model, coarse, model, sensor, starts_s[row], bound, room))
    return first_s


@compiled
def recode(
    fine: Floats,
    fine_model: Ints,
    fine_sequence: Ints,
    sure: Flags,
    coarse: Floats,
    model: Ints,
    sequence: Ints,
    alike: Flags,
    starts_s: Floats,
    until_s: float,
    bound: float,
    room: float,
) -> tuple[Ints, float]:
    """Update what would be too far off before `until_s`: by a correction, else by the fine state itself.

    What is not known for sure here is not passed on.
    """
    result = np.zeros(len(fine_sequence), np.int64)
    next_s = np.inf
    for sensor in range(len(fine_sequence)):
        if fine_sequence[sensor] == 0 or not sure[sensor] or alike[sensor]:
            continue
        start_s = starts_s[sensor]
        crossing_s = -np.inf
        if sequence[sensor] > 0:
            crossing_s = crosses(fine, fine_model, coarse, model, sensor, start_s, bound, room)
            if crossing_s > until_s:
                next_s = min(next_s, crossing_s)
                continue
        if sequence[sensor] > 0 and start_s > coarse[sensor, TIME]:
            value = fine[sensor, VALUE]
            if start_s > fine[sensor, TIME]:
                value = line(fine, fine_model, sensor, start_s)[0]
            correct(coarse, sensor, start_s, value)
            model[sensor] = fine_model[sensor]
            crossing_s = crosses(fine, fine_model, coarse, model, sensor, start_s, bound, room)
            result[sensor] = SENT
        if crossing_s <= until_s:
            coarse[sensor] = fine[sensor]
            model[sensor] = fine_model[sensor]
            alike[sensor] = True
            result[sensor] = SENT_WHOLE
        else:
            next_s = min(next_s, crossing_s)
        sequence[sensor] += 1
    return result, next_s
