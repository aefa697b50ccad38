"""What a broker says of itself in the registry: it declares what should be there, and the differences are written.

What is not known for certain, at the beginning and after each connection, is read first, many nodes at once; then only
what differs is written, so all of it can be repeated at any time. Transactions wait for each other only where the order
matters: what has a later turn, and last what is to go, is written once all that comes before it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from firelane.overlay.registry.tree import Conflict, Create, Delete, Kind, Node, Operation, Put, RegistryError, Tree
from firelane.overlay.registry.worker import Worker

OPERATIONS_AT_ONCE = 300
BYTES_AT_ONCE = 400_000
AGAIN_S = 0.02  # after conflicts, longer each time
LONGEST_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A node that should be there, below these, which are made where they are missing.

    One that is `guarded` says who its broker is: it is looked at before each change, and left alone if another broker
    of the same name has taken it. One with a later `turn` may still hold what is to move to one with an earlier.
    """

    data: bytes
    kind: Kind
    above: tuple[Create, ...] = ()
    guarded: bool = False
    turn: int = 0


Aims = dict[str, Declared | None]


class Declarations(Worker):
    """The nodes of one broker; those that differ from what is declared are written turn by turn, those of one turn in
    the order of the calls."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self.wanted: dict[str, Declared] = {}
        self.operations = 0  # done so far
        self._alone: set[str] = set()
        self._unlisted: set[str] = set()  # of these, where it is not known what is left over
        self._certain: dict[str, bytes] = {}
        self._made: set[str] = set()  # ephemeral nodes that were ours in this life
        self._guarded: set[str] = set()
        self._due: dict[str, None] = {}
        self._connections = 0
        self._lost = False  # the connection; whether a new one was seen to
        self._settled = asyncio.Event()
        self._settled.set()

    def declare(self, path: str, declared: Declared | None) -> None:
        """A node should be like this, or should not be."""
        if self.wanted.get(path) == declared and path not in self._due:
            return
        if declared is None:
            self.wanted.pop(path, None)
        else:
            self.wanted[path] = declared
            if declared.guarded:
                self._guarded.add(path)
        self._due.pop(path, None)
        self._add([path])

    def alone_below(self, path: str) -> None:
        """Nobody else writes below this node: what is there and is not declared is left over, and deleted."""
        self._alone.add(path)
        self._unlisted.add(path)
        self._add([path])

    async def taken(self) -> bool:
        """Whether another broker of the same name has taken what was this one's."""
        paths = sorted(self._guarded & self._made)
        nodes = await self.tree.read(paths) if paths else []
        taken = any(node is not None and node.owner != self.tree.session for node in nodes)
        if taken:
            self._add(paths)  # which are refused, and with them all that would be written besides
        return taken

    async def settled(self) -> None:
        """Wait until all is written."""
        await self._settled.wait()

    def lost(self) -> None:
        """The connection is lost: nothing is settled until all was looked at again."""
        self._lost = True
        if self.wanted:
            self._settled.clear()

    def reconnected(self) -> None:
        """What is there may be different, above all when the session is new."""
        self._lost = False
        self._connections += 1
        self._certain.clear()
        self._unlisted |= self._alone
        self._add(self.wanted)

    async def work(self) -> None:
        """Write until nothing differs."""
        pause_s = AGAIN_S
        while self._due:
            aims = {path: self.wanted.get(path) for path in self._due}
            self._due.clear()
            try:
                left = await self._write(aims)
            except BaseException:
                self._again(aims)
                raise
            if left:
                self._again(left)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_AGAIN_S)
        if not self._lost:
            self._settled.set()

    def _add(self, paths: Iterable[str]) -> None:
        self._due |= dict.fromkeys(paths)
        if self._due:
            self._settled.clear()
            self.wake()

    def _again(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._certain.pop(path, None)
        self._due = dict.fromkeys(paths) | self._due

    async def _write(self, aims: Aims) -> list[str]:
        """Write what differs; the paths where that is left to be done, as others wrote too or the connection is new."""
        connection, session = self._connections, self.tree.session
        parents = [path for path in self._unlisted if path in aims]
        found = await self._left_over(parents) | aims
        aims = {path: found[path] for path in sorted(found, key=lambda path: _turn(found[path]))}
        # Another connection may come while this is looked at: then all is due once more, and nothing is certain.
        certain = {path: self._certain[path] for path in aims.keys() - self._guarded if path in self._certain}
        there = await self._look(aims, certain)
        made: set[str] = set()
        steps = {path: list(self._steps(path, aim, certain, there, made, session)) for path, aim in aims.items()}
        left: list[str] = []
        for wave in _waves(_batches(steps), aims):
            if left or connection != self._connections:
                left += [path for batch in wave for path in batch]
            else:
                left += await self._send(wave, steps)
        self.operations += sum(map(len, steps.values())) - sum(len(steps[path]) for path in left)
        if connection == self._connections:
            self._remember(aims, frozenset(left))
            self._unlisted.difference_update(parents)
        return left

    async def _send(self, wave: Sequence[Sequence[str]], steps: Mapping[str, Sequence[Operation]]) -> list[str]:
        """Do these transactions; the paths of those that could not be done, as others wrote too."""
        sent = [self.tree.transact([one for path in batch for one in steps[path]]) for batch in wave]
        done = await asyncio.gather(*sent, return_exceptions=True)
        for end in done:
            if end is not None and not isinstance(end, Conflict):
                raise end
        return [path for batch, end in zip(wave, done, strict=True) if end is not None for path in batch]

    def _remember(self, aims: Aims, left: frozenset[str]) -> None:
        for path, aim in aims.items():
            if aim is not None and path not in left:
                self._certain[path] = aim.data
                if aim.kind is Kind.EPHEMERAL:
                    self._made.add(path)
            else:
                self._certain.pop(path, None)
                if path not in left:
                    self._made.discard(path)

    async def _left_over(self, parents: Sequence[str]) -> Aims:
        """Nodes below these that an earlier life of this broker has left."""
        listed = await self.tree.children(parents) if parents else []
        paths = [f"{above}/{name}" for above, names in zip(parents, listed, strict=True) for name in names]
        return {path: None for path in paths if path not in self.wanted}

    async def _look(self, aims: Aims, certain: Mapping[str, bytes]) -> dict[str, Node | None]:
        paths = [path for path in aims if path not in certain]
        above = {one.path: None for path in paths if (aim := aims[path]) for one in aim.above}
        every = [*above, *paths]
        return dict(zip(every, await self.tree.read(every) if every else [], strict=True))

    def _steps(
        self,
        path: str,
        aim: Declared | None,
        certain: Mapping[str, bytes],
        there: Mapping[str, Node | None],
        made: set[str],
        session: int,
    ) -> Iterator[Operation]:
        """From what is there to what should be."""
        if path in certain:
            if aim is None:
                yield Delete(path=path)
            elif certain[path] != aim.data:
                yield Put(path=path, data=aim.data)
            return
        node = there[path]
        taken = node is not None and node.owner not in (0, session) and path in self._made
        if aim is None:
            if node is not None and not taken:
                yield Delete(path=path)
            return
        yield from (one for one in aim.above if there[one.path] is None and one.path not in made)
        made.update(one.path for one in aim.above)
        if node is not None and aim.kind is Kind.EPHEMERAL and node.owner != session:
            if taken:
                raise RegistryError(f"{path} was taken by another broker of the same name; rename or stop one of them")
            yield Delete(path=path)  # it is of an earlier life of this broker, and would go with its session
            node = None
        if node is None and path not in made:
            yield Create(path=path, data=aim.data, kind=aim.kind)
            made.add(path)
        elif node is None or node.data != aim.data:
            yield Put(path=path, data=aim.data, version=None if node is None else node.version)


def _turn(aim: Declared | None) -> float:
    """When it is written; what is to go goes last."""
    return inf if aim is None else aim.turn


def _waves(batches: Iterable[list[str]], aims: Aims) -> Iterator[list[list[str]]]:
    """Batches in their order, together where none need wait for another: all are of one turn."""
    wave: list[list[str]] = []
    for batch in batches:
        if wave and _turn(aims[wave[0][0]]) < _turn(aims[batch[-1]]):
            yield wave
            wave = []
        wave.append(batch)
    if wave:
        yield wave


def _batches(steps: Mapping[str, Sequence[Operation]]) -> Iterator[list[str]]:
    """Paths whose steps go into one transaction."""
    batch: list[str] = []
    operations = size = 0
    for path, own in steps.items():
        bytes_more = sum(len(one.path) + (0 if isinstance(one, Delete) else len(one.data)) for one in own)
        if batch and (operations + len(own) > OPERATIONS_AT_ONCE or size + bytes_more > BYTES_AT_ONCE):
            yield batch
            batch, operations, size = [], 0, 0
        if own:
            batch.append(path)
            operations += len(own)
            size += bytes_more
    if batch:
        yield batch
