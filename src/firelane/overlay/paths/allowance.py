"""How often messages may be sent directly: so many a second altogether, and beyond that not the topics that send most.

A topic goes directly or it does not, until it sends less. Every other message of it would overtake those in between,
which go through a router, and of QoS 0 those would be lost. No clock, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

WINDOW_S = 1.0  # over which rates are seen
SPARE = 0.8  # a topic is let in again only if no more than this share of the rate is used then
MOST_TOPICS = 1000  # that are remembered; further ones are not sent directly


@dataclass(slots=True)
class _Topic:
    recent: float = 0.0  # messages, each the less the longer ago it was
    at: float = 0.0
    out: bool = False

    def at_last(self, now: float) -> float:
        """What is left of it now."""
        self.recent *= exp((self.at - now) / WINDOW_S)
        self.at = now
        return self.recent


class Allowance:
    """Of one edge, for all that it sends directly."""

    def __init__(self, rate_hz: float) -> None:
        self._most = max(1.0, rate_hz * WINDOW_S) if rate_hz else 0.0
        self._topics: dict[str, _Topic] = {}
        self._used = _Topic()  # all that may be sent together

    def __len__(self) -> int:
        """How many topics are remembered."""
        return len(self._topics)

    @property
    def left_out(self) -> list[str]:
        """Topics that send too much."""
        return [name for name, one in self._topics.items() if one.out]

    def allows(self, name: str, now: float) -> bool:
        """Count a message of a topic, and say whether it may be sent directly."""
        topic = self._topics.get(name) or self._new(name, now)
        if topic is None:
            return False
        before, used = topic.at_last(now), self._used.at_last(now)
        if topic.out and used + before <= SPARE * self._most:
            topic.out = False
            self._used.recent += before
        topic.recent += 1.0
        self._used.recent += not topic.out
        while self._used.recent > self._most:
            largest = max((one for one in self._topics.values() if not one.out), key=lambda one: one.at_last(now))
            largest.out = True
            self._used.recent -= largest.recent
        return not topic.out

    def _new(self, name: str, now: float) -> _Topic | None:
        self._make_room(now)
        if len(self._topics) >= MOST_TOPICS:
            return None
        topic = self._topics[name] = _Topic(at=now)
        return topic

    def _make_room(self, now: float) -> None:
        """Forget topics that have sent next to nothing for long."""
        if len(self._topics) >= MOST_TOPICS:
            silent = [name for name, one in self._topics.items() if one.at_last(now) < 1 / MOST_TOPICS]
            for name in silent:
                del self._topics[name]
