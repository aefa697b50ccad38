"""What edges and routers tell each other through a tree: who is there, who wants what, who routes which topic.

Implements: pubsubcoord, section 2.3 and Figure 2: topics with publishers and subscribers below them, routers, a leader.
Differs:    a leaf stands for all clients of an edge and a topic, with their number; filters with wildcards are kept
            with their edge; one watch covers a whole part of the tree; after a lost session all is declared anew.
Symbols:    endpoint -> a leaf below pub or sub, locator -> locator.
Checked by: tests/overlay/test_registry.py, tests/live/overlay/test_registry_faults.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Self, TypeVar

from firelane.overlay.registry.declarations import Declarations
from firelane.overlay.registry.documents import EdgeDocument, Load, RouterDocument, Wish
from firelane.overlay.registry.election import Assigned, Elected, Election, StaleLeader
from firelane.overlay.registry.feed import Changes, Feed, edges_feed, routers_feed, topics_feed
from firelane.overlay.registry.forgetting import forget_edge
from firelane.overlay.registry.known import EDGES, LEADER, ROUTERS, TOPICS, KnownEdge, KnownRouter, TopicState
from firelane.overlay.registry.last_moves import Batch, add_moves
from firelane.overlay.registry.mirror import Mirror
from firelane.overlay.registry.records import EdgeRecord, RouterRecord
from firelane.overlay.registry.status import Status, read_status
from firelane.overlay.registry.tree import Disconnected, RegistryError, Tree, TreeState
from firelane.overlay.registry.watching import Assigned as Routed
from firelane.overlay.registry.watching import TopicWatches
from firelane.overlay.registry.worker import Worker, tell

WAIT_S = 10.0
ROOMS = (EDGES, TOPICS, ROUTERS, LEADER)

Known = TypeVar("Known")
Record = TypeVar("Record", EdgeRecord, RouterRecord)


class Registry:
    """One broker's view of the registry and its part in it. Declaring returns at once; `settled` waits for the writing.

    While the registry is away everything known stays as it was; what is declared is written when it is back. Whoever is
    `patient` may begin while it is away.
    """

    def __init__(self, tree: Tree, *, wait_s: float = WAIT_S, patient: bool = False) -> None:
        self.tree = tree
        self._wait_s, self._patient = wait_s, patient
        self._told: list[Callable[[TreeState], None]] = []
        self._edge: EdgeRecord | None = None
        self._router: RouterRecord | None = None
        self._edges: Feed[KnownEdge] | None = None
        self._routers: Feed[KnownRouter] | None = None
        self._topics: Feed[TopicState] | None = None
        self._election: Election | None = None
        self._tasks: dict[Worker, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        """Connect; a RegistryError if nobody answers in time, unless one is patient."""
        self._rooms = _Rooms(self.tree, self._begin_anew)
        self._declarations = Declarations(self.tree)
        self._watches = TopicWatches(self.tree)
        self.tree.on_state(self._entered)
        await self.tree.open(None if self._patient else self._wait_s)
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        for worker in (self._rooms, self._declarations, self._watches):
            self._start(worker)
        return self

    async def __aexit__(self, *problem: object) -> None:
        """End the session: what belongs to it goes."""
        for task in self._tasks.values():
            task.cancel()
        cancelled = isinstance(problem[1], asyncio.CancelledError)  # by a fault of ours, perhaps
        try:
            await self._group.__aexit__(*(problem if cancelled else (None, None, None)))  # type: ignore[arg-type]
        finally:
            await self.tree.close()

    @property
    def state(self) -> TreeState:
        """Whether the registry answers; if not, what was known last still holds."""
        return self.tree.state

    def on_state(self, told: Callable[[TreeState], None]) -> None:
        """Tell of every change of the state."""
        self._told.append(told)

    @property
    def problems(self) -> tuple[RegistryError, ...]:
        """What cannot be read or written, though the registry answers."""
        mirrors = [feed.mirror for feed in (self._edges, self._routers, self._topics) if feed]
        read = [problem for mirror in mirrors for problem in mirror.problems.values()]
        read += self._watches.problems.values()
        return (*(worker.problem for worker in self._tasks if worker.problem), *read)

    @property
    def watches(self) -> int:
        """The most changes that this registry waits for at once: one for each watched topic, each kind of thing
        that it was asked to tell, and the leader."""
        kinds = sum(feed is not None for feed in (self._edges, self._routers, self._topics))
        return len(self._watches) + kinds + (self._election is not None)

    @property
    def operations(self) -> int:
        """How many nodes were made, changed and deleted to write what was declared."""
        return self._declarations.operations

    async def settled(self) -> None:
        """Wait until everything declared is written."""
        await self._declarations.settled()

    def announce_edge(self, name: str, boot: int, locator: str | None = None) -> None:
        """This broker is an edge, here from now on."""
        self._edge = EdgeRecord(self._declarations, name, EdgeDocument(boot=boot, locator=locator))

    def want(self, filters: Mapping[str, Wish]) -> None:
        """All filters that the edge's clients want."""
        self._announced(self._edge).want(filters)

    def unreached(self, routers: Iterable[str]) -> None:
        """The routers that live and that the edge cannot reach: others take another way to it."""
        self._announced(self._edge).unreached(tuple(sorted(routers)) or None)

    def endpoints(
        self, pub: Mapping[str, int], sub: Mapping[str, int], rates_hz: Mapping[str, float] | None = None
    ) -> None:
        """How many of the edge's clients publish and subscribe to which topics, and how often is published."""
        self._announced(self._edge).endpoints(pub, sub, rates_hz or {})

    async def taken(self) -> bool:
        """Whether another broker of the same name is there now; then this one writes nothing more."""
        return await self._declarations.taken()

    async def leave(self, *, lasting: Mapping[str, Wish] | None = None) -> None:
        """Take back what this broker has declared; for what is `lasting`, others keep messages until the edge is back.

        If another broker of the same name is there now, it is all that one's.
        """
        with suppress(Disconnected):
            if await self.taken():
                raise RegistryError("another broker of the same name is there; nothing is taken back in the registry")
        if self._edge:
            if lasting:
                self._edge.want(lasting)
            self._edge.leave(keep=bool(lasting))
        if self._router:
            self._router.leave()
        if self._election:
            self._tasks.pop(self._election).cancel()
            await self._election.resign()
        self._edge = self._router = self._election = None
        try:
            async with asyncio.timeout(self._wait_s):
                await self.settled()
        except TimeoutError:
            raise Disconnected(f"{self.tree.name} was not told that this broker leaves; it will notice") from None

    async def forget_edge(self, name: str) -> None:
        """Nobody need keep anything any more for an edge that will not come back; UnknownEdge, EdgeIsHere."""
        await forget_edge(self.tree, name)

    def on_edges(self, told: Callable[[Changes[KnownEdge]], None]) -> None:
        """Tell of all edges, then of those that have changed."""
        self._edges = self._edges or self._fed(edges_feed(self.tree))
        self._edges.tell(told)

    def on_routers(self, told: Callable[[Changes[KnownRouter]], None]) -> None:
        """Tell of all routers, then of those that have changed."""
        self._routers = self._routers or self._fed(routers_feed(self.tree))
        self._routers.tell(told)

    def on_topics(self, told: Callable[[Changes[TopicState]], None]) -> None:
        """Tell of all topics, then of those that have changed: what a leader needs."""
        self._topics = self._topics or self._fed(topics_feed(self.tree))
        self._topics.tell(told)

    async def stop_topics(self) -> None:
        """Tell no more of topics, and forget them: who does not lead does not need them."""
        if self._topics is not None:
            self._watches.highest = self._highest_epoch()
            feed, self._topics = self._topics, None
            await self._stop(feed.mirror)

    async def stop_edges(self) -> None:
        """Tell no more of edges, and forget them."""
        if self._edges is not None:
            feed, self._edges = self._edges, None
            await self._stop(feed.mirror)

    def watch_topic(self, topic: str, told: Routed) -> None:
        """Tell who routes a topic, now and whenever that changes."""
        self._watches.watch(topic, told)

    def unwatch_topic(self, topic: str) -> None:
        """No longer tell of it."""
        self._watches.unwatch(topic)

    def announce_router(self, name: str, boot: int, locator: str, capacity: float = 1.0) -> None:
        """This broker is a router, here from now on; one of twice the capacity is given twice as much."""
        document = RouterDocument(boot=boot, locator=locator, capacity=capacity)
        self._router = RouterRecord(self._declarations, name, document)

    def report(self, load: Load, topics: int = 0) -> None:
        """What the router has to do now."""
        self._announced(self._router).report(load, topics)

    def campaign(self, told: Elected) -> None:
        """Lead the routers whenever nobody else does; `told` hears whether this one leads and with which epoch."""
        router = self._announced(self._router)
        self._election = Election(self.tree, router.name, router.document.boot, told, self._highest_epoch)
        self._start(self._election)

    @property
    def epoch(self) -> int:
        """The last that this router took, as leader."""
        return 0 if self._election is None else self._election.epoch

    async def assign(self, assignments: Mapping[str, str | None], epoch: int) -> Assigned:
        """Write who routes topics; StaleLeader if this router does not lead with that epoch any more."""
        if self._election is None:
            raise StaleLeader("this broker", epoch)
        return await self._election.assign(assignments, epoch)

    async def add_moves(self, batches: Sequence[Batch]) -> None:
        """Write for people what was moved, beside the assignments and after what was moved before."""
        await add_moves(self.tree, batches)

    async def status(self) -> Status:
        """Everything that the registry knows now, read anew."""
        return await read_status(self.tree)

    def _start(self, worker: Worker) -> None:
        self._tasks[worker] = self._group.create_task(worker.run())

    async def _stop(self, mirror: Mirror) -> None:
        self._tasks.pop(mirror).cancel()
        with suppress(Disconnected):
            await mirror.stop()

    def _fed(self, feed: Feed[Known]) -> Feed[Known]:
        self._start(feed.mirror)
        return feed

    def _announced(self, record: Record | None) -> Record:
        if record is None:
            raise RegistryError("nothing can be declared before the broker is announced; announce it first")
        return record

    def _highest_epoch(self) -> int:
        known = self._topics.known.values() if self._topics else ()
        return max([self._watches.highest, *(one.assignment.epoch for one in known if one.assignment)])

    def _entered(self, state: TreeState) -> None:
        if self._election:
            self._election.entered(state)
        if state is TreeState.CONNECTED:
            self._rooms.wake()
        else:
            self._declarations.lost()
        for told in list(self._told):
            try:
                told(state)
            except Exception as problem:
                tell("a change of the registry's state was not taken", problem)

    def _begin_anew(self) -> None:
        for worker in self._tasks:
            worker.reconnected()


class _Rooms(Worker):
    """Makes the nodes that everything is below, after each connection, before anything else is asked of it."""

    def __init__(self, tree: Tree, done: Callable[[], None]) -> None:
        super().__init__(tree)
        self._done = done

    def reconnected(self) -> None:
        """It is the one who tells."""

    async def work(self) -> None:
        """Make them. Nobody waits for the answer: this is sent before others run, and requests are done in order."""
        self._done()
        await self.tree.ensure(ROOMS)
