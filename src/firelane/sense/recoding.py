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
from firelane.sense.bank import ModelBank
from firelane.sense.state import FIELDS, TIME, VALUE
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
        crossing_s = self._crossings(touched, self.source.state[touched, TIME], delta)
        self.next_s = min(self.next_s, float(crossing_s.min(initial=np.inf)))

    def due(self, time_s: float, until_s: float, delta: float, just: Ints | None = None) -> Updates:
        """What is to be sent at a time of the publisher's, so that nothing differs too much until another.

        Of sensors that were `just` updated, everything since then counts.
        """
        starts_s = np.maximum(time_s, self.source.state[:, TIME])
        if just is not None:
            starts_s[just] = self.source.state[just, TIME]
        crossing_s = self._crossings(self.bank.all, starts_s, delta)
        sent = np.flatnonzero(crossing_s <= until_s)
        known = sent[(self.bank.sequence[sent] > 0) & (starts_s[sent] > self.bank.state[sent, TIME])]
        self._correct(known, starts_s[known])
        crossing_s[known] = self._crossings(known, starts_s[known], delta)
        whole = sent[(crossing_s <= until_s)[sent]]  # a correction is not enough, or not possible
        self.bank.sequence[np.setdiff1d(whole, known, assume_unique=True)] += 1
        self._copy(whole)
        crossing_s[whole] = np.inf
        self.next_s = float(crossing_s.min(initial=np.inf))
        return self._updates(sent, whole)

    def _crossings(self, sensors: Ints, starts_s: Floats, delta: float) -> Floats:
        """When each of some sensors will be too far off."""
        source, bank = self.source, self.bank
        from firelane.sense.crossing import crossings

        return crossings(
            source.state, source.model, source.sequence, self.sure, bank.state, bank.model, bank.sequence, self.alike,
            sensors, starts_s, self.bound, self.bound - delta,
        )  # fmt: skip

    def _correct(self, sensors: Ints, times_s: Floats) -> None:
        """Have the subscriber's models corrected by what the source takes sensors to read."""
        bank, source, count = self.bank, self.source, len(sensors)
        from firelane.sense.filter import follow

        follow(
            bank.state,
            bank.model,
            bank.sequence,
            bank.delta,
            bank.in_step,
            sensors,
            bank.sequence[sensors] + 1,
            times_s,
            source.predict(times_s, sensors),
            np.full(count, self.bound),
            source.model[sensors],
            np.zeros(count, np.bool_),
            np.empty((0, FIELDS)),
        )

    def _copy(self, sensors: Ints) -> None:
        """Have the subscriber's models be the source's."""
        bank, source = self.bank, self.source
        bank.state[sensors], bank.model[sensors] = source.state[sensors], source.model[sensors]
        self.alike[sensors] = True

    def pass_on(self, updates: Updates) -> Updates:
        """The updates that the source has just taken, and whatever else makes the subscriber's models the same as its.

        Each sensor is in them once: one that had several updates, or differed before, is whole.
        """
        bank, source = self.bank, self.source
        known = self.sure & (source.sequence > 0)
        sensors, rows, counts = np.unique(updates.sensor, return_index=True, return_counts=True)
        simple = (counts == 1) & ~updates.whole[rows] & self.alike[sensors] & (bank.sequence[sensors] > 0)
        changed = (source.state[sensors, TIME] != bank.state[sensors, TIME]) & known[sensors]
        whole = known & ~self.alike
        whole[sensors[changed & ~simple]] = True
        sent = np.union1d(np.flatnonzero(whole), sensors[changed])
        self._copy(sent)
        bank.sequence[sent] += 1
        self.next_s = math.inf
        return self._updates(sent, np.flatnonzero(whole))

    def _updates(self, sent: Ints, whole: Ints) -> Updates:
        bank = self.bank
        is_whole = np.isin(sent, whole)
        bank.delta[sent] = self.bound
        return Updates(
            sensor=sent,
            sequence=bank.sequence[sent],
            time_s=bank.state[sent, TIME],
            value=bank.state[sent, VALUE],
            delta=bank.delta[sent],
            model=bank.model[sent],
            whole=is_whole,
            state=bank.state[sent[is_whole]],
        )
