"""What a sender has told in which of its messages, so that who missed some can say which, and know what was in them.

In every message stands how many updates of all sensors there have been up to it, which is the sum of their sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from firelane.arrays import Ints
from firelane.sense.updates import Updates
from firelane.sense.wire import MOST_TRAIL, WRAP, Batch, Trail, encode

Ranges = Sequence[tuple[int, int]]  # of numbers of messages, the first and the last of each


class Told:
    """The messages of one stream, numbered as they are made."""

    def __init__(self, sensors: int) -> None:
        self.number = 0  # of the next message
        self.total = 0  # updates of all sensors
        self.trailing = False  # every message says which updates were in the last ones before it
        self._told_in: Ints = np.full(sensors, -1, np.int64)  # the message with the newest update of each sensor
        self._trail = Trail()

    def count(self, updates: Updates) -> None:
        """These are about to be told, in one message or in several: each has the sequence after the one before."""
        self.total += len(updates)

    def encoded(self, updates: Updates, *, again: bool = False, withheld: int = 0, **header: Any) -> bytes:
        """The next message. `again`: its rows were told before, else they were counted; `withheld` updates are missing.

        A message of which more is to follow counts that too, so that nobody takes itself to lack nothing before that.
        """
        trail = self._trail if self.trailing else None
        if not again:
            self._note(updates)
        batch = Batch(
            number=self.number,
            sensors=len(self._told_in),
            total=self.total + withheld,
            updates=updates,
            trail=trail,
            **header,
        )
        self.skip()
        return encode(batch)

    def skip(self) -> None:
        """Leave a number out, as if its message had been lost."""
        self.number = (self.number + 1) % WRAP

    def _note(self, updates: Updates) -> None:
        if not len(updates):
            return
        self._told_in[updates.sensor] = self.number
        if self.trailing:
            self._trail = Trail(
                sensor=np.concatenate([self._trail.sensor, updates.sensor])[-MOST_TRAIL:],
                sequence=np.concatenate([self._trail.sequence, updates.sequence])[-MOST_TRAIL:],
            )

    def among(self, ranges: Ranges) -> Ints:
        """The sensors whose newest updates went in these messages."""
        return told_among(self._told_in, ranges)


def told_among(told_in: Ints, ranges: Ranges) -> Ints:
    """The sensors whose newest updates went in some messages; ranges of them may overlap, and numbers wrap."""
    if not ranges:
        return np.zeros(0, np.int64)
    straight = [
        part
        for first, last in ranges
        for part in ([(first, last)] if first <= last else [(first, WRAP - 1), (0, last)])
    ]
    starts, ends = np.array(sorted(straight), np.int64).T
    ends = np.maximum.accumulate(ends)
    before = np.searchsorted(starts, told_in, side="right") - 1  # the last range that begins by then
    return np.flatnonzero((before >= 0) & (told_in <= ends[before]))
