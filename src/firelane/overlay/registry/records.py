"""The nodes that an edge or a router writes of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from firelane.overlay.registry.declarations import Declarations, Declared
from firelane.overlay.registry.documents import (
    EdgeDocument,
    EndpointDocument,
    HereDocument,
    Load,
    RouterDocument,
    TopicDocument,
    Wish,
    written,
)
from firelane.overlay.registry.known import EDGES, FILTERS, HERE, PUB, ROUTERS, SUB, TOPICS
from firelane.overlay.registry.names import broker_segment, is_hashed, topic_segment
from firelane.overlay.registry.packing import MOST_PARTS, packed, part_of, parts_for, sorted_out
from firelane.overlay.registry.tree import Create, Kind


class EdgeRecord:
    """An edge: that it is there, what its clients want, where they publish and subscribe."""

    def __init__(self, declarations: Declarations, name: str, document: EdgeDocument) -> None:
        self._declarations = declarations
        self._segment = broker_segment(name)
        self._path = f"{EDGES}/{self._segment}"
        self._document = document
        self._above = (Create(path=self._path, data=written(document)),)
        self._filters: dict[str, Wish] | None = None
        self._parts: list[dict[str, Wish]] = []
        self._endpoints: dict[tuple[str, str], tuple[int, float | None]] = {}  # (side, topic) -> count, rate
        self._declare(document)
        self.unreached(None)

    def unreached(self, routers: tuple[str, ...] | None) -> None:
        """It is here, and cannot reach these routers."""
        here = Declared(
            data=written(HereDocument(boot=self._document.boot, unreached=routers)),
            kind=Kind.EPHEMERAL,
            above=self._above,
            guarded=True,
        )
        self._declarations.declare(f"{self._path}/{HERE}", here)

    def want(self, filters: Mapping[str, Wish]) -> None:
        """All that its clients want; only the parts that differ are written.

        Every filter that stays is in some part at any time, also while their number changes, and whatever an earlier
        life has left: parts take their turns (`_turn_of`), and those that are too many go when all others are written.
        """
        known = self._filters or {}
        altered = {one for one, wanted in filters.items() if known.get(one) is not wanted and known.get(one) != wanted}
        altered |= known.keys() - filters.keys()
        if not altered and self._filters is not None:
            return
        before = self._document.parts
        parts = parts_for(filters, before)
        some = sorted_out(filters, parts) if parts != before else self._sorted_anew(filters, altered, parts)
        touched = range(parts) if parts != before else sorted({part_of(one, parts) for one in altered})
        data = {part: packed(some[part]) for part in touched}  # or it says what is too much, and nothing has changed
        if self._filters is None:  # only now: before, all that an earlier life has left would seem to be left over
            self._declarations.alone_below(self._path)
        self._parts, self._filters = some, dict(filters)
        if parts != before:
            self._declare(replace(self._document, parts=parts))
        for part in touched:
            declared = Declared(data=data[part], kind=Kind.PERSISTENT, above=self._above, turn=_turn_of(part))
            self._declarations.declare(f"{self._path}/{FILTERS}{part}", declared)
        for part in range(parts, before):
            self._declarations.declare(f"{self._path}/{FILTERS}{part}", None)

    def _sorted_anew(self, filters: Mapping[str, Wish], altered: set[str], parts: int) -> list[dict[str, Wish]]:
        """The parts as they are now, of which those without an altered filter are the same as before."""
        some = list(self._parts)
        for number in {part_of(one, parts) for one in altered}:
            some[number] = dict(some[number])
        for one in altered:
            part = some[part_of(one, parts)]
            if one in filters:
                part[one] = filters[one]
            else:
                del part[one]
        return some

    def endpoints(self, pub: Mapping[str, int], sub: Mapping[str, int], rates_hz: Mapping[str, float]) -> None:
        """How many clients publish and subscribe to which topics; only differences are written."""
        now = {
            (side, topic): (count, rates_hz.get(topic) if side == PUB else None)
            for side, counts in ((PUB, pub), (SUB, sub))
            for topic, count in counts.items()
            if count > 0
        }
        for side, topic in self._endpoints.keys() - now.keys():
            self._declarations.declare(self._leaf_path(side, topic), None)
        for (side, topic), told in now.items():
            if self._endpoints.get((side, topic)) != told:
                self._declarations.declare(self._leaf_path(side, topic), _leaf(topic, side, *told))
        self._endpoints = now

    def _leaf_path(self, side: str, topic: str) -> str:
        return f"{TOPICS}/{topic_segment(topic)}/{side}/{self._segment}"

    def leave(self, *, keep: bool) -> None:
        """It is away; without `keep` nobody need keep anything for it."""
        self.endpoints({}, {}, {})
        self._declarations.declare(f"{self._path}/{HERE}", None)
        if not keep:
            if self._filters is None:  # it has never come to that
                self._declarations.alone_below(self._path)
            for part in range(self._document.parts):
                self._declarations.declare(f"{self._path}/{FILTERS}{part}", None)
            self._declarations.declare(self._path, None)

    def _declare(self, document: EdgeDocument) -> None:
        self._document = document
        self._declarations.declare(self._path, Declared(data=written(document), kind=Kind.PERSISTENT))


class RouterRecord:
    """A router: where it can be reached and what it has to do."""

    def __init__(self, declarations: Declarations, name: str, document: RouterDocument) -> None:
        self.name = name
        self.document = document
        self._declarations = declarations
        self._path = f"{ROUTERS}/{broker_segment(name)}"
        self._declare(document)

    def report(self, load: Load, topics: int) -> None:
        """What it has to do now."""
        self._declare(replace(self.document, load=load, topics=topics))

    def leave(self) -> None:
        """It is away."""
        self._declarations.declare(self._path, None)

    def _declare(self, document: RouterDocument) -> None:
        self.document = document
        self._declarations.declare(self._path, Declared(data=written(document), kind=Kind.EPHEMERAL, guarded=True))


def _turn_of(part: int) -> int:
    """The higher half of the parts first, then the higher half of the others, and so on.

    Among however many parts (a power of two) a filter was before, it is in the part where it belongs now, or in one
    that goes, or in one of a lower half: that is written when the filter is where it belongs.
    """
    return MOST_PARTS.bit_length() - part.bit_length()


def _leaf(topic: str, side: str, count: int, rate_hz: float | None) -> Declared:
    segment = topic_segment(topic)
    named = TopicDocument(topic=topic if is_hashed(segment) else None)
    above = (
        Create(path=f"{TOPICS}/{segment}", data=written(named), kind=Kind.CONTAINER),
        Create(path=f"{TOPICS}/{segment}/{side}", kind=Kind.CONTAINER),
    )
    return Declared(data=written(EndpointDocument(count=count, rate_hz=rate_hz)), kind=Kind.EPHEMERAL, above=above)
