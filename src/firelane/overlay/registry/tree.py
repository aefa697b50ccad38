"""What a registry is kept in: a tree of small nodes that many sessions share, some of which go with their session.

ZooKeeper is one; `memory` is another, for tests and for brokers in one process. Paths are relative to its root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from firelane.errors import FirelaneError

SESSION_S = 6.0  # without a sign of life, and a session is ended
MOST_BATCH_BYTES = 1_000_000  # ZooKeeper takes requests of up to 1 048 575 bytes


class RegistryError(FirelaneError):
    """A registry that cannot be used, or something in it that cannot be read."""


class Disconnected(RegistryError):  # noqa: N818  a state, not a fault
    """The registry does not answer now; whether what was asked for was done is not known."""


class Conflict(Exception):  # noqa: N818  an answer, not a fault
    """Nothing of a batch was done, as the tree is not as it was thought to be."""


class Kind(Enum):
    """How long a node stays: until it is deleted, as long as its session, or until its last child has gone."""

    PERSISTENT = "persistent"
    EPHEMERAL = "ephemeral"
    CONTAINER = "container"


class TreeState(Enum):
    """Whether a session can be used; after `EXPIRED` its ephemeral nodes are gone."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a node holds: `owner` is the session of an ephemeral one, else 0; `children` how many it has."""

    data: bytes
    version: int
    owner: int = 0
    children: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Make a node whose parent is there and which is not."""

    path: str
    data: bytes = b""
    kind: Kind = Kind.PERSISTENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Give a node other data, if it has this version (or any)."""

    path: str
    data: bytes
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove a node without children, if it has this version (or any)."""

    path: str
    version: int | None = None


Operation = Create | Put | Delete
Heard = Callable[[str], None]  # of the path that has changed


def check_size(operations: Sequence[Operation]) -> None:
    """Refuse what ZooKeeper would end the connection for."""
    size = sum(len(one.path) + (0 if isinstance(one, Delete) else len(one.data)) + 100 for one in operations)
    if size > MOST_BATCH_BYTES:
        raise RegistryError(
            f"{size} bytes for {operations[0].path} are more than the registry takes at once ({MOST_BATCH_BYTES}); "
            "use fewer or shorter names"
        )


class Tree(Protocol):
    """One session on a tree. All of it belongs to one event loop; callbacks are made in it."""

    @property
    def name(self) -> str:
        """How its users know it."""

    @property
    def state(self) -> TreeState:
        """Whether it can be used now."""

    @property
    def session(self) -> int:
        """The number of the session, another one after each expiry."""

    def on_state(self, told: Callable[[TreeState], None]) -> None:
        """Tell of every change of the state."""

    async def open(self, wait_s: float | None) -> None:
        """Connect; a RegistryError if nobody answers in time. Without a time, it is tried for as long as it takes."""

    async def close(self) -> None:
        """End the session, and with it its ephemeral nodes."""

    async def ensure(self, paths: Sequence[str]) -> None:
        """Make persistent nodes, and those above them, where they are missing."""

    async def read(self, paths: Sequence[str], heard: Heard | None = None) -> list[Node | None]:
        """The nodes at these paths; `heard` is called once for each that changes, comes or goes afterwards.

        That is over with the connection: whoever has asked for it asks again when there is one.
        """

    async def children(self, paths: Sequence[str]) -> list[list[str]]:
        """The names of each node's children, none where there is no node."""

    async def follow(self, path: str, heard: Heard) -> None:
        """Call back for every change of a node and of all below it, until the connection ends."""

    async def unfollow(self, paths: Sequence[str], heard: Heard) -> None:
        """No longer wait for changes of these, whether once or for good."""

    async def transact(self, operations: Sequence[Operation]) -> None:
        """Do all of this or, with a Conflict, nothing. Calls made one after another are done in that order, without
        waiting for the answers in between."""
