"""What was published lately: the rate and the sizes of each topic, for whoever plans."""

from __future__ import annotations

import math

from firelane.exchange.observed import SeenTopic

MOST_TOPICS = 50_000
MOST_BYTES = 25_000_000  # of names, near enough
SEEN_BYTES = 600
LEAST_LOOK_S = 0.5
MEMORY_S = 10.0  # how long what happened counts
SAMPLED = 15  # of a topic one message in sixteen tells how sizes vary
LEAST_HZ = 1e-3  # less is silence
SURE_SQUARED = 4**2  # standard deviations from which on a look is a surprise,
LEAST_CHANGE = 0.2  # if it is as far off as this, relative to the mean


class Level:
    """A mean that forgets slowly while all is as it was, and at once when two looks in a row agree that it is not.

    How far looks usually are from the mean is remembered too, so that what comes in bursts is not taken for a change.
    """

    __slots__ = ("_before", "_looks", "_spread", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self._looks = 0
        self._spread = 0.0  # mean square of how far looks were off, beyond chance
        self._before: float | None = None  # what the last look saw, if that was a surprise

    def look(self, seen: float, noise: float, weight: float) -> bool:
        """Blend in what was seen, which chance alone moves by so much (a variance); says whether it was a change.

        The first looks are averaged, then older ones fade.
        """
        self._looks = looks = self._looks + 1
        if weight * looks < 1:
            weight = 1 / looks
        off, before = seen - self.value, self._before
        square = off * off
        surprise = square > SURE_SQUARED * (noise + self._spread) and abs(off) > LEAST_CHANGE * self.value
        if before is not None:
            if surprise and off * (before - self.value) > 0:
                self.value, self._looks, self._spread, self._before = (seen + before) / 2, 2, 0.0, None
                return True
            self._widen((before - self.value) ** 2 - noise, weight)
            self._before = None
        if surprise and looks > 1:
            self._before = seen
        elif square > noise or self._spread:
            self._widen(square - noise, weight)
        self.value += weight * off
        return False

    def _widen(self, beyond: float, weight: float) -> None:
        self._spread = max(0.0, self._spread + weight * (beyond - self._spread))


class Seen:
    """Running totals of one topic, and how fast they grow."""

    __slots__ = (
        "_looked_at",
        "_looks",
        "_mean_square",
        "_rate",
        "_size",
        "_squares",
        "bytes",
        "latest_hz",
        "name",
        "published",
        "sampled",
        "squares",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.published = 0
        self.bytes = 0
        self.sampled = 0
        self.squares = 0
        self.latest_hz = 0.0  # between the last two looks
        self._rate, self._size = Level(), Level()
        self._mean_square = 0.0
        self._looks = 0
        self._looked_at = (0, 0)  # messages and bytes by then
        self._squares = (0, 0)  # sampled messages and their squares by then

    def count(self, payload_bytes: int) -> None:
        """One more message."""
        if not self.published & SAMPLED:
            self.sampled += 1
            self.squares += payload_bytes * payload_bytes
        self.published += 1
        self.bytes += payload_bytes

    def look(self, elapsed_s: float, weight: float) -> None:
        """Blend in what came since the last look; the very first saw only part of its time, and the second decides."""
        self._looks += 1
        published, size_bytes = self.published - self._looked_at[0], self.bytes - self._looked_at[1]
        self._looked_at = (self.published, self.bytes)
        if self._looks == 2:
            self._rate = Level()
        rate, size = self._rate, self._size
        most_hz = rate.value if rate.value * elapsed_s > 1 else 1 / elapsed_s
        self.latest_hz = published / elapsed_s
        rate.look(self.latest_hz, most_hz / elapsed_s, weight)
        sampled = self.sampled - self._squares[0]
        if sampled:
            mean_square = (self.squares - self._squares[1]) / sampled
            self._squares = (self.sampled, self.squares)
            self._mean_square += (weight if self._mean_square else 1.0) * (mean_square - self._mean_square)
        changes = published and size_bytes != size.value * published
        if changes and size.look(size_bytes / published, self.variance_bytes2 / published, weight):
            self._mean_square = mean_square if sampled else size.value**2

    @property
    def rate_hz(self) -> float:
        """How many messages a second there were lately."""
        return self._rate.value

    @property
    def mean_bytes(self) -> float:
        """How large their payloads were."""
        return self._size.value

    @property
    def silent(self) -> bool:
        """Whether it was looked at and nothing came for long."""
        return self._looks > 1 and self.rate_hz <= LEAST_HZ

    @property
    def variance_bytes2(self) -> float:
        """How much sizes vary."""
        return max(0.0, self._mean_square - self.mean_bytes**2)


class Traffic:
    """All topics published to lately; beyond the most, new ones are not seen until others have fallen silent."""

    def __init__(self) -> None:
        self._seen: dict[bytes, Seen] = {}
        self._bytes = 0
        self._looked_at: float | None = None

    def of(self, topic: bytes, name: str) -> Seen:
        """The totals of a topic."""
        seen = self._seen.get(topic)
        if seen is None:
            seen = Seen(name)
            size_bytes = 2 * len(topic) + SEEN_BYTES
            if len(self._seen) < MOST_TOPICS and self._bytes + size_bytes <= MOST_BYTES:
                self._seen[topic] = seen
                self._bytes += size_bytes
        return seen

    def take_silent(self) -> list[bytes]:
        """Forget topics on which nothing is said any more, once there are many; returns them."""
        if len(self._seen) <= MOST_TOPICS // 2 and self._bytes <= MOST_BYTES // 2:
            return []
        silent = [topic for topic, one in self._seen.items() if one.silent]
        for topic in silent:
            del self._seen[topic]
            self._bytes -= 2 * len(topic) + SEEN_BYTES
        return silent

    def topics(self, now: float) -> tuple[SeenTopic, ...]:
        """Rates and sizes as of now, over the last while."""
        before = self._looked_at
        if before is None:
            self._looked_at = now
        elif now - before >= LEAST_LOOK_S:
            self._looked_at, elapsed_s = now, now - before
            weight = 1 - math.exp(-elapsed_s / MEMORY_S)
            for seen in self._seen.values():
                seen.look(elapsed_s, weight)
        return tuple(
            SeenTopic(
                name=one.name,
                rate_hz=one.rate_hz,
                mean_bytes=one.mean_bytes,
                variance_bytes2=one.variance_bytes2,
                latest_hz=one.latest_hz,
            )
            for one in self._seen.values()
            if one.rate_hz > LEAST_HZ
        )
