"""Whole fan-outs that passed an idle link at once: noted once for all copies, and counted on their lanes later."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from firelane.exchange.lanes.lane import Lane

if TYPE_CHECKING:
    from firelane.exchange.delivering.routes import Copy
    from firelane.exchange.lanes.link import Link


class Passing:
    """The publications of one route that went out to all of its copies at once."""

    __slots__ = ("_copies", "bytes", "first_s", "link", "service_s", "start")

    def __init__(self, link: Link, copies: tuple[Copy, ...]) -> None:
        self.link = link
        self._copies = copies
        self.bytes = 0
        self.start = array("I")  # which copy was the first
        self.first_s = array("d")  # how long that had to wait before it started
        self.service_s = array("d")

    def fold(self) -> Iterator[tuple[Lane, array[float]]]:
        """Count what was noted on the lanes; yields the delays of each, and forgets them."""
        start, first_s, service_s = (np.array(one) for one in (self.start, self.first_s, self.service_s))
        publications, copies = len(start), len(self._copies)
        place = (np.arange(copies)[:, None] - start.astype(np.int64)) % copies
        delays_s = first_s + (place + 1) * service_s
        for copy, its_s in zip(self._copies, delays_s, strict=True):
            lane = copy.lane
            lane.due += publications
            lane.done += publications
            lane.bytes += self.bytes
            yield lane, array("d", its_s.tobytes())
        self.bytes = 0
        self.start, self.first_s, self.service_s = array("I"), array("d"), array("d")
