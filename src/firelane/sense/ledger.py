"""What a receiver has heard of a stream's updates: by it one knows that nothing is missing, or what is.

The sequences of a sensor's updates only grow, and nobody has heard of a higher one than was told. So where the sum of
the highest that were heard of is what the newest message says it is, each of them is its sensor's last. Then a sensor
whose state is as old as that lacks nothing, whatever was lost on the way; and of the others one knows that they do.
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Flags, Ints
from firelane.sense.bank import ModelBank
from firelane.sense.numbering import Numbering
from firelane.sense.offer import Resync
from firelane.sense.wire import WRAP, Batch


class Ledger:
    """What was heard of one stream."""

    def __init__(self) -> None:
        self.numbering = Numbering()
        self.restart(0)

    def restart(self, sensors: int) -> None:
        """Its publisher has begun anew, with so many sensors."""
        self.numbering.restart()
        self.latest: Ints = np.zeros(sensors, np.int64)  # the highest sequence that was heard of
        self.open: Flags = np.ones(sensors, np.bool_)  # there may be a higher one
        self.total = 0  # what the newest message says
        self.settled = False  # no sensor is open
        self.times_settled = 0

    def take(self, batch: Batch) -> bool:
        """A message has come: whether it was overtaken, and is not the newest."""
        lost, late = self.numbering.take(batch)
        if not len(self.latest):
            return late
        if lost:
            self.doubt()
        if batch.trail is not None:
            np.maximum.at(self.latest, batch.trail.sensor, batch.trail.sequence)
        told, sequence = batch.updates.sensor, batch.updates.sequence
        np.maximum.at(self.latest, told, sequence)
        if not late:
            self.total = batch.total
            self.open[told[sequence == self.latest[told]]] = False
        if not self.settled and int(self.latest.sum()) % WRAP == self.total:
            self._settle()
        return late

    def doubt(self) -> None:
        """Something of which nothing is known may have been lost."""
        self.open[:] = True
        self.settled = False

    def _settle(self) -> None:
        self.open[:] = False
        self.settled = True
        self.times_settled += 1
        self.numbering.settle()

    def suspect(self, bank: ModelBank) -> Flags:
        """The sensors of which an update may be missing in a bank."""
        return self.open | (bank.sequence < self.latest)

    def lacking(self, bank: ModelBank) -> Flags:
        """The sensors whose states are to be asked for."""
        return self.open | self._known_to_lack(bank)

    @staticmethod
    def _out_of_step(bank: ModelBank) -> Flags:
        return (bank.sequence > 0) & ~bank.in_step

    def _known_to_lack(self, bank: ModelBank) -> Flags:
        return (bank.sequence < self.latest) | self._out_of_step(bank)

    def wanted(self, bank: ModelBank, *, by_number: bool = True) -> Resync | None:
        """What is to be asked for: states of sensors and, `by_number`, what was in messages that never came."""
        named = self._known_to_lack(bank)
        gaps = self.numbering.gaps() if by_number and self.open.any() else ()
        if not gaps:
            named |= self.open
        if not (gaps or named.any()):
            return None
        if named.all():
            return Resync()
        return Resync(sensors=tuple(np.flatnonzero(named).tolist()), batches=gaps or None)
