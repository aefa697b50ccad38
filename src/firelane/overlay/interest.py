"""Which other edges want a topic: those who have a filter that matches it, wildcards included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from firelane.mqtt.tree import FilterTree
from firelane.overlay.registry import KnownEdge

MOST_REMEMBERED = 50_000  # topics
MIN_SHARE = "min-share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What clients of an edge want of a filter: the highest QoS, whether some of them are kept messages while they are
    away, what the one to whom it matters most needs, and the shortest deadline that was admitted."""

    qos: int
    keeps: bool = False
    need: Mapping[str, str] | None = None  # as user properties of SUBSCRIBE say it
    deadline_s: float | None = None  # with one, messages are to come directly as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Another edge: whether it is connected now, what its clients want, and where it can be reached."""

    here: bool
    filters: Mapping[str, Wish] = field(default_factory=dict)
    locator: str | None = None

    @property
    def hurries(self) -> bool:
        """Whether something is to be sent to it directly, which is possible only while it is there."""
        return self.here and any(wish.deadline_s is not None for wish in self.filters.values())


def edge_of(known: KnownEdge) -> Edge:
    """An edge as the registry knows it."""
    filters = {
        one: Wish(qos=wanted.qos, keeps=wanted.keeps, need=wanted.need, deadline_s=wanted.deadline_s)
        for one, wanted in known.filters.items()
    }
    return Edge(here=known.here, filters=filters, locator=known.locator)


class Interest:
    """What is wanted elsewhere. An edge that is away wants only what it keeps for its clients."""

    def __init__(self) -> None:
        self._edges: dict[str, Edge] = {}
        self._tree: FilterTree[tuple[str, str]] = FilterTree()
        self._remembered: dict[str, dict[str, int]] = {}
        self._hurried: dict[str, tuple[str, ...]] = {}
        self._hurrying: dict[str, str] = {}  # edges with a deadline, and where they can be reached

    @property
    def edges(self) -> Mapping[str, Edge]:
        """Those that are known."""
        return self._edges

    def is_here(self, name: str) -> bool:
        """Whether an edge is known to be connected to the registry now."""
        known = self._edges.get(name)
        return known is not None and known.here

    def change(self, name: str, edge: Edge | None) -> set[str]:
        """An edge has come, changed or gone; returns the filters it wants now and did not before."""
        before = _filters(self._edges.get(name))
        now = _filters(edge)
        for gone in before.keys() - now.keys():
            self._tree.remove(gone, (name, gone))
        new = now.keys() - before.keys()
        for one in new:
            self._tree.add(one, (name, one))
        if edge is None:
            self._edges.pop(name, None)
        else:
            self._edges[name] = edge
        if before != now:
            self._remembered.clear()
        self._hurried.clear()
        self._hurrying.pop(name, None)
        if edge is not None and edge.locator is not None and edge.hurries:
            self._hurrying[name] = edge.locator
        return set(new)

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

    def filters(self) -> dict[str, Wish]:
        """All that is wanted anywhere else, each filter at its highest QoS with the need that weighs most.

        Deadlines are for who sends, not for what is wanted of this edge's own exchange.
        """
        result: dict[str, Wish] = {}
        for edge in self._edges.values():
            for topic_filter, wish in _filters(edge).items():
                plain = wish if wish.deadline_s is None else replace(wish, deadline_s=None)
                result[topic_filter] = _joined(result[topic_filter], plain) if topic_filter in result else plain
        return result


def _filters(edge: Edge | None) -> Mapping[str, Wish]:
    if edge is None:
        return {}
    return edge.filters if edge.here else {one: wish for one, wish in edge.filters.items() if wish.keeps}


def _joined(one: Wish, other: Wish) -> Wish:
    first, second = one.need or {}, other.need or {}
    need = dict(first if _number(first, "weight", 1.0) >= _number(second, "weight", 1.0) else second)
    share = max(_number(first, MIN_SHARE, 0.0), _number(second, MIN_SHARE, 0.0))
    if share:
        need[MIN_SHARE] = f"{share:g}"
    return Wish(qos=max(one.qos, other.qos), keeps=one.keeps or other.keeps, need=need or None)


def _number(need: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(need.get(name, default))
    except ValueError:
        return default
