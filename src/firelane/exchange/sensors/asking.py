"""How often a client may ask for states of a stream of sensors, and how many it is told."""

from __future__ import annotations

from dataclasses import dataclass

from firelane.exchange.lanes.message import NEVER

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
FEW, FEW_PAUSE_S = 64, 0.25  # states are told again soon


@dataclass(slots=True)
class Asking:
    """How often somebody has asked for states of late: each time the pause grows, and a while of peace ends that.

    A few states may be had several times a second, as where messages get lost that happens all the time.
    """

    pause_s: float = FIRST_PAUSE_S
    next_at: float = -NEVER
    soon_at: float = -NEVER

    def too_soon(self, now: float) -> bool:
        """Whether it is, for however few states."""
        return now < self.soon_at

    def may(self, now: float, states: int) -> int:
        """How many of so many states it may have now, of which it then has asked."""
        if self.too_soon(now):
            return 0
        self.soon_at = now + FEW_PAUSE_S
        if states <= FEW or now < self.next_at:
            return min(states, FEW)
        calm = now > self.next_at + 2 * self.pause_s
        self.pause_s = FIRST_PAUSE_S if calm else min(2 * self.pause_s, LONGEST_PAUSE_S)
        self.next_at = now + self.pause_s
        return states
