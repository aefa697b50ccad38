"""Which other edges want a topic: those who have a filter that matches it, wildcards included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from firelane.mqtt.tree import FilterTree
from firelane.overlay.registry import KnownEdge, Wish
from firelane.overlay.sharing import joined_said

MOST_REMEMBERED = 50_000  # topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Another edge: whether it is connected now, what its clients want, where it can be reached, and which routers it
    cannot reach itself."""

    here: bool
    filters: Mapping[str, Wish] = field(default_factory=dict)
    locator: str | None = None
    unreached: frozenset[str] = frozenset()

    @property
    def hurries(self) -> bool:
        """Whether something is to be sent to it directly, which is possible only while it is there."""
        return self.here and any(wish.deadline_s is not None for wish in self.filters.values())


def edge_of(known: KnownEdge) -> Edge:
    """An edge as the registry knows it."""
    return Edge(here=known.here, filters=known.filters, locator=known.locator, unreached=known.unreached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one edge wants now and did not before, and what it wants no more; whether others owe it more or less."""

    new: set[str]
    gone: set[str]
    debts: bool


class Interest:
    """What is wanted elsewhere. An edge that is away wants only what it keeps for its clients."""

    def __init__(self) -> None:
        self._edges: dict[str, Edge] = {}
        self._tree: FilterTree[tuple[str, str]] = FilterTree()
        self._wishes: dict[str, dict[str, Wish]] = {}  # by filter, then by edge
        self._joined: dict[str, Wish] = {}  # by filter, but for those that are
        self._altered: set[str] | None = None  # since that was last asked for; None if it never was
        self._remembered: dict[str, dict[str, int]] = {}
        self._hurried: dict[str, tuple[str, ...]] = {}
        self._unreached: dict[str, frozenset[str]] = {}  # routers, by the edges that are here and cannot reach some
        self._hurrying: dict[str, str] = {}  # edges with a deadline, and where they can be reached

    @property
    def edges(self) -> Mapping[str, Edge]:
        """Those that are known."""
        return self._edges

    def is_here(self, name: str) -> bool:
        """Whether an edge is known to be connected to the registry now."""
        known = self._edges.get(name)
        return known is not None and known.here

    def change(self, name: str, edge: Edge | None) -> Change:
        """An edge has come, changed or gone. What stays as it was costs next to nothing: there may be very much."""
        known = self._edges.get(name)
        before, now = _filters(known), _filters(edge)
        altered, gone = _difference(before, now)
        new = {one for one, wish in altered.items() if _is_new(before.get(one), wish)}
        for one in gone:
            self._tree.remove(one, (name, one))
            wishes = self._wishes[one]
            del wishes[name]
            if not wishes:
                del self._wishes[one]
        for one in new - before.keys():
            self._tree.add(one, (name, one))
        for one, wish in altered.items():
            self._wishes.setdefault(one, {})[name] = wish
        if edge is None:
            self._edges.pop(name, None)
        else:
            self._edges[name] = edge
        if gone or altered:
            if self._altered is not None:
                self._altered |= gone | altered.keys()
            self._remembered.clear()
        self._unreached.pop(name, None)
        if edge is not None and edge.here and edge.unreached:
            self._unreached[name] = edge.unreached
        self._hurried.clear()
        self._hurrying.pop(name, None)
        if edge is not None and edge.locator is not None and edge.hurries:
            self._hurrying[name] = edge.locator
        came = edge is not None and edge.here and not (known is not None and known.here)
        return Change(new=new, gone=gone, debts=bool(gone) or came or edge is None)

    @property
    def altered(self) -> bool:
        """Whether `filters` would tell something that it has not told yet."""
        return self._altered is None or bool(self._altered)

    def wishes_of(self, name: str) -> Mapping[str, Wish]:
        """What an edge wants now."""
        return _filters(self._edges.get(name))

    def of(self, topic: str) -> Mapping[str, int]:
        """The edges that want a topic, and the highest QoS that each asks for."""
        found = self._remembered.get(topic)
        if found is None:
            found = {}
            for name, topic_filter in self._tree.matching(topic):
                found[name] = max(found.get(name, 0), self._edges[name].filters[topic_filter].qos)
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[topic] = found
        return found

    @property
    def unreached(self) -> Mapping[str, frozenset[str]]:
        """The routers that edges which are here cannot reach, by edge; mostly there are none."""
        return self._unreached

    def unreached_for(self, topic: str) -> Mapping[str, frozenset[str]]:
        """The same of those that want a topic."""
        if not self._unreached:
            return self._unreached
        return {name: self._unreached[name] for name in self.of(topic) if name in self._unreached}

    @property
    def hurrying(self) -> Mapping[str, str]:
        """The edges that want something by a deadline, and where they can be reached."""
        return self._hurrying

    def direct(self, topic: str) -> tuple[str, ...]:
        """The edges that want a topic by a deadline, to which it is therefore sent directly as well."""
        if not self._hurrying:
            return ()
        found = self._hurried.get(topic)
        if found is None:
            wants = ((name, one) for name, one in self._tree.matching(topic) if name in self._hurrying)
            names = {name for name, one in wants if self._edges[name].filters[one].deadline_s is not None}
            if len(self._hurried) >= MOST_REMEMBERED:
                self._hurried.clear()
            found = self._hurried[topic] = tuple(sorted(names))
        return found

    def filters(self) -> Mapping[str, Wish]:
        """All that is wanted anywhere else, each filter at its highest QoS with a need that does for all.

        Deadlines are for who sends, not for what is wanted of this edge's own exchange.
        """
        for one in list(self._wishes) if self._altered is None else self._altered:
            wishes = self._wishes.get(one)
            if wishes is not None:
                self._joined[one] = _joined(list(wishes.values()))
            else:
                self._joined.pop(one, None)
        self._altered = set()
        return self._joined


def _filters(edge: Edge | None) -> Mapping[str, Wish]:
    if edge is None:
        return {}
    return edge.filters if edge.here else {one: wish for one, wish in edge.filters.items() if wish.keeps}


def _difference(before: Mapping[str, Wish], now: Mapping[str, Wish]) -> tuple[dict[str, Wish], set[str]]:
    """What is wanted that was not, or was otherwise; and what is wanted no more."""
    if before == now:
        return {}, set()
    altered = {one: wish for one, wish in now.items() if (was := before.get(one)) is not wish and was != wish}
    return altered, {one for one in before if one not in now}


def _is_new(before: Wish | None, now: Wish) -> bool:
    """Whether something is wanted that was not, were it but for a moment in between."""
    return before is None or before.anew != now.anew


def _joined(wishes: Sequence[Wish]) -> Wish:
    first = wishes[0]
    if len(wishes) == 1 and first.deadline_s is None:
        return first
    return Wish(
        qos=max(one.qos for one in wishes),
        keeps=any(one.keeps for one in wishes),
        need=joined_said([one.need for one in wishes]),
    )
