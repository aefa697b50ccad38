"""The nodes of a tree in memory, and transactions on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol
from weakref import WeakValueDictionary

from firelane.overlay.registry.tree import Conflict, Create, Delete, Kind, Operation, Put

_stores: WeakValueDictionary[str, MemoryStore] = WeakValueDictionary()


class Listener(Protocol):
    """A session that hears of changes."""

    def hear(self, changed: Sequence[str]) -> None:
        """These have changed."""


@dataclass(slots=True, kw_only=True)
class _Entry:
    data: bytes
    kind: Kind
    owner: int
    version: int = 0
    children: set[str] = field(default_factory=set)


class MemoryStore:
    """The nodes, and who wants to hear of their changes."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Entry] = {"": _Entry(data=b"", kind=Kind.PERSISTENT, owner=0)}
        self.trees: list[Listener] = []
        self.sessions = count(1)

    def apply(self, operations: Sequence[Operation], session: int) -> None:
        """Do all of it, or nothing and raise a Conflict."""
        undo: list[Callable[[], None]] = []
        changed: list[str] = []
        try:
            for operation in operations:
                changed.append(operation.path)
                undo.append(self._do(operation, session))
        except Conflict:
            for one in reversed(undo):
                one()
            raise
        changed += self._sweep(changed)
        self._tell(changed)

    def expire(self, session: int) -> None:
        """Delete the ephemeral nodes of a session."""
        gone = [path for path, entry in self.nodes.items() if session and entry.owner == session]
        self.apply([Delete(path=path) for path in gone], session)

    def _do(self, operation: Operation, session: int) -> Callable[[], None]:
        entry = self.nodes.get(operation.path)
        if isinstance(operation, Create):
            if entry is not None:
                raise Conflict(f"{operation.path} is there already")
            owner = session if operation.kind is Kind.EPHEMERAL else 0
            self._insert(operation.path, _Entry(data=operation.data, kind=operation.kind, owner=owner))
            return lambda: self._remove(operation.path)
        if entry is None:
            raise Conflict(f"{operation.path} is not there")
        if operation.version is not None and operation.version != entry.version:
            raise Conflict(f"{operation.path} has version {entry.version}, not {operation.version}")
        if isinstance(operation, Put):
            return self._put(entry, operation.data)
        if entry.children:
            raise Conflict(f"{operation.path} has children")
        self._remove(operation.path)
        return lambda: self._insert(operation.path, entry)

    def _put(self, entry: _Entry, data: bytes) -> Callable[[], None]:
        before, entry.data = entry.data, data
        entry.version += 1

        def undo() -> None:
            entry.data = before
            entry.version -= 1

        return undo

    def _insert(self, path: str, entry: _Entry) -> None:
        above, _, name = path.rpartition("/")
        parent = self.nodes.get(above)
        if parent is None or parent.kind is Kind.EPHEMERAL:
            raise Conflict(f"nothing can be below {above}")
        parent.children.add(name)
        self.nodes[path] = entry

    def _remove(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        del self.nodes[path]
        self.nodes[above].children.discard(name)

    def _sweep(self, paths: Sequence[str]) -> list[str]:
        """Remove containers whose last child has gone, at once, where ZooKeeper takes a minute."""
        removed: list[str] = []
        for path in paths:
            if path in self.nodes:
                continue
            above = path.rpartition("/")[0]
            while (parent := self.nodes.get(above)) and parent.kind is Kind.CONTAINER and not parent.children:
                self._remove(above)
                removed.append(above)
                above = above.rpartition("/")[0]
        return removed

    def _tell(self, changed: Sequence[str]) -> None:
        for tree in list(self.trees):
            tree.hear(changed)


def shared_store(name: str) -> MemoryStore:
    """The store of that name in this process; it goes when nobody uses it any more."""
    return _stores.setdefault(name, MemoryStore())
