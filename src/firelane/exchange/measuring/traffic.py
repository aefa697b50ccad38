"""What was published lately: the rate and the sizes of each topic, for whoever plans.

Messages are counted one by one. What is known of topics is brought up to date for all together, in arrays, at a look.
"""

from __future__ import annotations

import math
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from firelane.arrays import Flags, Floats
from firelane.exchange.measuring.levels import LEVEL, look
from firelane.exchange.measuring.observed import SeenTopic

MOST_TOPICS = 50_000
MOST_UNSEEN, LONGEST_UNSEEN = 1000, 1000  # topics, and bytes of each
MOST_BYTES = 25_000_000  # of names, near enough
SEEN_BYTES = 400
LEAST_LOOK_S = 0.5
SELDOM_S = 5.0
MEMORY_S = 10.0  # how long what happened counts
LEAST_HZ = 1e-3  # less is silence
UNSETTLED = 0.02  # of all bytes, whose topics may have changed

COUNTED = ("published", "bytes", "squares")
# What the totals were at the last look, how many looks there were, and what is known from them.
KNOWN = np.dtype(
    [(name, np.float64) for name in COUNTED]
    + [("looks", np.int64), ("latest_hz", np.float64), ("mean_square", np.float64), ("rate", LEVEL), ("size", LEVEL)]
)


class Seen:
    """Running totals of one topic."""

    __slots__ = ("bytes", "name", "published", "squares")

    def __init__(self, name: str) -> None:
        self.name = name
        self.published = 0
        self.bytes = 0
        self.squares = 0

    def count(self, payload_bytes: int) -> None:
        """One more message."""
        self.published += 1
        self.bytes += payload_bytes
        self.squares += payload_bytes * payload_bytes


class Traffic:
    """All topics published to lately; beyond the most, new ones are not seen until others have fallen silent."""

    def __init__(self) -> None:
        self._seen: dict[bytes, Seen] = {}
        self._known = np.zeros(0, KNOWN)  # of the same topics in the same order, but for those after the last look
        self._unseen: set[bytes] = set()  # some of those for which there was no room
        self._bytes = 0
        self._looked_at: float | None = None
        self.unsettled = False  # much of it may have changed, which the next look will tell

    def of(self, topic: bytes, name: str) -> Seen:
        """The totals of a topic."""
        seen = self._seen.get(topic)
        if seen is None:
            seen = Seen(name)
            size_bytes = 2 * len(topic) + SEEN_BYTES
            if len(self._seen) < MOST_TOPICS and self._bytes + size_bytes <= MOST_BYTES:
                self._seen[topic] = seen
                self._bytes += size_bytes
            elif len(self._unseen) < MOST_UNSEEN and len(topic) <= LONGEST_UNSEEN:
                self._unseen.add(topic)
        return seen

    def totals(self) -> list[tuple[str, int]]:
        """How many messages each topic has had since it was first seen."""
        return [(seen.name, seen.published) for seen in self._seen.values()]

    def take_silent(self) -> list[bytes]:
        """Forget topics on which nothing is said any more, once there are many.

        Returns them, and with them those that found no room before: whoever asks for their totals anew has them seen.
        """
        if len(self._seen) <= MOST_TOPICS // 2 and self._bytes <= MOST_BYTES // 2:
            return []
        silent = (self._known["looks"] > 1) & ~self._heard
        topics = list(compress(self._seen, silent.tolist()))
        for topic in topics:
            del self._seen[topic]
            self._bytes -= 2 * len(topic) + SEEN_BYTES
        self._known = self._known[~silent]
        if topics:
            topics += self._unseen
            self._unseen.clear()
        return topics

    def topics(self, now: float) -> tuple[SeenTopic, ...]:
        """Rates and sizes as of now, over the last while."""
        return self.known(now, LEAST_LOOK_S)

    def known(self, now: float, within_s: float = SELDOM_S) -> tuple[SeenTopic, ...]:
        """The same for who leaves looking to others, unless nobody has for so long."""
        before = self._looked_at
        if before is None:
            self._looked_at = now
        elif now - before >= within_s:
            self._looked_at = now
            self._look(now - before)
        heard = self._heard
        known = self._known[heard]
        names = (seen.name for seen in compress(self._seen.values(), heard.tolist()))
        columns = (known["rate"]["value"], known["size"]["value"], _variance_bytes2(known), known["latest_hz"])
        return tuple(map(SeenTopic, names, *(column.tolist() for column in columns)))

    @property
    def _heard(self) -> Flags:
        heard: Flags = self._known["rate"]["value"] > LEAST_HZ
        return heard

    def _look(self, elapsed_s: float) -> None:
        """Blend in what came since the last look; the very first saw only part of its time, and the second decides."""
        new = len(self._seen) - len(self._known)
        self._known = known = np.append(self._known, np.zeros(new, KNOWN)) if new else self._known
        came = {}
        for name in COUNTED:
            total = np.fromiter(map(attrgetter(name), self._seen.values()), np.float64, len(known))
            came[name], known[name] = total - known[name], total
        known["looks"] += 1
        known["rate"][known["looks"] == 2] = np.zeros((), LEVEL)
        known["latest_hz"] = came["published"] / elapsed_s
        weight = 1 - math.exp(-elapsed_s / MEMORY_S)
        chance = np.maximum(known["rate"]["value"], 1 / elapsed_s) / elapsed_s
        new_chance = np.maximum(known["latest_hz"], 1 / elapsed_s) / elapsed_s
        look(known["rate"], np.arange(len(known)), known["latest_hz"], chance, weight, new_chance)
        self._look_at_sizes(came, weight)
        load = known["rate"]["value"] * known["size"]["value"]
        doubted = known["rate"]["doubted"] | known["size"]["doubted"]
        self.unsettled = bool(load[doubted].sum() > UNSETTLED * load.sum())

    def _look_at_sizes(self, came: dict[str, Floats], weight: float) -> None:
        known, which = self._known, np.flatnonzero(came["published"])
        count = came["published"][which]
        sizes, squares, before = (
            came["bytes"][which] / count,
            came["squares"][which] / count,
            known["mean_square"][which],
        )
        noise = _variance_bytes2(known[which]) / count  # as it was: what has changed would hide itself
        new_noise = np.maximum(noise, (squares - sizes**2) / count)
        changed = look(known["size"], which, sizes, noise, weight, new_noise)
        mixed = np.where(before, before + weight * (squares - before), squares)
        known["mean_square"][which] = np.where(changed, squares, mixed)


def _variance_bytes2(known: npt.NDArray[Any]) -> Floats:
    variance: Floats = np.maximum(0.0, known["mean_square"] - known["size"]["value"] ** 2)
    return variance
