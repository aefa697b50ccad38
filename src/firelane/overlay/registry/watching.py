"""Who routes the topics that a broker cares for: one watch for each of them, and no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firelane.overlay.owner import Assignment
from firelane.overlay.registry.known import TOPICS, assignment, topic_document
from firelane.overlay.registry.names import topic_segment
from firelane.overlay.registry.tree import Node, RegistryError, Tree
from firelane.overlay.registry.worker import Worker, tell

MOST_WATCHED = 100_000  # topics; ZooKeeper keeps some hundred bytes for each

Assigned = Callable[[str, Assignment | None], None]


class TopicWatches(Worker):
    """Assignments of single topics, told when they are first known and whenever they change."""

    def __init__(self, tree: Tree, *, most: int = MOST_WATCHED) -> None:
        super().__init__(tree)
        self.assignments: dict[str, Assignment | None] = {}
        self.problems: dict[str, RegistryError] = {}
        self.highest = 0  # epoch seen
        self._most = most
        self._topics: dict[str, tuple[str, Assigned]] = {}  # by path
        self._due: set[str] = set()
        self._given_up: set[str] = set()

    def watch(self, topic: str, told: Assigned) -> None:
        """Tell of a topic's assignments from now on."""
        path = f"{TOPICS}/{topic_segment(topic)}"
        if path not in self._topics and len(self._topics) >= self._most:
            raise RegistryError(f"more than {self._most} topics cannot be watched; leave {topic} to its hash")
        self._topics[path] = (topic, told)
        self.assignments.pop(topic, None)
        self._given_up.discard(path)
        self._due.add(path)
        self.wake()

    def unwatch(self, topic: str) -> None:
        """No longer tell of it."""
        path = f"{TOPICS}/{topic_segment(topic)}"
        if self._topics.pop(path, None):
            self.assignments.pop(topic, None)
            self.problems.pop(path, None)
            self._due.discard(path)
            self._given_up.add(path)
            self.wake()

    def __len__(self) -> int:
        return len(self._topics)

    def reconnected(self) -> None:
        """All watches went with the connection."""
        self._given_up.clear()
        self._due.update(self._topics)
        self.wake()

    async def work(self) -> None:
        """Read what is new or has changed, and wait for the next change of it."""
        if self._given_up:
            given_up = list(self._given_up)
            self._given_up.clear()
            await self.tree.unfollow(given_up, self._heard)
            self._due.update(path for path in given_up if path in self._topics)
        while self._due:
            paths = list(self._due)
            self._due.clear()
            try:
                nodes = await self.tree.read(paths, self._heard)
            except RegistryError:
                self._due.update(paths)
                raise
            self._take(paths, nodes)

    def _heard(self, path: str) -> None:
        if path in self._topics:
            self._due.add(path)
            self.wake()

    def _take(self, paths: Sequence[str], nodes: Sequence[Node | None]) -> None:
        for path, node in zip(paths, nodes, strict=True):
            topic, told = self._topics.get(path, (None, None))
            if topic is None or told is None:
                continue
            found = self._read(path, node)
            self.highest = max(self.highest, found.epoch if found else 0)
            if topic in self.assignments and self.assignments[topic] == found:
                continue
            self.assignments[topic] = found
            try:
                told(topic, found)
            except Exception as problem:
                tell(f"the assignment of {topic} was not taken", problem)

    def _read(self, path: str, node: Node | None) -> Assignment | None:
        self.problems.pop(path, None)
        try:
            return assignment(topic_document(path[len(TOPICS) + 1 :], node.data)) if node else None
        except RegistryError as problem:
            self.problems[path] = problem
            return None
