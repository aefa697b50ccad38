"""What a publisher's load is: of its processor, of a rated number of messages, or of a link.

Each measure is asked for the load since it was asked last; NaN if no time has passed. The processor's share cannot
pass what there is, the other two can: they measure what was asked for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from firelane.errors import FirelaneError


class Load(Protocol):
    """Something whose load can be measured."""

    def measure(self, now_s: float) -> float:
        """The load since the last measurement, 1 at the rated limit."""
        ...


class ProcessorLoad:
    """The share of one core that this process used, all its threads together, in user and kernel mode.

    Under a quota, `cores` is what the process may use of a core, such as 0.25.
    """

    def __init__(self, *, now_s: float, cores: float = 1.0, used_s: Callable[[], float] = time.process_time) -> None:
        _check_rated("cores", cores)
        self.cores = cores
        self._used_s = used_s
        self._last_s = now_s
        self._last_used_s = used_s()

    def measure(self, now_s: float) -> float:
        """Processor time over time."""
        used_s = self._used_s()
        passed_s, spent_s = now_s - self._last_s, used_s - self._last_used_s
        self._last_s, self._last_used_s = now_s, used_s
        return spent_s / passed_s / self.cores if passed_s > 0 else math.nan


class CountedLoad:
    """Something counted, a second, relative to a rated number."""

    def __init__(self, *, now_s: float, rated_hz: float) -> None:
        _check_rated("the rated number", rated_hz)
        self.rated_hz = rated_hz
        self._count = 0
        self._last_s = now_s

    def count(self, number: int = 1) -> None:
        """So many more."""
        self._count += number

    def measure(self, now_s: float) -> float:
        """The rate since the last measurement over the rated one."""
        passed_s, counted = now_s - self._last_s, self._count
        self._last_s, self._count = now_s, 0
        return counted / passed_s / self.rated_hz if passed_s > 0 else math.nan


class MessageLoad(CountedLoad):
    """Messages (or updates) a second relative to what the publisher is rated for."""


class LinkLoad(CountedLoad):
    """Bytes on a link relative to its bandwidth; count what the wire carries, headers included."""

    def __init__(self, *, now_s: float, link_bps: float) -> None:
        _check_rated("a bandwidth", link_bps)
        super().__init__(now_s=now_s, rated_hz=link_bps / 8)


def _check_rated(what: str, rated: float) -> None:
    if not 0 < rated < math.inf:
        raise FirelaneError(f"{what} must be a number above 0; it is {rated:g}")
