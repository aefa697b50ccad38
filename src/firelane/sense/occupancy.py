"""A subscriber that says in advance what load of its publisher it can take, so that its buffer does not overflow.

By Little's law the buffer holds L = lambda W messages. Eq. 9 takes W for given and asks for lambda L*/L, with L* the
number wanted. But W follows from lambda: for an M/M/1 queue the step is then rho' = L* (1 - rho), which converges only
for L* below 1 and otherwise jumps between idle and overload. With X messages processed a second, X + 1/W is what the
subscriber can process: exactly for M/M/1, and nearly so when it is overloaded. Of that, L*/(1 + L*) is asked for. A
step changes nothing if and only if lambda W = L*, as in Eq. 8 and 9, whatever the distributions are.

Implements: rdds, section III-C4, Eq. 8-9 and the right loop of Fig. 4.
Differs:    the step is the one above. Messages that found the buffer full count as arrived, but not as processed.
Symbols:    lambda -> arrived, W -> delay_s, b_max, b_occ -> buffer, occupancy, U_ref -> load.
Checked by: tests/sense/test_occupancy.py
"""

from __future__ import annotations

import math

from firelane.errors import FirelaneError

WINDOW_S = 120.0  # Table I
FLOOR = 0.05
LEAST_ARRIVED = 20  # in a window; fewer say nothing about the mean


class OccupancyPredictor:
    """Eq. 8-9: from what arrived and how long it took, the load to ask of the publisher, every window."""

    def __init__(
        self,
        *,
        buffer: int,
        now_s: float,
        occupancy: float = 0.5,
        most: float = 0.7,
        floor: float = FLOOR,
        window_s: float = WINDOW_S,
    ) -> None:
        if not (buffer >= 1 and 0 < occupancy <= 1 and 0 < floor <= most <= 1 and 0 < window_s < math.inf):
            raise FirelaneError(
                "an occupancy is predicted for a buffer of 1 or more, an occupancy above 0 up to 1, loads with "
                f"0 < floor <= most <= 1 and a window above 0 s; these are {buffer}, {occupancy:g}, {floor:g}, "
                f"{most:g}, {window_s:g}"
            )
        self.wanted = buffer * occupancy
        self.most, self.floor, self.window_s = most, floor, window_s
        self._load = most
        self._since_s = now_s
        self._arrived = self._processed = 0
        self._delays_s = 0.0

    @property
    def load(self) -> float:
        """U_ref,k: the load that this subscriber asks for."""
        return self._load

    def arrived(self, number: int = 1) -> None:
        """So many messages came, whether there was room for them or not."""
        self._arrived += number

    def processed(self, delay_s: float, number: int = 1) -> None:
        """So many messages are done, each this long after it came; what is no duration is left out."""
        if 0 <= delay_s < math.inf:
            self._processed += number
            self._delays_s += delay_s * number

    def due(self, now_s: float) -> bool:
        """Whether the window has ended, or the clock was set back."""
        return not 0 <= now_s - self._since_s < self.window_s

    def predict(self, now_s: float, *, in_force: float | None = None) -> float:
        """The load to ask for from now on; `in_force` is what the publisher keeps, if it is known to be another.

        Before the end of the window, and if it saw too little, the load stays.
        """
        if not self.due(now_s):
            return self._load
        passed_s = now_s - self._since_s
        arrived, processed, delays_s = self._arrived, self._processed, self._delays_s
        self._since_s, self._arrived, self._processed, self._delays_s = now_s, 0, 0, 0.0
        if passed_s > 0 and arrived >= LEAST_ARRIVED and delays_s > 0:
            can_hz = processed / passed_s + processed / delays_s  # X + 1/W
            wanted_hz = can_hz * self.wanted / (1 + self.wanted)
            now = self._load if in_force is None or not 0 < in_force <= 1 else in_force
            asked = now * wanted_hz * passed_s / arrived
            self._load = min(max(asked, self.floor), self.most)
        return self._load
