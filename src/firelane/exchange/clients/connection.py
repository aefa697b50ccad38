"""One connection as the session logic sees it: bytes that came, bytes to go, and what was agreed in CONNECT."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from firelane.exchange.lanes.message import NEVER
from firelane.mqtt.packets import V3, V5, Connect
from firelane.mqtt.reasons import Reason

if TYPE_CHECKING:
    from firelane.exchange.clients.session import Session
    from firelane.exchange.lanes.link import Link
    from firelane.exchange.lanes.message import Message

LARGEST_PACKET = 268_435_460
MQTT_SN = "sn-1.2"


class FromUpstream(Protocol):
    """Deals with what only a broker sends."""

    def handled(self, first: int, body: bytes) -> bool:
        """Whether this packet was one of those."""
        ...


class Gate(Protocol):
    """Stands before a client that speaks another protocol: what it can be sent, and when."""

    @property
    def most_bytes(self) -> int:
        """The largest payload of a message that the client can be sent."""
        ...

    def fits(self, message: Message) -> bool:
        """Whether the client can be sent this message at all."""
        ...

    def ready(self, message: Message) -> bool:
        """Whether it can be sent now; if not, whoever drives the connection says when to look again."""
        ...


class Conduit(Protocol):
    """Carries a connection's bytes: over a socket of its own, or over one that it shares with others."""

    connection: Connection
    link: Link | None

    def write(self, data: bytes) -> None:
        """Bytes to the client."""
        ...

    def sit_on(self, link: Link | None) -> None:
        """The client is on this link."""
        ...

    def close(self) -> None:
        """Close after what was written."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...

    def pause_reading(self) -> None:
        """Read nothing for now."""
        ...

    def resume_reading(self) -> None:
        """Read on, unless there is a reason not to."""
        ...

    def tcp_info(self) -> bytes | None:
        """What the kernel says of the connection, if it does."""
        ...


class Phase(IntEnum):
    """Where a connection is in its life."""

    NEW = 0  # CONNECT has not come
    CHECKING = 1  # a password is being checked
    OPEN = 2
    CLOSING = 3  # what is in the outbox is still sent, nothing is read


class Connection:
    """Plain state; whoever owns the socket writes `outbox`, obeys `phase` and `reading`, and reports what happens."""

    __slots__ = (
        "address",
        "alias_limit",
        "aliases_in",
        "aliases_out",
        "allowed",
        "asked",
        "deferred",
        "deferred_bytes",
        "direct",
        "driver",
        "fast",
        "gate",
        "heard_at",
        "keep_alive_s",
        "largest_out",
        "last_record",
        "needed",
        "numbered",
        "opened_at",
        "outbox",
        "outbox_bytes",
        "partial",
        "partial_since",
        "phase",
        "problem_information",
        "publish_credit",
        "publish_credit_at",
        "reading",
        "reason",
        "session",
        "stalled_until",
        "unacknowledged",
        "upstream",
        "user",
        "version",
        "window",
        "window_used",
        "writable",
    )

    def __init__(self, address: str, now: float, *, user: str | None = None, driver: object = None) -> None:
        self.address = address
        self.driver = driver  # whoever owns the socket; not looked into here
        self.user = user  # named by a client certificate
        self.upstream: FromUpstream | None = None  # set where the other side is a broker
        self.phase = Phase.NEW
        self.version = V3
        self.session: Session | None = None
        self.asked: Connect | None = None
        self.opened_at = now
        self.reason: Reason | None = None  # why it was closed from here

        # Coming in.
        self.partial: bytearray | None = None
        self.partial_since = now
        self.needed = 0
        self.heard_at = now
        self.keep_alive_s = 0.0
        self.reading = True
        self.stalled_until = 0.0
        self.fast = False  # messages may take the short way
        self.allowed: set[bytes] | None = None  # topics known to be allowed; None: all are
        self.aliases_in: dict[int, bytes] = {}
        self.deferred: list[tuple[int, bytes]] = []  # PUBLISH packets that wait for room: flags and body
        self.deferred_bytes = 0
        self.unacknowledged = 0  # QoS 1 and 2 received, not yet acknowledged
        self.last_record = 0  # position in the log after its last message
        self.publish_credit = NEVER
        self.publish_credit_at = now

        # Going out.
        self.outbox: list[bytes] = []
        self.outbox_bytes = 0  # counted only where much may be written at once
        self.writable = True
        self.gate: Gate | None = None  # a message must pass it, and none goes straight into the outbox
        self.numbered = False  # copies say which message they are of
        self.direct = False  # a QoS 0 message may go straight into the outbox
        self.window = 0
        self.window_used = 0
        self.largest_out = LARGEST_PACKET
        self.alias_limit = 0
        self.aliases_out: dict[bytes, int] = {}
        self.problem_information = True

    @property
    def protocol(self) -> str:
        """What the client speaks: a version of MQTT, or of MQTT-SN."""
        return MQTT_SN if self.gate is not None else "5" if self.version == V5 else "3.1.1"
