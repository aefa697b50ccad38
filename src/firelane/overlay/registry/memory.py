"""A tree in memory, for tests and for brokers in one process: one store, as many sessions as wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firelane.overlay.registry.store import MemoryStore
from firelane.overlay.registry.tree import Create, Disconnected, Heard, Node, Operation, TreeState, check_size


class MemoryTree:
    """A session on a store; tests may suspend, resume and expire it."""

    def __init__(self, store: MemoryStore, name: str = "memory://") -> None:
        self.name = name
        self.state = TreeState.CLOSED
        self.session = 0
        self._store = store
        self._told: list[Callable[[TreeState], None]] = []
        self._once: dict[str, list[Heard]] = {}
        self._following: list[tuple[str, Heard]] = []

    def on_state(self, told: Callable[[TreeState], None]) -> None:
        """Tell of every change of the state."""
        self._told.append(told)

    async def open(self, wait_s: float | None) -> None:
        """Begin a session."""
        self.session = next(self._store.sessions)
        self._store.trees.append(self)
        self._enter(TreeState.CONNECTED)

    async def close(self) -> None:
        """End the session."""
        if self.state is not TreeState.CLOSED:
            self._forget()
            self._store.trees.remove(self)
            self._enter(TreeState.CLOSED)
            self._store.expire(self.session)

    def suspend(self) -> None:
        """Lose the connection."""
        self._forget()
        self._enter(TreeState.SUSPENDED)

    def resume(self) -> None:
        """Have it again, with the session that was there, or a new one if that has expired."""
        if self.state is TreeState.EXPIRED:
            self.session = next(self._store.sessions)
        self._enter(TreeState.CONNECTED)

    def expire(self) -> None:
        """Lose the session."""
        if self.state is TreeState.CONNECTED:
            self.suspend()
        self._store.expire(self.session)
        self._enter(TreeState.EXPIRED)

    async def ensure(self, paths: Sequence[str]) -> None:
        """Make persistent nodes, and those above them, where they are missing."""
        self._check()
        for path in paths:
            parts = path.split("/")
            for depth in range(2, len(parts) + 1):
                above = "/".join(parts[:depth])
                if above not in self._store.nodes:
                    self._store.apply([Create(path=above)], self.session)

    async def read(self, paths: Sequence[str], heard: Heard | None = None) -> list[Node | None]:
        """The nodes at these paths; `heard` is called once for each that changes, comes or goes afterwards."""
        self._check()
        for path in paths if heard else ():
            waiting = self._once.setdefault(path, [])
            if heard and heard not in waiting:
                waiting.append(heard)
        return [self._node(path) for path in paths]

    async def children(self, paths: Sequence[str]) -> list[list[str]]:
        """The names of each node's children, none where there is no node."""
        self._check()
        nodes = self._store.nodes
        return [sorted(nodes[path].children) if path in nodes else [] for path in paths]

    async def follow(self, path: str, heard: Heard) -> None:
        """Call back for every change of a node and of all below it, until the connection ends."""
        self._check()
        if (path, heard) not in self._following:
            self._following.append((path, heard))

    async def unfollow(self, paths: Sequence[str], heard: Heard) -> None:
        """No longer wait for changes of these, whether once or for good."""
        self._check()
        for path in paths:
            self._once.pop(path, None)
        self._following = [one for one in self._following if one[0] not in paths or one[1] != heard]

    async def transact(self, operations: Sequence[Operation]) -> None:
        """Do all of this or, with a Conflict, nothing."""
        check_size(operations)
        self._check()
        self._store.apply(operations, self.session)

    @property
    def watches(self) -> int:
        """How many changes are waited for."""
        return sum(map(len, self._once.values())) + len(self._following)

    def hear(self, changed: Sequence[str]) -> None:
        """Call back who waits for one of these."""
        for path in changed:
            for heard in self._once.pop(path, []):
                heard(path)
            for above, heard in self._following:
                if path == above or path.startswith(above + "/"):
                    heard(path)

    def _node(self, path: str) -> Node | None:
        entry = self._store.nodes.get(path)
        if entry is None:
            return None
        return Node(data=entry.data, version=entry.version, owner=entry.owner, children=len(entry.children))

    def _check(self) -> None:
        if self.state is not TreeState.CONNECTED:
            raise Disconnected(f"{self.name} is {self.state.value}; try again when it is back")

    def _forget(self) -> None:
        self._once.clear()
        self._following.clear()

    def _enter(self, state: TreeState) -> None:
        self.state = state
        for told in list(self._told):
            told(state)
