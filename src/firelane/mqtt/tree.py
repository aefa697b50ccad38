"""A tree of topic names that finds those a filter matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class _Node:
    __slots__ = ("children", "value")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.value: int = -1


class TopicTree:
    """Topic names numbered in the order given; `matching(filter)` yields their numbers."""

    def __init__(self, names: Iterable[str]) -> None:
        self._root = _Node()
        self._numbers: dict[str, int] = {}
        for number, name in enumerate(names):
            self._numbers[name] = number
            node = self._root
            for level in name.split("/"):
                node = node.children.setdefault(level, _Node())
            node.value = number

    def matching(self, topic_filter: str) -> list[int]:
        """Numbers of the topics that `topic_filter` matches, in increasing order."""
        if "+" not in topic_filter and "#" not in topic_filter:
            number = self._numbers.get(topic_filter)
            return [] if number is None else [number]
        return sorted(_walk(self._root, topic_filter.split("/")))


def _walk(root: _Node, levels: list[str]) -> Iterator[int]:
    pending = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        if depth == len(levels):
            if node.value >= 0:
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


def _below(node: _Node, hidden: str | None) -> Iterator[int]:
    """The node itself (`a/#` matches `a`) and everything under it."""
    if node.value >= 0:
        yield node.value
    pending = [child for name, child in node.children.items() if hidden is None or not name.startswith(hidden)]
    while pending:
        child = pending.pop()
        if child.value >= 0:
            yield child.value
        pending += child.children.values()
