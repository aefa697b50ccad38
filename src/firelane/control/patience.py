"""When to act on changes that come in bursts: once it is quiet, but soon all the same, and not too often."""

from __future__ import annotations

import math

QUIET_S = 0.2
LATEST_S = 1.0
REST = 10  # times as long as acting took
MINUTE_S = 60.0


class Patience:
    """Told of changes, it says when to act on them. Times are in seconds of any clock.

    The budget is what may be acted on in a minute: so often in a row, then as it comes in again bit by bit.
    """

    def __init__(self, min_interval_s: float, budget: int = 20) -> None:
        self._min_interval_s = self._rest_s = min_interval_s
        self._first = self._last = math.inf
        self._acted = -math.inf
        self._budget = budget
        self._left, self._left_at = float(budget), 0.0  # of the budget, and when

    @property
    def waiting(self) -> bool:
        """Whether there is a change that was not acted on."""
        return self._first < math.inf

    @property
    def due_at(self) -> float:
        """When to act: after a time of quiet, or some time after the first change; infinite if nothing changed."""
        wanted = min(self._last + QUIET_S, self._first + LATEST_S)
        affordable = self._left_at + max(0.0, 1 - self._left) * MINUTE_S / self._budget
        return max(wanted, self._acted + self._rest_s, affordable)

    def allow(self, budget: int) -> None:
        """From now on act so often in a minute."""
        self._left = min(self._left * budget / self._budget, budget)
        self._budget = budget

    def changed(self, now: float) -> None:
        """Something has changed."""
        self._first = min(self._first, now)
        self._last = now

    def acted(self, now: float) -> None:
        """All changes so far are being acted on."""
        earned = (now - self._left_at) * self._budget / MINUTE_S
        self._left, self._left_at = max(0.0, min(self._budget, self._left + earned) - 1), now
        self._first = self._last = math.inf
        self._acted = now
        self._rest_s = self._min_interval_s

    def done(self, now: float) -> None:
        """That is done; what took long is not done again soon."""
        self._rest_s = max(self._min_interval_s, REST * (now - self._acted))
