"""A tree in ZooKeeper (3.6 or newer), by kazoo.

kazoo's threads hand everything over to the event loop in the order in which it came: answers, changes, the state of the
session. Requests do not wait for each other's answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from threading import Lock
from typing import Any

from firelane.overlay.registry.tree import (
    SESSION_S,
    Conflict,
    Create,
    Disconnected,
    Heard,
    Node,
    Operation,
    RegistryError,
    TreeState,
    check_size,
)

if find_spec("kazoo") is None:
    raise RegistryError("ZooKeeper needs kazoo, which is not installed; run `pip install 'firelane[overlay]'`")

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError, ZookeeperError
from kazoo.protocol.states import KazooState, KeeperState

from firelane.overlay.registry.client import LONGEST_RECONNECT_S, Answer, Client
from firelane.overlay.registry.requests import CHILDREN, GET, Batch, Followed, Reads, Unwatched, Watched

READS_AT_ONCE = 500
_ROLLED_BACK, _NOT_TRIED = 0, -2  # operations of a batch that another one has spoilt

_STATES = {KazooState.CONNECTED: TreeState.CONNECTED, KazooState.SUSPENDED: TreeState.SUSPENDED}


class ZookeeperTree:
    """A session on ZooKeeper that is renewed by itself; `hosts` is `host:port,...`."""

    def __init__(self, hosts: str, root: str, *, session_s: float = SESSION_S) -> None:
        self.name = f"zookeeper://{hosts}{root}"
        self.state = TreeState.CLOSED
        self.session = 0
        self._hosts = hosts
        self._root = root.rstrip("/")
        self._session_s = session_s
        self._listeners: list[Callable[[TreeState], None]] = []
        self._once: dict[str, list[Heard]] = {}
        self._following: list[tuple[str, Heard]] = []
        self._handed_over: list[Callable[[], None]] = []
        self._called = False
        self._lock = Lock()  # of the two above
        self._closing = True

    def on_state(self, told: Callable[[TreeState], None]) -> None:
        """Tell of every change of the state."""
        self._listeners.append(told)

    async def open(self, wait_s: float | None) -> None:
        """Connect; a RegistryError if nobody answers in time. Without a time, it is tried for as long as it takes."""
        self._loop = asyncio.get_running_loop()
        self._first = asyncio.Event()
        self._closing = False
        self._start()
        if wait_s is None:
            return
        try:
            async with asyncio.timeout(wait_s):
                await self._first.wait()
        except TimeoutError:
            await self.close()
            raise RegistryError(
                f"no ZooKeeper answers at {self._hosts} within {wait_s:g} s; start it, or correct its address"
            ) from None

    async def close(self) -> None:
        """End the session, and with it its ephemeral nodes."""
        if not self._closing:
            self._closing = True
            await self._loop.run_in_executor(None, self._client.end)
            self._enter(TreeState.CLOSED)

    async def ensure(self, paths: Sequence[str]) -> None:
        """Make persistent nodes, and those above them, where they are missing."""
        wanted: dict[str, None] = {}
        for path in paths:
            parts = (self._root + path).split("/")
            wanted |= {"/".join(parts[:depth]): None for depth in range(2, len(parts) + 1)}
        await asyncio.gather(*[self._ask(Batch("", [Create(path=path)])) for path in wanted])

    async def read(self, paths: Sequence[str], heard: Heard | None = None) -> list[Node | None]:
        """The nodes at these paths; `heard` is called once for each that changes, comes or goes afterwards."""
        watches, reads = [], []
        for part in _parts(paths):
            watches += [self._watched(path, heard) for path in part] if heard else []
            reads.append(self._ask(Reads([self._full(path) for path in part], GET)))
        await asyncio.gather(*watches)
        return [_node(found) for answer in await asyncio.gather(*reads) for found in answer]

    async def children(self, paths: Sequence[str]) -> list[list[str]]:
        """The names of each node's children, none where there is no node."""
        parts = _parts([self._full(path) for path in paths])
        answers = await asyncio.gather(*[self._ask(Reads(part, CHILDREN)) for part in parts])
        return [[] if isinstance(found, int) else sorted(found) for answer in answers for found in answer]

    async def follow(self, path: str, heard: Heard) -> None:
        """Call back for every change of a node and of all below it, until the connection ends."""
        sent = self._ask(Followed(self._full(path)))
        if (path, heard) not in self._following:
            self._following.append((path, heard))
        await sent

    async def unfollow(self, paths: Sequence[str], heard: Heard) -> None:
        """No longer wait for changes of these, whether once or for good."""
        gone = frozenset(paths)
        for path in gone:
            self._once.pop(path, None)
        self._following = [one for one in self._following if one[0] not in gone or one[1] != heard]
        await asyncio.gather(*[self._ask(Unwatched(self._full(path))) for path in gone], return_exceptions=True)

    async def transact(self, operations: Sequence[Operation]) -> None:
        """Do all of this or, with a Conflict, nothing."""
        check_size(operations)
        answer = await self._ask(Batch(self._root, operations))
        for operation, error in zip(operations, answer, strict=True):
            if error not in (None, _ROLLED_BACK, _NOT_TRIED):
                raise Conflict(f"{operation.path}: error {error} of ZooKeeper")

    def from_thread(self, call: Callable[[], None]) -> None:
        """Make a call in the event loop, after those handed over before."""
        with self._lock:
            self._handed_over.append(call)
            if self._called:
                return
            self._called = True
        try:
            self._loop.call_soon_threadsafe(self._take_over)
        except RuntimeError:  # the loop was closed before the session
            self._closing = True

    def told(self, problem: Exception) -> Exception:
        """What kazoo says, in our words."""
        if isinstance(problem, ConnectionLoss | SessionExpiredError | ConnectionClosedError):
            return self._away()
        if isinstance(problem, ZookeeperError):
            return RegistryError(f"{self.name} refuses: {type(problem).__name__}; is it 3.6 or newer, and open to us?")
        return RegistryError(f"{self.name}: kazoo failed: {type(problem).__name__}: {problem}")  # and is started anew

    def _take_over(self) -> None:
        with self._lock:
            calls, self._handed_over, self._called = self._handed_over, [], False
        for call in calls:
            call()

    def _start(self) -> None:
        self._client = client = Client(self._hosts, self._session_s, self._heard_in_thread)
        client.add_listener(lambda state: self.from_thread(partial(self._changed, client, state, client._session_id)))
        client.start_async()

    def _changed(self, client: Client, state: str, session: int | None) -> None:
        if self._closing or client is not self._client:
            return
        if state == KazooState.CONNECTED:
            self.session = session or 0
            self._first.set()
        elif client.client_state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED):  # kazoo has given up
            self._loop.call_later(LONGEST_RECONNECT_S, self._restart, client)
        self._enter(_STATES.get(state, TreeState.EXPIRED))

    def _restart(self, client: Client) -> None:
        if not self._closing and client is self._client:
            self._loop.run_in_executor(None, client.give_up)
            self._start()

    def _enter(self, state: TreeState) -> None:
        if state is not TreeState.CONNECTED:
            self._once.clear()
            self._following.clear()
        self.state = state
        for told in list(self._listeners):
            told(state)

    def _heard_in_thread(self, path: str) -> None:
        self.from_thread(partial(self._heard, path[len(self._root) :]))

    def _heard(self, path: str) -> None:
        for heard in self._once.pop(path, []):
            heard(path)
        for above, heard in self._following:
            if path == above or path.startswith(above + "/"):
                heard(path)

    def _full(self, path: str) -> str:
        return (self._root + path) or "/"

    def _watched(self, path: str, heard: Heard) -> asyncio.Future[Any]:
        waiting = self._once.setdefault(path, [])
        if heard not in waiting:
            waiting.append(heard)
        return self._ask(Watched(self._full(path)))

    def _ask(self, request: Any) -> asyncio.Future[Any]:
        """Send a request at once; its answer may be awaited, or not."""
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(_looked_at)
        if self.state is TreeState.CONNECTED:
            self._client._call(request, Answer(future, self.from_thread, self.told))
        else:
            future.set_exception(self._away())
        return future

    def _away(self) -> Disconnected:
        return Disconnected(f"{self.name} does not answer now ({self.state.value}); it is tried again and again")


def _looked_at(future: asyncio.Future[Any]) -> None:
    """Of many requests that fail together, one is told."""
    if not future.cancelled():
        future.exception()


def _parts(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(paths), READS_AT_ONCE):
        yield paths[first : first + READS_AT_ONCE]


def _node(found: Any) -> Node | None:
    if isinstance(found, int):
        return None
    data, stat = found
    return Node(data=data, version=stat.version, owner=stat.ephemeralOwner, children=stat.numChildren)
