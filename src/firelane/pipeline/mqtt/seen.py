"""Which records are in the log already, by producer and number, so that what a broker sends again is not counted again.

A `record_id` is a producer and a running number: `1f0c...-000000000042`. Numbers come nearly in order, so a few ranges
say it all. Both producers and ranges are bounded. Of too many ranges the two lowest become one, and a number in between
that comes later still is taken for one that was there. Of too many producers the one silent for longest is forgotten.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from typing import Any

MOST_PRODUCERS = 100
MOST_RANGES = 100

_IDENTITY = re.compile(rb'"record_id"\s*:\s*"([0-9a-f]{1,32})-([0-9]{1,18})"')


class Seen:
    """The numbers of every producer, as ranges from first to last."""

    def __init__(self) -> None:
        self._producers: OrderedDict[bytes, Ranges] = OrderedDict()

    def again(self, payload: bytes) -> bool:
        """Whether all records in a payload have been seen before; from now on they have been.

        What has no record_id is never taken for seen.
        """
        found = _IDENTITY.findall(payload)
        new = [self._add(producer, int(number)) for producer, number in found]
        return bool(found) and not any(new)

    def _add(self, producer: bytes, number: int) -> bool:
        ranges = self._producers.get(producer)
        if ranges is None:
            ranges = self._producers[producer] = Ranges()
            if len(self._producers) > MOST_PRODUCERS:
                self._producers.popitem(last=False)
        else:
            self._producers.move_to_end(producer)
        return ranges.add(number)

    def to_data(self) -> dict[str, list[list[int]]]:
        """All of it as plain data."""
        return {producer.decode(): ranges.to_data() for producer, ranges in self._producers.items()}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Seen:
        """The same again."""
        seen = cls()
        for producer, ranges in data.items():
            seen._producers[producer.encode()] = Ranges(ranges)
        return seen


class Ranges:
    """Whole numbers that were added, as few ranges as possible."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: list[list[int]] | None = None) -> None:
        self._firsts = [first for first, _ in ranges or []]
        self._lasts = [last for _, last in ranges or []]

    def add(self, number: int) -> bool:
        """Add a number; whether it was not there."""
        firsts, lasts = self._firsts, self._lasts
        at = bisect_right(firsts, number)  # of the first range that begins behind it
        if at and number <= lasts[at - 1]:
            return False
        follows, precedes = at > 0 and lasts[at - 1] == number - 1, at < len(firsts) and firsts[at] == number + 1
        if follows and precedes:
            lasts[at - 1] = lasts.pop(at)
            del firsts[at]
        elif follows:
            lasts[at - 1] = number
        elif precedes:
            firsts[at] = number
        else:
            firsts.insert(at, number)
            lasts.insert(at, number)
            self._bound()
        return True

    def to_data(self) -> list[list[int]]:
        """The ranges, lowest first."""
        return [list(one) for one in zip(self._firsts, self._lasts, strict=True)]

    def _bound(self) -> None:
        if len(self._firsts) > MOST_RANGES:
            del self._firsts[1]
            del self._lasts[0]
