"""Which retained messages of other sites an edge has been told.

They are told once more when somebody else begins to want their topic, or the edge that retains them is started again,
and must not take the place of what is retained here since.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from firelane.overlay.local.wanting import Wanting
from firelane.overlay.messages.stamp import Stamp

MOST_REMEMBERED = 100_000  # topics, by the edge where they were published


class _Told(NamedTuple):
    """The last one of a topic, and when it came."""

    boot: int
    number: int
    at_change: int


class Retold:
    """Of one edge, since it was started."""

    def __init__(self, wanting: Wanting) -> None:
        self._wanting = wanting
        self._told: OrderedDict[tuple[str, str], _Told] = OrderedDict()

    def has_come(self, topic: str, stamp: Stamp) -> bool:
        """Whether this message, or a newer one of that edge, was told since somebody here wants the topic; if not, it
        is now. Whoever begins to want a topic is to be told what is retained elsewhere, whatever was before."""
        key, number = (stamp.origin, topic), stamp.first or stamp.number
        told = self._told.get(key)
        if told is not None and stamp.first and told.boot == stamp.boot and number <= told.number:  # noqa: SIM102
            if self._wanting.since(topic) <= told.at_change:  # a search, so it comes last
                return True
        self._told.pop(key, None)
        while len(self._told) >= MOST_REMEMBERED:
            self._told.popitem(last=False)
        self._told[key] = _Told(stamp.boot, number, self._wanting.changes)
        return False
