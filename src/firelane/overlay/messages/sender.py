"""Another edge whose messages come: under which boot it numbers them, and what it is to be told.

A boot is a random number, so which of two is the later can only be seen: it is the one that was heard of later. If that
was a mistake, the other goes on to speak.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SILENT_S = 30.0  # after which a former boot that speaks is no late copy
MOST_FORMER = 8


@dataclass(slots=True)
class Sender:
    """What an edge knows of one that sends to it."""

    boot: int
    heard_at: float  # of this boot
    router: str | None = None  # by which its last message came
    unsafe: set[int] = field(default_factory=set)  # numbers of this boot: delivered, and not yet in the log here
    safe: list[int] = field(default_factory=list)  # and not yet acknowledged
    former: list[int] = field(default_factory=list)  # boots, the latest last

    def has_turned(self, boot: int, now: float) -> bool:
        """Whether a message of another boot says that it has begun anew, rather than that the message is late."""
        return boot not in self.former or now >= self.heard_at + SILENT_S

    def turn(self, boot: int, now: float) -> None:
        """It numbers anew. What was to be acknowledged to it is of no use: the same numbers may come to mean others."""
        self.former = [*(one for one in self.former if one != boot), self.boot][-MOST_FORMER:]
        self.boot, self.heard_at = boot, now
        self.unsafe, self.safe = set(), []

    def is_later(self, boot: int, other: int) -> bool:
        """Whether one boot is known to have followed another."""
        return self._rank(boot) > self._rank(other)

    def _rank(self, boot: int) -> int:
        boots = [*self.former, self.boot]
        return boots.index(boot) if boot in boots else -1
