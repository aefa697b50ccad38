"""What other edges ask an origin for: found without a look at all that it keeps, and not sent to them besides."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping

from firelane.overlay.messages.keeping import Kept
from firelane.overlay.messages.notes import AGAIN_AT_ONCE, Missing

Question = tuple[int, int, float]  # what lies between these numbers is asked for until then
_NONE: Question = 2**63, 0, 0.0


class Questions:
    """Of all other edges, of late."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[str, Question]] = {}  # by edge and topic
        self._numbers: dict[str, tuple[int, list[int]]] = {}  # kept of a topic, in order, up to that message

    def answer(self, what: Missing, kept: Collection[int], last: int, lacked: Mapping[int, Kept]) -> list[Kept]:
        """The first that an edge lacks of those that it asks about, as many as are sent for a question. Of the topic
        these are kept, and the last message was that one."""
        found: list[Kept] = []
        until, numbers = self._numbers.get(what.topic, (0, []))
        if until < min(what.before - 1, last):
            until, numbers = self._numbers[what.topic] = last, sorted(kept)
        for at in range(bisect_right(numbers, what.last), bisect_left(numbers, what.before)):
            one = lacked.get(numbers[at])
            if one is not None:
                found.append(one)
                if len(found) == AGAIN_AT_ONCE:
                    break
        return found

    def asked(self, edge: str, what: Missing, until: float) -> None:
        """An edge asks for more of it by itself, and acknowledges what it has been sent."""
        asked = self._asked.setdefault(edge, {})
        last = min(what.last, asked.get(what.topic, _NONE)[0])
        asked[what.topic] = last, what.before, until

    def due(self, edge: str, lacked: Mapping[int, Kept], now: float) -> Iterator[int]:
        """What an edge lacks for long, but for what it asks for."""
        asked = self._asked.get(edge)
        for number, kept in lacked.items():
            if kept.retry_at <= now:
                last, before, _ = asked.get(kept.copy.topic, _NONE) if asked else _NONE
                if not last < number < before:
                    yield number

    def forget(self, now: float) -> None:
        """Questions that are not asked any more, and numbers that are hardly kept any more."""
        self._numbers.clear()
        for edge, asked in list(self._asked.items()):
            self._asked[edge] = {topic: one for topic, one in asked.items() if one[2] > now}
            if not self._asked[edge]:
                del self._asked[edge]
