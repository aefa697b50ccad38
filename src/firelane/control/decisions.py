"""Every decision of the live loop, so that a person can ask why: what led to it, what was foreseen, what came of it."""

from __future__ import annotations

import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

from firelane.control.cause import KINDS, Kind
from firelane.control.effect import Effect

Verdict = Literal["pending", "kept", "unchanged", "rolled back", "replaced", "failed"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
MOST_KEPT = 1000
MOST_WHY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One decision. `predicted_before` is what the plan before would do under the new conditions.

    Pending: applied, and not measured long enough yet. Kept: measured, and no worse than the plan before would be.
    Unchanged: no plan is notably better than the one in force. Replaced: by another before it could be judged.
    """

    id: str
    time: datetime
    kind: Kind
    cause: str
    phase: str | None
    subscriptions: int
    topics: int
    rate_hz: float
    bandwidths_bps: dict[str, float]
    version_before: int
    version: int
    predicted: Effect | None = None
    predicted_before: Effect | None = None
    measured: Effect | None = None
    model_error: float | None = None
    verdict: Verdict = "pending"
    seconds: float = 0.0
    why: tuple[str, ...] = ()


class Decisions:
    """The last decisions in memory; `keep` is given each when it is made and again when it is judged."""

    def __init__(self, keep: Callable[[Entry], None] = lambda entry: None) -> None:
        self.by_kind: Counter[Kind] = Counter(dict.fromkeys(KINDS, 0))
        self.by_verdict: Counter[Verdict] = Counter({one: 0 for one in VERDICTS if one != "pending"})
        self._keep = keep
        self._entries: deque[Entry] = deque(maxlen=MOST_KEPT)
        self._run = secrets.token_hex(4)
        self._count = 0

    def new_id(self) -> str:
        """One that was never used."""
        self._count += 1
        return f"{self._run}-{self._count:06d}"

    def add(self, entry: Entry) -> None:
        """A decision was made."""
        self._entries.append(entry)
        self.by_kind[entry.kind] += 1
        self._note(entry)

    def judge(self, entry_id: str, verdict: Verdict, **found: Any) -> None:
        """It is known what came of it."""
        for place in range(len(self._entries) - 1, -1, -1):
            if self._entries[place].id == entry_id:
                entry = self._entries[place] = replace(self._entries[place], verdict=verdict, **found)
                self._note(entry)
                return

    def newest_first(self, kind: Kind | None = None, since: datetime | None = None) -> Iterator[Entry]:
        """All that are kept, of one kind or all, from a time on."""
        for entry in reversed(tuple(self._entries)):
            if kind in (None, entry.kind) and (since is None or entry.time >= since):
                yield entry

    def _note(self, entry: Entry) -> None:
        if entry.verdict != "pending":
            self.by_verdict[entry.verdict] += 1
        self._keep(entry)
