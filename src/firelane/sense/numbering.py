"""The numbers of a stream's messages, as whoever receives them counts along: what was lost, and what is the newest."""

from __future__ import annotations

from firelane.sense.wire import WRAP, Batch

MOST_OVERTAKEN = 1000  # messages; further back is a new count


class Numbering:
    """How far a stream has come."""

    def __init__(self) -> None:
        self.missed = 0  # messages that never came
        self._next: int | None = None

    def begin(self) -> None:
        """Whichever message comes next is the first."""
        self._next = None

    @property
    def last(self) -> int:
        """The number of the last message."""
        return ((self._next or 0) - 1) % WRAP

    def lost(self, batch: Batch) -> int | None:
        """How many messages before this one are missing; None if others have overtaken it, so what it says is old."""
        number = batch.number + batch.again
        ahead = 0 if self._next is None else (number - self._next) % WRAP
        if ahead >= WRAP - MOST_OVERTAKEN:
            if ahead < WRAP - 1:  # the last one twice was not missed
                self.missed = max(0, self.missed - 1)
            return None
        if ahead < WRAP // 2:
            self.missed += ahead
        self._next = (number + (not batch.again)) % WRAP
        return ahead
