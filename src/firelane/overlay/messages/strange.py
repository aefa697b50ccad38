"""What comes to an edge and cannot be used: counted by kind, of which there are few, with the last one of each."""

from __future__ import annotations

from collections import Counter

from firelane.errors import FirelaneError

LONGEST_TEXT = 80


class StrangeError(FirelaneError):
    """What came cannot be used. Its `kind` is the same text for all that are alike; the message may quote this one."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(message or kind)
        self.kind = kind


class Strange:
    """Of one edge. Whatever others write, there are no more of these than there are kinds."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.last: dict[str, str] = {}  # where that says more than the kind

    def came(self, kind: str, text: str = "") -> bool:
        """One more; returns whether it is the first of its kind."""
        self.counts[kind] += 1
        if text and text != kind:
            self.last[kind] = text[:LONGEST_TEXT]
        return self.counts[kind] == 1

    def refused(self, problem: StrangeError) -> None:
        """One more, as whoever read it says."""
        self.came(problem.kind, str(problem))
