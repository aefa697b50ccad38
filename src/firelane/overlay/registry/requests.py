"""What kazoo does not ask ZooKeeper for itself: containers, lasting watches on whole subtrees, many reads at once.

The numbers and layouts are those of ZooKeeper 3.6 and newer (its `zookeeper.jute` and `ZooDefs.OpCode`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kazoo.exceptions import EXCEPTIONS, ZookeeperError
from kazoo.protocol.serialization import (
    CheckVersion,
    MultiHeader,
    ZnodeStat,
    int_struct,
    multiheader_struct,
    read_buffer,
    read_string,
    stat_struct,
    write_buffer,
    write_string,
)
from kazoo.security import OPEN_ACL_UNSAFE

from firelane.overlay.registry.tree import Create, Kind, Operation, Put

CREATE, DELETE, EXISTS, GET, SET, CHILDREN, CREATE2, CONTAINER = 1, 2, 3, 4, 5, 8, 15, 19
RECURSIVE = 1  # of a watch that stays
ANY_WATCH = 3
_FLAGS = {Kind.PERSISTENT: 0, Kind.EPHEMERAL: 1, Kind.CONTAINER: 4}
_ANY = -1
END: bytes = multiheader_struct.pack(-1, True, -1)


def _acl() -> bytes:
    entries = [
        int_struct.pack(one.perms) + write_string(one.id.scheme) + write_string(one.id.id) for one in OPEN_ACL_UNSAFE
    ]
    return b"".join([int_struct.pack(len(entries)), *entries])


_ACL: bytes = _acl()


@dataclass(frozen=True, slots=True)
class Batch:
    """A transaction; its answer is None for each operation done, else the number of its error."""

    root: str
    operations: Sequence[Operation]
    type: ClassVar[int] = 14

    def serialize(self) -> bytes:
        """As ZooKeeper reads it."""
        return b"".join(self._each()) + END

    def _each(self) -> Iterator[bytes]:
        for one in self.operations:
            path = write_string(self.root + one.path)
            if isinstance(one, Create):
                kind = CONTAINER if one.kind is Kind.CONTAINER else CREATE
                body = path + write_buffer(one.data) + _ACL + int_struct.pack(_FLAGS[one.kind])
            else:
                kind = SET if isinstance(one, Put) else DELETE
                version = int_struct.pack(_ANY if one.version is None else one.version)
                body = path + (write_buffer(one.data) if isinstance(one, Put) else b"") + version
            yield bytes(MultiHeader(kind, False, -1).serialize()) + body

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> list[int | None]:
        """From ZooKeeper's answer."""
        return [found if isinstance(found, int) else None for found in _results(answer, offset)]


@dataclass(frozen=True, slots=True)
class Reads:
    """Nodes, or the names of their children, many at once; each is (data, stat), a list, or the number of an error."""

    paths: Sequence[str]
    kind: int
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        """As ZooKeeper reads it."""
        header = bytes(MultiHeader(self.kind, False, -1).serialize())
        return b"".join(header + write_string(path) + b"\0" for path in self.paths) + END

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> list[Any]:
        """From ZooKeeper's answer."""
        return list(_results(answer, offset))


@dataclass(frozen=True, slots=True)
class Watched:
    """Whether a node is there, and a watch on it that goes off once."""

    path: str
    type: ClassVar[int] = EXISTS

    def serialize(self) -> bytes:
        """As ZooKeeper reads it."""
        return bytes(write_string(self.path)) + b"\1"

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> None:
        """Nothing is needed of it."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A watch on a node and all below it that stays as long as the connection."""

    path: str
    type: ClassVar[int] = 106

    def serialize(self) -> bytes:
        """As ZooKeeper reads it."""
        return b"".join([write_string(self.path), int_struct.pack(RECURSIVE)])

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> None:
        """Nothing is needed of it."""


@dataclass(frozen=True, slots=True)
class Unwatched:
    """No watch of ours on a node any more."""

    path: str
    type: ClassVar[int] = 18

    def serialize(self) -> bytes:
        """As ZooKeeper reads it."""
        return b"".join([write_string(self.path), int_struct.pack(ANY_WATCH)])

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> None:
        """Nothing is needed of it."""


class NoWatcherError(ZookeeperError):  # type: ignore[misc]
    """There was no such watch, as it has just gone off."""

    code = -121


EXCEPTIONS.setdefault(NoWatcherError.code, NoWatcherError)  # kazoo's connection would end for an error it does not know


def _results(answer: bytes, offset: int) -> Iterator[Any]:
    """The parts of an answer to many: an error is its number."""
    while True:
        header, offset = MultiHeader.deserialize(answer, offset)
        if header.done:
            return
        found: Any = None
        if header.type == -1:
            found, offset = int_struct.unpack_from(answer, offset)[0], offset + int_struct.size
        elif header.type in (CREATE, CREATE2):
            _, offset = read_string(answer, offset)
            offset += stat_struct.size if header.type == CREATE2 else 0
        elif header.type == SET:
            offset += stat_struct.size
        elif header.type == GET:
            data, offset = read_buffer(answer, offset)
            found, offset = (data or b"", _stat(answer, offset)), offset + stat_struct.size
        elif header.type == CHILDREN:
            found, offset = _names(answer, offset)
        elif header.type not in (DELETE, CheckVersion.type):
            raise ValueError(f"an answer of type {header.type} is not known")
        yield found


def _stat(answer: bytes, offset: int) -> Any:
    return ZnodeStat._make(stat_struct.unpack_from(answer, offset))


def _names(answer: bytes, offset: int) -> tuple[list[str], int]:
    names = []
    number, offset = int_struct.unpack_from(answer, offset)[0], offset + int_struct.size
    for _ in range(number):
        name, offset = read_string(answer, offset)
        names.append(name)
    return names, offset
