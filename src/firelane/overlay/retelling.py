"""For whom the exchange of an edge tells again what is retained there: for all, where somebody wants a filter anew, or
for some edges that can be reached again and may have missed it. No clock, no I/O.

The exchange tells of a filter from the beginning whenever it is asked, and not for whom. So what is being told is not
begun anew for edges that are back, or of what takes long the end might never be told: it is told once more after that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from math import inf

from firelane.mqtt.tree import FilterTree

REST = 5  # times as long as it took to tell some edges, until that is told to such again: lines may come and go
MOST_APART = 3  # edges that get a message each by themselves; from there on one to all costs the uplink less
LOOKED_AT = 5000  # filters at one look

Edges = frozenset[str] | None  # None is everybody who wants it


@dataclass(slots=True)
class _Telling:
    edges: Edges
    begun_at: float
    free_at: float = inf  # once it is over


class Retelling:
    """Of one edge. `told` is whether the exchange has told all that is retained of a filter."""

    def __init__(self, told: Callable[[str], bool]) -> None:
        self._told = told
        self._asked: dict[str, Edges] = {}  # by filter
        self._tellings: dict[str, _Telling] = {}  # likewise: under way, or over a moment ago
        self._tree: FilterTree[str] = FilterTree()

    @property
    def asked(self) -> bool:
        """Whether something is still to be begun."""
        return bool(self._asked)

    def ask(self, filters: Iterable[str], edges: Edges = None) -> None:
        """What is retained of these is to be told again, to all or to some edges."""
        for one in filters:
            before = self._asked.get(one, edges)
            self._asked[one] = None if edges is None or before is None else before | edges

    def begin(self, now: float) -> set[str]:
        """The filters that are to be told now."""
        begun = {one for one, edges in self._asked.items() if self._may_begin(one, edges)}
        for one in begun:
            if one not in self._tellings:
                self._tree.add(one, one)
            self._tellings[one] = _Telling(self._asked.pop(one), now)
        return begun

    def look(self, now: float) -> None:
        """See what is over. What was told last has come by the next look, and not before."""
        for one in list(islice(self._tellings, LOOKED_AT)):
            telling = self._tellings.pop(one)
            if telling.free_at <= now:
                self._tree.remove(one, one)
                continue
            if telling.free_at == inf and self._told(one):
                telling.free_at = now if telling.edges is None else now + REST * (now - telling.begun_at)
            self._tellings[one] = telling

    def edges(self, topic: str, wanted: Collection[str]) -> tuple[str, ...] | None:
        """Those that a message which is told again is for, of these that want its topic; None if it is for all."""
        found: set[str] = set()
        filters = self._tree.matching(topic)
        for one in filters:
            edges = self._tellings[one].edges
            if edges is None:
                return None
            found |= edges
        found.intersection_update(wanted)
        return tuple(sorted(found)) if filters and len(found) <= MOST_APART else None

    def _may_begin(self, one: str, edges: Edges) -> bool:
        telling = self._tellings.get(one)
        if telling is None:
            return True
        # Whoever wants it anew waits for others that do, and for nobody else: those are told with everybody.
        return edges is None and (telling.edges is not None or self._told(one))
