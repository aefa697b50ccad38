"""A plan in its first seconds: measured until there is enough to judge it by."""

from __future__ import annotations

from dataclasses import dataclass

from firelane.exchange.measuring.measuring import Reading
from firelane.exchange.measuring.observed import SeenSubscription
from firelane.scenario.plan import Plan

LEAST_S = 3.0
MOST_S = 15.0
WARMING_S = 1.0  # in which queues still are what the plan before made of them
ENOUGH = 500  # messages


@dataclass(slots=True, kw_only=True)
class Trial:
    """Of one decision: the plan, the one before, and the subscriptions that the one before was made for."""

    entry_id: str
    plan: Plan
    before: Plan | None
    before_for: tuple[SeenSubscription, ...]
    since: float
    may_roll_back: bool
    first: Reading | None = None
    window: Reading | None = None

    def look(self, reading: Reading, now: float) -> bool:
        """Take a reading; whether there is enough by now."""
        age_s = now - self.since
        if reading.version != self.plan.version or age_s < WARMING_S:
            return False
        if self.first is None:
            self.first = reading
        self.window = reading.since(self.first) if self.first is not reading else None
        enough = self.window is not None and int(self.window.settled.sum()) >= ENOUGH
        return age_s >= MOST_S or (age_s >= LEAST_S and enough)
