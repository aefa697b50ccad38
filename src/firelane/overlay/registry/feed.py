"""Changes of a mirrored part of the tree, told by name to whoever has asked for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from firelane.overlay.registry.known import (
    EDGES,
    ROUTERS,
    TOPICS,
    KnownEdge,
    KnownRouter,
    TopicState,
    broker_name,
    known_edge,
    known_router,
    parse_edge,
    parse_router,
    parse_topic,
    topic_name,
    topic_state,
)
from firelane.overlay.registry.mirror import Group, Mirror, Parse
from firelane.overlay.registry.tree import Tree
from firelane.overlay.registry.worker import tell

Known = TypeVar("Known")
Changes = dict[str, Known | None]  # None: it has gone


class Feed(Generic[Known]):
    """What is known by name; each callback is told everything at first, then what has changed."""

    def __init__(
        self,
        tree: Tree,
        path: str,
        parse: Parse,
        *,
        name: Callable[[str, Group], str | None],
        view: Callable[[str, Group], Known | None],
    ) -> None:
        self.known: dict[str, Known] = {}
        self.mirror = Mirror(tree, path, parse, self._changed)
        self._name = name
        self._view = view
        self._names: dict[str, str] = {}  # of segments, as last told
        self._told: list[Callable[[Changes[Known]], None]] = []

    def tell(self, told: Callable[[Changes[Known]], None]) -> None:
        """From now on; at once if something is known already."""
        self._told.append(told)
        if self.mirror.complete.is_set():
            self._call(told, dict(self.known))

    def _changed(self, segments: set[str]) -> None:
        changes: Changes[Known] = {}
        for segment in segments:
            self._take(segment, changes)
        if changes or not self.mirror.complete.is_set():
            for told in list(self._told):
                self._call(told, changes)

    def _take(self, segment: str, changes: Changes[Known]) -> None:
        group = self.mirror.groups.get(segment, {})
        view = self._view(segment, group) if group else None
        name = self._name(segment, group) if group else None
        before = self._names.get(segment)
        if before is not None and (view is None or name != before):
            del self._names[segment], self.known[before]
            changes[before] = None
        if view is not None and name is not None and self.known.get(name) != view:
            self._names[segment] = name
            self.known[name] = changes[name] = view

    def _call(self, told: Callable[[Changes[Known]], None], changes: Changes[Known]) -> None:
        try:
            told(changes)
        except Exception as problem:
            tell("a change of the registry was not taken", problem)


def edges_feed(tree: Tree) -> Feed[KnownEdge]:
    """Of all edges that are known."""
    return Feed(tree, EDGES, parse_edge, name=broker_name, view=known_edge)


def routers_feed(tree: Tree) -> Feed[KnownRouter]:
    """Of the routers that are there."""
    return Feed(tree, ROUTERS, parse_router, name=broker_name, view=known_router)


def topics_feed(tree: Tree) -> Feed[TopicState]:
    """Of all topics."""
    return Feed(tree, TOPICS, parse_topic, name=topic_name, view=topic_state)
