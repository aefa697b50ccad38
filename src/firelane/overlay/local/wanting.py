"""With which QoS an edge's own clients want a topic (the highest of all filters that match it, wildcards included), and
since when."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from firelane.mqtt.tree import FilterTree
from firelane.overlay.registry import Wish

MOST_REMEMBERED = 50_000  # topics
MOST_ENDED = 10_000  # filters that nobody wants any more and that are remembered
SINCE_START = 1  # the first change: what clients wanted already when this edge was started


class Wanting:
    """Of one edge, as `update` was last told."""

    def __init__(self) -> None:
        self._qos: dict[str, int] = {}  # by filter
        self._tree: FilterTree[str] = FilterTree()
        self._remembered: dict[str, int] = {}
        self._since: dict[str, int] = {}  # by filter: at which change it began
        self._ended: OrderedDict[str, tuple[int, int]] = OrderedDict()  # filters: from which change to which, last
        self._ended_tree: FilterTree[str] = FilterTree()
        self.changes = 0

    def update(self, wishes: Mapping[str, Wish]) -> None:
        """What clients want now."""
        now = {one: wish.qos for one, wish in wishes.items()}
        if now == self._qos:
            return
        self.changes += 1
        for one in self._qos.keys() - now.keys():
            self._tree.remove(one, one)
            self._remember(one, self._since.pop(one))
        for one in now.keys() - self._qos.keys():
            self._tree.add(one, one)
            self._since[one] = self.changes
        self._qos = now
        self._remembered.clear()

    def anybody(self, topic: str) -> bool:
        """Whether a client wants a topic at all."""
        return bool(self._tree.matching(topic))

    def since(self, topic: str) -> int:
        """At which change a topic began to be wanted without a break since, by whatever filters; the next change if
        nobody wants it."""
        since = min((self._since[one] for one in self._tree.matching(topic)), default=self.changes + 1)
        ended = ((self._ended[one][1], self._ended[one][0]) for one in self._ended_tree.matching(topic))
        for until, began in sorted(ended, reverse=True):
            if until < since:
                break
            since = min(since, began)
        return since

    def qos(self, topic: str) -> int:
        """The highest QoS that anybody asks for; 0 also if nobody wants it."""
        found = self._remembered.get(topic)
        if found is None:
            found = max((self._qos[one] for one in self._tree.matching(topic)), default=0)
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[topic] = found
        return found

    def _remember(self, topic_filter: str, since: int) -> None:
        """A filter that nobody wants any more."""
        if self._ended.pop(topic_filter, None) is None:
            self._ended_tree.add(topic_filter, topic_filter)
        self._ended[topic_filter] = since, self.changes
        if len(self._ended) > MOST_ENDED:
            first, _ = self._ended.popitem(last=False)
            self._ended_tree.remove(first, first)
