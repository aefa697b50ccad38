"""What an edge has done for it: the state machines return these, and whoever owns sockets carries them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from firelane.overlay.messages.notes import Note
from firelane.overlay.messages.stamp import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A message that a local client has published, as the local exchange hands it over."""

    topic: str
    payload: bytes
    qos: int
    number: int
    retain: bool = False
    first: int = 0  # of a retained message that is told again: the number that it had when it was published
    only: tuple[str, ...] | None = None  # edges that it is told again to, if not all that want it
    packet_id: int = 0  # of QoS 1 and 2: what is acknowledged once every interested edge has it
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """What keeping it costs, near enough."""
        return _size_bytes(self.payload, self.properties)


@dataclass(frozen=True, slots=True)
class Forward:
    """Publish a message at a router: to all who want its topic, or to one edge."""

    router: str
    copy: Copy
    stamp: Stamp
    edge: str | None = None


@dataclass(frozen=True, slots=True)
class Direct:
    """Send a message to another edge without a router, as a second copy; if that cannot be, it does not matter."""

    edge: str
    copy: Copy
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell the local exchange that it need not keep a message for others any longer."""

    packet_id: int
    qos: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """Publish a message from another site here; once it is safe, `committed` is to be told."""

    topic: str
    payload: bytes
    properties: dict[str, Any]
    stamp: Stamp

    @property
    def size_bytes(self) -> int:
        """What holding it costs, near enough."""
        return _size_bytes(self.payload, self.properties)


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a note to another edge, through this router if that can be, else through any."""

    edge: str
    note: Note
    router: str | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Find out who routes a topic, and say so again whenever that changes."""

    topic: str


@dataclass(frozen=True, slots=True)
class Unwatch:
    """That is no longer of interest."""

    topic: str


def _size_bytes(payload: bytes, properties: dict[str, Any]) -> int:
    return len(payload) + (len(repr(properties)) if properties else 0)


Action = Forward | Direct | Acknowledge | Deliver | Tell | Watch | Unwatch
