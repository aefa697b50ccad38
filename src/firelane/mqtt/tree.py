"""Two trees over topic levels: topics that a filter matches, and filters that match a topic.

Both walk without recursion, so that a topic of many levels costs time but never the stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class _Node(Generic[V]):
    __slots__ = ("children", "value")

    def __init__(self) -> None:
        self.children: dict[str, _Node[V]] = {}
        self.value: V | None = None


class TopicTree(Generic[V]):
    """Topic names with a value each; `matching(filter)` finds the values of those that a filter matches."""

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()
        self._exact: dict[str, V] = {}

    def __len__(self) -> int:
        return len(self._exact)

    def add(self, name: str, value: V) -> None:
        """Put a name in, or give it another value."""
        self._exact[name] = value
        node = self._root
        for level in name.split("/"):
            child = node.children.get(level)
            if child is None:
                child = node.children[level] = _Node()
            node = child
        node.value = value

    def remove(self, name: str) -> None:
        """Take a name out, and with it the levels that nothing else needs."""
        del self._exact[name]
        node, path = self._root, []
        for level in name.split("/"):
            path.append((node, level))
            node = node.children[level]
        node.value = None
        while path and not node.children and node.value is None:
            node, level = path.pop()
            del node.children[level]

    def matching(self, topic_filter: str) -> list[V]:
        """The values of the topics that `topic_filter` matches."""
        if "+" not in topic_filter and "#" not in topic_filter:
            value = self._exact.get(topic_filter)
            return [] if value is None else [value]
        return [value for value in self.steps(topic_filter) if value is not None]

    def steps(self, topic_filter: str) -> Iterator[V | None]:
        """The same one by one, and None for every step that finds nothing: to stop, or to go on later."""
        return _walk(self._root, topic_filter.split("/"))


def numbered(names: Iterable[str]) -> TopicTree[int]:
    """A tree of names numbered in the order given."""
    tree: TopicTree[int] = TopicTree()
    for number, name in enumerate(names):
        tree.add(name, number)
    return tree


def _walk(root: _Node[V], levels: list[str]) -> Iterator[V | None]:
    pending = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        if depth == len(levels):
            yield node.value
            continue
        level = levels[depth]
        # A wildcard in the first level does not match names that start with $ (MQTT-4.7.2-1).
        hidden = "$" if depth == 0 else None
        if level == "#":
            yield from _below(node, hidden)
        elif level == "+":
            pending += [
                (child, depth + 1)
                for name, child in node.children.items()
                if hidden is None or not name.startswith(hidden)
            ]
        elif level in node.children:
            pending.append((node.children[level], depth + 1))
        yield None


def _below(node: _Node[V], hidden: str | None) -> Iterator[V | None]:
    """The node itself (`a/#` matches `a`) and everything under it."""
    yield node.value
    pending = [child for name, child in node.children.items() if hidden is None or not name.startswith(hidden)]
    while pending:
        child = pending.pop()
        yield child.value
        pending += child.children.values()


class _Fork(Generic[V]):
    """A level of the filters below it: named levels, `+`, filters that end here, and those that end in `#` here."""

    __slots__ = ("any", "ending", "named", "rest")

    def __init__(self) -> None:
        self.named: dict[str, _Fork[V]] = {}
        self.any: _Fork[V] | None = None
        self.ending: dict[V, None] = {}
        self.rest: dict[V, None] = {}

    @property
    def empty(self) -> bool:
        return not (self.named or self.ending or self.rest or self.any is not None)


class FilterTree(Generic[V]):
    """Values under topic filters; `matching(topic)` finds those whose filter matches.

    Filters without wildcards are looked up; the others are walked, one step per level and branch.
    """

    def __init__(self) -> None:
        self._exact: dict[str, dict[V, None]] = {}
        self._root: _Fork[V] = _Fork()

    def add(self, topic_filter: str, value: V) -> None:
        """Put a value under a filter."""
        if "+" not in topic_filter and "#" not in topic_filter:
            self._exact.setdefault(topic_filter, {})[value] = None
            return
        fork, levels = self._root, topic_filter.split("/")
        for level in levels:
            if level == "#":
                fork.rest[value] = None
                return
            fork = _step(fork, level)
        fork.ending[value] = None

    def remove(self, topic_filter: str, value: V) -> None:
        """Take a value from under a filter, and the levels that nothing else needs."""
        if "+" not in topic_filter and "#" not in topic_filter:
            values = self._exact[topic_filter]
            del values[value]
            if not values:
                del self._exact[topic_filter]
            return
        fork, path = self._root, []
        for level in topic_filter.split("/"):
            if level == "#":
                break
            path.append((fork, level))
            fork = fork.any if level == "+" else fork.named[level]  # type: ignore[assignment]
        del (fork.rest if topic_filter[-1] == "#" else fork.ending)[value]
        while path and fork.empty:
            fork, level = path.pop()
            if level == "+":
                fork.any = None
            else:
                del fork.named[level]

    def matching(self, topic: str) -> list[V]:
        """The values whose filters match `topic`; a value under several such filters comes several times."""
        found = list(self._exact.get(topic, ()))
        root = self._root
        levels = topic.split("/")
        if topic.startswith("$"):  # no wildcard in the first level (MQTT-4.7.2-1)
            forks = [root.named[levels[0]]] if levels[0] in root.named else []
        else:
            forks = _onward([root], levels[0], found)
        for level in levels[1:]:
            if not forks:
                return found
            forks = _onward(forks, level, found)
        for fork in forks:
            found += fork.ending
            found += fork.rest  # `a/#` matches `a`
        return found


def _onward(forks: list[_Fork[V]], level: str, found: list[V]) -> list[_Fork[V]]:
    """Where one more level leads from here; what ends in `#` is found on the way."""
    following = []
    for fork in forks:
        if fork.rest:
            found += fork.rest
        named = fork.named.get(level)
        if named is not None:
            following.append(named)
        if fork.any is not None:
            following.append(fork.any)
    return following


def _step(fork: _Fork[V], level: str) -> _Fork[V]:
    if level == "+":
        if fork.any is None:
            fork.any = _Fork()
        return fork.any
    following = fork.named.get(level)
    if following is None:
        following = fork.named[level] = _Fork()
    return following
