"""Registries for tests, in memory and on ZooKeeper, and what befalls their sessions."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import asynccontextmanager, suppress
from itertools import count

from kazoo.client import KazooClient

from firelane.overlay.registry import Registry, TreeState
from firelane.overlay.registry.memory import MemoryTree
from firelane.overlay.registry.store import MemoryStore
from firelane.overlay.registry.zookeeper import ZookeeperTree

PATIENCE_S = 20.0
_roots = count(1)


def run(story):
    """A test's story, which may not take for ever."""
    asyncio.run(asyncio.wait_for(story, 2 * PATIENCE_S))


def _is(true):
    try:
        return true()
    except KeyError:  # it is not even there
        return False


async def until(true, patience_s=PATIENCE_S):
    """Wait until something is true."""
    end = time.monotonic() + patience_s
    while not _is(true):
        assert time.monotonic() < end, "it has not become true"
        await asyncio.sleep(0.01)


class InMemory:
    def __init__(self):
        self.store = MemoryStore()

    def tree(self):
        return MemoryTree(self.store)

    def registry(self):
        return Registry(self.tree())

    async def expire(self, tree):
        tree.expire()
        tree.resume()

    @asynccontextmanager
    async def dropped(self, tree):
        tree.suspend()
        yield
        tree.resume()


class OnZookeeper:
    def __init__(self, hosts):
        self.hosts = hosts
        self.root = f"/tests/{next(_roots)}"

    def tree(self):
        return ZookeeperTree(self.hosts, self.root, session_s=4)

    def registry(self):
        return Registry(self.tree(), wait_s=PATIENCE_S)

    async def expire(self, tree):
        """Somebody else closes the session, as ZooKeeper does when it has heard nothing for long."""
        session = tree.session
        other = KazooClient(self.hosts, client_id=tree._client.client_id, timeout=4)
        await asyncio.to_thread(other.start, PATIENCE_S)
        await asyncio.to_thread(other.stop)
        other.close()
        await until(lambda: tree.session != session and tree.state is TreeState.CONNECTED)

    @asynccontextmanager
    async def dropped(self, tree):
        """It connects again by itself, soon."""
        states = []
        tree.on_state(states.append)
        with suppress(OSError):
            tree._client._connection._socket.shutdown(socket.SHUT_RDWR)
        yield
        await until(lambda: TreeState.CONNECTED in states)


class Follower:
    """What a callback was told, in all and together."""

    def __init__(self):
        self.calls = []
        self.known = {}

    def __call__(self, changes):
        self.calls.append(changes)
        for name, value in changes.items():
            if value is None:
                del self.known[name]
            else:
                self.known[name] = value
