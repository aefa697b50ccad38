"""The numbers of a stream's messages: by them one knows what never came, and what has been overtaken.

A message that was overtaken says how things were before others that are known, or lost; so it vouches for nothing. One
that repeats states comes under the number of the last message that was made, and says that there is no later one.
"""

from __future__ import annotations

from itertools import islice

from firelane.sense.wire import WRAP, Batch

MOST_LACKING = 1000  # numbers of messages that never came are remembered
MOST_GAPS = 256  # ranges of them are asked for; beyond, everything is


class Numbering:
    """What has come of one stream, by numbers."""

    def __init__(self) -> None:
        self.missed = 0  # messages that never came
        self._lacking: dict[int, None] = {}  # the numbers of the last of them, as they were noticed
        self.restart()

    def restart(self) -> None:
        """Its publisher has begun anew."""
        self.next: int | None = None  # the number of the next message
        self._lacking.clear()
        self._settled_at: int | None = None  # what is missing before this number is of no interest any more

    def settle(self) -> None:
        """Nothing is missing of what was in messages so far."""
        self._settled_at = self.next

    def take(self, batch: Batch) -> tuple[bool, bool]:
        """A message has come: whether others before it have not, and whether it was overtaken."""
        number = batch.number
        if self.next is None:
            self.next = (number + 1) % WRAP
            return False, False
        ahead = (number + batch.repeat - self.next) % WRAP  # how many never came
        if ahead >= WRAP // 2:
            if number in self._lacking and not batch.repeat:
                del self._lacking[number]
                self.missed -= 1
            return False, number != (self.next - 1) % WRAP
        if ahead:
            self._lose(ahead)
        self.next = (number + 1) % WRAP
        return ahead > 0, False

    def gaps(self) -> tuple[tuple[int, int], ...] | None:
        """The messages that never came since nothing was missing, first and last of each gap; None if too many."""
        if self._settled_at is None:
            return None
        found: list[tuple[int, int]] = []
        for number in self._lacking:
            if not self._matters(number):
                continue
            if found and number == (found[-1][1] + 1) % WRAP:
                found[-1] = (found[-1][0], number)
            else:
                found.append((number, number))
        return tuple(found) if len(found) <= MOST_GAPS else None

    def _lose(self, count: int) -> None:
        assert self.next is not None
        self.missed += count
        some = min(count, MOST_LACKING)
        self._lacking |= {(self.next + count - one) % WRAP: None for one in range(some, 0, -1)}
        forgotten = list(islice(self._lacking, max(0, len(self._lacking) - MOST_LACKING)))
        for number in forgotten:
            del self._lacking[number]
        if count > some or any(self._matters(number) for number in forgotten):
            self._settled_at = None

    def _matters(self, number: int) -> bool:
        return self._settled_at is None or (number - self._settled_at) % WRAP < WRAP // 2
