"""A part of the tree, read once and then kept up to date by what is heard of changes.

One watch serves for the whole of it. While the registry is away, what was known last stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from firelane.overlay.registry.tree import RegistryError, Tree
from firelane.overlay.registry.worker import Worker, tell

FEW = 500  # nodes whose children are asked for before it is known whether they have any
MOST_ROUNDS = 100  # of reading, before what changes all the time is told in between

Parse = Callable[[str, bytes], Any]  # of a path below the mirrored one; None for what is of no interest
Group = dict[str, Any]  # the documents of one node and those below it, by the rest of their paths
Changed = Callable[[set[str]], None]  # names of nodes right below the mirrored one


class Mirror(Worker):
    """The documents below a path, in groups by the first segment; `changed` is told which groups have changed.

    What cannot be read is left out, and told in `problems`.
    """

    def __init__(self, tree: Tree, path: str, parse: Parse, changed: Changed) -> None:
        super().__init__(tree)
        self.path = path
        self.groups: dict[str, Group] = {}
        self.problems: dict[str, RegistryError] = {}
        self.complete = asyncio.Event()
        self._parse = parse
        self._changed = changed
        self._data: dict[str, bytes] = {}
        self._dirty: set[str] = set()
        self._read: dict[str, bytes | None] = {}  # and not yet taken
        self._whole = False  # everything was
        self._stale = True
        self.wake()

    def reconnected(self) -> None:
        """Everything may have changed."""
        self._stale = True
        self.wake()

    async def work(self) -> None:
        """Read everything if need be, then what has changed."""
        if self._stale:
            await self._read_all()
        for _ in range(MOST_ROUNDS):
            self._take_quiet()
            if not self._dirty or self._stale:
                return
            await self._read_dirty()
        self._take_quiet(all_of_it=True)
        self.wake()

    async def stop(self) -> None:
        """Hear no more."""
        await self.tree.unfollow([self.path], self._heard)

    async def _read_all(self) -> None:
        self._stale = False
        self._dirty.clear()
        self._read.clear()
        try:
            _, found = await asyncio.gather(  # requests are done in the order in which they are sent
                self.tree.follow(self.path, self._heard), read_below(self.tree, self.path)
            )
        except RegistryError:
            self._stale = True
            raise
        self._read = {**dict.fromkeys(self._data.keys() - found.keys()), **found}
        self._whole = True

    async def _read_dirty(self) -> None:
        paths = list(self._dirty)
        self._dirty.clear()
        try:
            nodes = await self.tree.read(paths)
        except RegistryError:
            self._dirty.update(paths)
            raise
        self._read |= {path: node.data if node else None for path, node in zip(paths, nodes, strict=True)}

    def _take_quiet(self, *, all_of_it: bool = False) -> None:
        """Take what was read of groups of which nothing has changed since: their nodes belong together.

        A change is heard of before an answer shows it, so what is not known to have changed is as new as the rest.
        """
        loud = set() if all_of_it else {self._group(path) for path in self._dirty}
        quiet = {path: data for path, data in self._read.items() if self._group(path) not in loud}
        self._read = {path: data for path, data in self._read.items() if path not in quiet}
        if quiet or self._whole:
            self.take(quiet)
        if self._whole:
            self._whole = False
            self.complete.set()

    def _group(self, path: str) -> str:
        return path[len(self.path) + 1 :].partition("/")[0]

    def _heard(self, path: str) -> None:
        if path != self.path:
            self._dirty.add(path)
            self.wake()

    def take(self, found: Mapping[str, bytes | None]) -> None:
        """Nodes as they are now; None for those that have gone."""
        changed = {self._take(path, data) for path, data in found.items() if self._data.get(path) != data}
        if not changed and self.complete.is_set():
            return
        try:
            self._changed(changed)
        except Exception as problem:
            tell("a change of the registry was not taken", problem)

    def _take(self, path: str, data: bytes | None) -> str:
        """Put one node where it belongs; which group that is."""
        first, _, rest = path[len(self.path) + 1 :].partition("/")
        group = self.groups.setdefault(first, {})
        self.problems.pop(path, None)
        group.pop(rest, None)
        if data is None:
            self._data.pop(path, None)
        else:
            self._data[path] = data
            self._put(group, rest, path, data)
        if not group:
            del self.groups[first]
        return first

    def _put(self, group: Group, rest: str, path: str, data: bytes) -> None:
        try:
            document = self._parse(path[len(self.path) + 1 :], data)
        except RegistryError as problem:
            self.problems[path] = problem
            return
        if document is not None:
            group[rest] = document


async def read_below(tree: Tree, path: str) -> dict[str, bytes]:
    """The data of all nodes below a path. Where there are few, what is below them is asked for in the same breath."""
    found: dict[str, bytes] = {}
    parents: Sequence[str] = [path]
    listed = await tree.children(parents)
    while paths := [f"{above}/{name}" for above, names in zip(parents, listed, strict=True) for name in names]:
        guess = tree.children(paths if len(paths) <= FEW else [])
        nodes, listed = await asyncio.gather(tree.read(paths), guess)
        here = {one: node for one, node in zip(paths, nodes, strict=True) if node is not None}
        found |= {one: node.data for one, node in here.items()}
        parents = paths
        if len(paths) > FEW:
            parents = [one for one, node in here.items() if node.children]
            listed = await tree.children(parents) if parents else []
    return found
