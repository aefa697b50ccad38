"""Which routers an edge cannot reach though they live, so that others take another way to it.

A line that comes and goes is no news: a router counts as unreached when it has been so for long, and as reached when
it has been that for as long. What is tried again meanwhile goes through all routers in turn.
"""

from __future__ import annotations

from collections.abc import Mapping

LONG_S = 10.0  # more than a session of the registry lasts, so a router that has died is not among them


class Reach:
    """Of one edge."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[bool, float]] = {}  # whether each is connected, and since when
        self.unreached: frozenset[str] = frozenset()

    def look(self, connected: Mapping[str, bool], now: float) -> bool:
        """See which of the routers that live are connected; returns whether that is news for others."""
        self._since = {
            name: known if (known := self._since.get(name, (not there, now)))[0] == there else (there, now)
            for name, there in connected.items()
        }
        before = self.unreached
        self.unreached = frozenset(
            name
            for name, (there, since) in self._since.items()
            if (name in before if now < since + LONG_S else not there)
        )
        return self.unreached != before
