"""When to act on changes that come in bursts: once it is quiet, but soon all the same, and not too often."""

from __future__ import annotations

import math

QUIET_S = 0.2
LATEST_S = 1.0
REST = 10  # times as long as acting took


class Patience:
    """Told of changes, it says when to act on them. Times are in seconds of any clock."""

    def __init__(self, min_interval_s: float) -> None:
        self._min_interval_s = self._rest_s = min_interval_s
        self._first = self._last = math.inf
        self._acted = -math.inf

    @property
    def waiting(self) -> bool:
        """Whether there is a change that was not acted on."""
        return self._first < math.inf

    @property
    def due_at(self) -> float:
        """When to act: after a time of quiet, or some time after the first change; infinite if nothing changed."""
        wanted = min(self._last + QUIET_S, self._first + LATEST_S)
        return max(wanted, self._acted + self._rest_s)

    def changed(self, now: float) -> None:
        """Something has changed."""
        self._first = min(self._first, now)
        self._last = now

    def acted(self, now: float) -> None:
        """All changes so far are being acted on."""
        self._first = self._last = math.inf
        self._acted = now
        self._rest_s = self._min_interval_s

    def done(self, now: float) -> None:
        """That is done; what took long is not done again soon."""
        self._rest_s = max(self._min_interval_s, REST * (now - self._acted))
