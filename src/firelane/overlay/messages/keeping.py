"""What an edge has published and others may not have yet: who lacks what, and which of them answer.

An edge that is away holds up nobody, nor does one that is there by the registry and acknowledges nothing of what it is
sent, as routers refuse it: what only such edges lack is found, the oldest first, whatever others lack. No clock and no
I/O.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import chain
from math import inf

from firelane.overlay.interest import Interest
from firelane.overlay.messages.actions import Copy

EXPIRY = "message_expiry_interval"
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 10.0
DOUBLINGS = 4  # from the first to beyond the longest
LONGEST_LOOK_S = 1.0  # from one look at who answers to the next: more is a pause of this edge itself
LONGEST_SILENCE_S = 30.0  # of an edge that is there and lacks something: from then on it counts as away


@dataclass(slots=True)
class Kept:
    """A message that somebody may not have yet."""

    copy: Copy
    after: int
    lacking: int  # how many edges lack it
    size_bytes: int
    since: float
    retry_at: float
    attempts: int = 0  # to send it again, when nobody had asked for it

    def left(self, now: float) -> Copy | None:
        """The message with what is left of its time, as MQTT says; None if that is over."""
        expiry_s = self.copy.properties.get(EXPIRY)
        if expiry_s is None:
            return self.copy
        left_s = expiry_s - int(now - self.since)
        return replace(self.copy, properties={**self.copy.properties, EXPIRY: left_s}) if left_s > 0 else None

    def rest(self, now: float) -> None:
        """Not to be sent again for a while, which is longer after each attempt."""
        self.retry_at = now + min(FIRST_RETRY_S * 2 ** min(self.attempts, DOUBLINGS), LONGEST_RETRY_S)


class Keeping:
    """Of one edge."""

    def __init__(self, interest: Interest) -> None:
        self._interest = interest
        self.messages: dict[int, Kept] = {}  # by number
        self.kept_bytes = 0
        self._lacked: defaultdict[str, dict[int, Kept]] = defaultdict(dict)  # by edge, each the oldest first
        self._silent_s: dict[str, float] = {}  # of edges that are there and lack something
        self._looked_at = -inf
        self._away: set[str] = set()  # or silent for too long
        self._forgettable: list[int] | None = None  # a heap of what only those lack, and a few more; None: not known

    @property
    def edges(self) -> Iterable[str]:
        """Those that lack something."""
        return [edge for edge, lacked in self._lacked.items() if lacked]

    def lacked(self, edge: str) -> dict[int, Kept]:
        """What an edge lacks, by number, the oldest first."""
        return self._lacked.get(edge, _NOTHING)

    def keep(self, kept: Kept, edges: Iterable[str]) -> None:
        """These edges lack a new message."""
        number = kept.copy.number
        self.messages[number] = kept
        self.kept_bytes += kept.size_bytes
        for edge in edges:
            self._lacked[edge][number] = kept
        if self._forgettable is not None:
            self._perhaps_forgettable(kept)

    def came(self, edge: str, numbers: Iterable[int]) -> list[Kept]:
        """An edge has these messages; returns those that nobody lacks any more."""
        before = len(self.lacked(edge))
        over = self.settle(edge, numbers)
        if len(self.lacked(edge)) < before:
            self._silent_s.pop(edge, None)
            if edge in self._away and self._interest.is_here(edge):
                self._away.discard(edge)
        return over

    def settle(self, edge: str, numbers: Iterable[int]) -> list[Kept]:
        """An edge is not owed these messages any more; returns those that nobody lacks now."""
        over: list[Kept] = []
        lacked = self._lacked.get(edge)
        if not lacked:
            return over
        for number in numbers:
            kept = lacked.pop(number, None)
            if kept is None:
                continue
            kept.lacking -= 1
            if not kept.lacking:
                del self.messages[number]
                self.kept_bytes -= kept.size_bytes
                over.append(kept)
            elif self._forgettable is not None:
                self._perhaps_forgettable(kept)
        return over

    def drop(self, kept: Kept) -> None:
        """Whoever lacks a message does not get it."""
        number = kept.copy.number
        del self.messages[number]
        self.kept_bytes -= kept.size_bytes
        for lacked in self._lacked.values():
            lacked.pop(number, None)

    # ---- who holds up nobody

    def look(self, *, sending: bool, full: bool, now: float) -> None:
        """See who is away and who does not answer; without a path to send by (`sending`) nobody can, and what this edge
        has slept through itself says nothing of others."""
        passed_s, self._looked_at = min(now - self._looked_at, LONGEST_LOOK_S), now
        away = {name for name, edge in self._interest.edges.items() if not edge.here}
        for edge, lacked in list(self._lacked.items()):
            if not lacked:
                del self._lacked[edge]
            if not (lacked and sending and self._interest.is_here(edge)):
                self._silent_s.pop(edge, None)
            else:
                silent_s = self._silent_s[edge] = self._silent_s.get(edge, -passed_s) + passed_s
                if silent_s >= LONGEST_SILENCE_S:
                    away.add(edge)
        if away != self._away or not full:
            self._away, self._forgettable = away, None

    def oldest_of_those_away(self) -> Kept | None:
        """The oldest message that only edges lack that are away or do not answer, to be dropped."""
        if self._forgettable is None:
            lacking = Counter(chain.from_iterable(self.lacked(edge) for edge in self._away))
            self._forgettable = sorted(one for one, count in lacking.items() if count == self.messages[one].lacking)
        while self._forgettable:
            kept = self.messages.get(heappop(self._forgettable))
            if kept is not None and self._only_away_lack(kept):
                return kept
        return None

    def _perhaps_forgettable(self, kept: Kept) -> None:
        if self._forgettable is not None and self._only_away_lack(kept):
            heappush(self._forgettable, kept.copy.number)

    def _only_away_lack(self, kept: Kept) -> bool:
        if kept.lacking > len(self._away):
            return False
        return sum(kept.copy.number in self.lacked(edge) for edge in self._away) == kept.lacking


_NOTHING: dict[int, Kept] = {}
