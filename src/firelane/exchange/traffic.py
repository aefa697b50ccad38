"""What was published lately: the rate and the sizes of each topic, for whoever plans."""

from __future__ import annotations

import math
from collections import OrderedDict

from firelane.exchange.observed import SeenTopic

MOST_TOPICS = 100_000
LEAST_LOOK_S = 0.5
MEMORY_S = 10.0  # how long what happened counts
SAMPLED = 15  # of a topic one message in sixteen tells how sizes vary
LEAST_HZ = 1e-3  # less is silence


class Seen:
    """Running totals of one topic, and how fast they grow."""

    __slots__ = ("_before", "_squares_before", "bytes", "mean_bytes", "name", "published", "rate_hz", "sampled",
                 "squares", "variance_bytes2")  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.published = 0
        self.bytes = 0
        self.sampled = 0
        self.squares = 0
        self.rate_hz = 0.0
        self.mean_bytes = 0.0
        self.variance_bytes2 = 0.0
        self._before = (0, 0)
        self._squares_before = (0, 0)

    def count(self, payload_bytes: int) -> None:
        """One more message."""
        if not self.published & SAMPLED:
            self.sampled += 1
            self.squares += payload_bytes * payload_bytes
        self.published += 1
        self.bytes += payload_bytes

    def look(self, elapsed_s: float, weight: float) -> None:
        """Blend in what came since the last look."""
        published, size_bytes = self.published - self._before[0], self.bytes - self._before[1]
        self._before = (self.published, self.bytes)
        self.rate_hz += weight * (published / elapsed_s - self.rate_hz)
        if published:
            share = weight if self.mean_bytes else 1.0
            self.mean_bytes += share * (size_bytes / published - self.mean_bytes)
        sampled, squares = self.sampled - self._squares_before[0], self.squares - self._squares_before[1]
        if sampled:
            self._squares_before = (self.sampled, self.squares)
            share = weight if self.variance_bytes2 else 1.0
            spread = max(0.0, squares / sampled - self.mean_bytes**2)
            self.variance_bytes2 += share * (spread - self.variance_bytes2)


class Traffic:
    """All topics published to lately; beyond the most, those are forgotten that were first seen longest ago."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, Seen] = OrderedDict()
        self._looked_at: float | None = None
        self._weight = 0.0

    def of(self, topic: bytes, name: str) -> Seen:
        """The totals of a topic."""
        seen = self._seen.get(topic)
        if seen is None:
            seen = self._seen[topic] = Seen(name)
            if len(self._seen) > MOST_TOPICS:
                self._seen.popitem(last=False)
        return seen

    def topics(self, now: float) -> tuple[SeenTopic, ...]:
        """Rates and sizes as of now, over the last while."""
        before = self._looked_at
        if before is None:
            self._looked_at = now
        elif now - before >= LEAST_LOOK_S:
            self._looked_at, elapsed_s = now, now - before
            # The first looks weigh more, as an average over all that there is; then older ones fade.
            self._weight = 1 / (1 + 1 / self._weight) if self._weight else 1.0
            weight = max(self._weight, 1 - math.exp(-elapsed_s / MEMORY_S))
            for seen in self._seen.values():
                seen.look(elapsed_s, weight)
        return tuple(
            SeenTopic(
                name=one.name,
                rate_hz=one.rate_hz,
                mean_bytes=one.mean_bytes,
                variance_bytes2=one.variance_bytes2,
            )
            for one in self._seen.values()
            if one.rate_hz > LEAST_HZ
        )
