"""The numbers of a stream's messages: by them one knows what never came, and what has been overtaken.

A message that was overtaken says how things were before others that are known, or lost; so it vouches for nothing. One
that repeats states comes under the number of the last message that was made, and says that there is no later one.
"""

from __future__ import annotations

from itertools import islice

from firelane.sense.wire import WRAP, Batch

MOST_OVERTAKEN = 1000  # messages; further back is a new count


class Numbering:
    """What has come of one stream, by numbers."""

    def __init__(self) -> None:
        self.next: int | None = None  # the number of the next message
        self.missed = 0  # messages that never came
        self._lacking: dict[int, None] = {}  # the numbers of the last of them

    def restart(self) -> None:
        """Its publisher has begun anew."""
        self.next = None
        self._lacking.clear()

    def take(self, batch: Batch) -> tuple[bool, bool]:
        """A message has come: whether others before it have not, and whether it was overtaken."""
        number = batch.number
        if self.next is None:
            self.next = (number + 1) % WRAP
            return False, False
        ahead = (number + batch.repeat - self.next) % WRAP  # how many never came
        if ahead >= WRAP - MOST_OVERTAKEN:
            if number in self._lacking and not batch.repeat:
                del self._lacking[number]
                self.missed -= 1
            return False, number != (self.next - 1) % WRAP
        far_back = ahead >= WRAP // 2
        if ahead and not far_back:
            self._lose(ahead)
        self.next = (number + 1) % WRAP
        return ahead > 0, False

    def _lose(self, count: int) -> None:
        assert self.next is not None
        self.missed += count
        some = min(count, MOST_OVERTAKEN)
        self._lacking |= {(self.next + count - one) % WRAP: None for one in range(some, 0, -1)}
        for number in list(islice(self._lacking, max(0, len(self._lacking) - MOST_OVERTAKEN))):
            del self._lacking[number]
