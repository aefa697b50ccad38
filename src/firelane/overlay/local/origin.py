"""Which part of a topic's messages is published here, and not at other sites: only that is told to the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

FADES = 0.9  # what is left of older messages after a second
LEAST = 0.01  # messages; fewer are none


class Origins:
    """Counts by topic, that fade."""

    def __init__(self) -> None:
        self._elsewhere: Counter[str] = Counter()  # since the last look
        self._totals: dict[str, int] = {}
        self._looked_at = 0.0
        self._counts: dict[str, tuple[float, float]] = {}  # published here, and anywhere

    def came(self, topic: str) -> None:
        """A message of the topic is from another site."""
        self._elsewhere[topic] += 1

    def local_shares(self, totals: Iterable[tuple[str, int]], now: float) -> dict[str, float]:
        """The share of each topic that is published here, from how many messages it has had altogether."""
        counts: dict[str, tuple[float, float]] = {}
        before, self._totals = self._totals, dict(totals)
        left, self._looked_at = FADES ** (now - self._looked_at), now
        for topic, total in self._totals.items():
            new = total - before.get(topic, 0) if total >= before.get(topic, 0) else total  # forgotten meanwhile
            here, anywhere = self._counts.get(topic, (0.0, 0.0))
            own = max(0, new - self._elsewhere[topic])
            counts[topic] = left * here + own, left * anywhere + new
        self._elsewhere.clear()
        self._counts = {topic: pair for topic, pair in counts.items() if pair[1] > LEAST}
        return {topic: here / anywhere for topic, (here, anywhere) in self._counts.items() if here > LEAST}
