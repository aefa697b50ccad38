"""Lanes that wait for room in the memory of their link, as all they have of QoS 1 and 2 is in the log."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

from firelane.exchange.lanes.lane import Lane


class Hungry(dict[Lane, int]):
    """Lanes with messages in the log and none of these in memory, and the class under which each is kept."""

    __slots__ = ("_by_class",)

    def __init__(self) -> None:
        super().__init__()
        self._by_class: dict[int, OrderedDict[Lane, None]] = defaultdict(OrderedDict)

    def join(self, lane: Lane) -> None:
        """One more, or one whose class has changed."""
        self.leave(lane)
        self[lane] = lane.klass
        self._by_class[lane.klass][lane] = None

    def leave(self, lane: Lane) -> None:
        """One less, if it was there."""
        klass = self.pop(lane, None)
        if klass is not None:
            del self._by_class[klass][lane]

    def first(self) -> Lane:
        """The one of the best class that has waited longest."""
        best = min(klass for klass, lanes in self._by_class.items() if lanes)
        return next(iter(self._by_class[best]))
