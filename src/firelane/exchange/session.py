"""What the exchange remembers of a client, connected or not (MQTT 5, section 4.1). Data only, no I/O, no clock."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from firelane.exchange.message import NEVER, Message
from firelane.mqtt.packets import Will

if TYPE_CHECKING:
    from firelane.exchange.access import Identity
    from firelane.exchange.connection import Connection
    from firelane.exchange.routes import Copy

LAST_PACKET_ID = 65_535


class Dropped(IntEnum):
    """Why a delivery that was due did not happen."""

    OVERFLOW = 0
    EXPIRED = 1
    DISCONNECTED = 2
    TOO_LARGE = 3


@dataclass(slots=True, eq=False, kw_only=True)
class Subscription:
    """One filter of a session and its options; `group` is the name of a shared subscription."""

    session: Session
    filter: str  # as the client wrote it
    topics: str  # without $share/NAME/
    qos: int
    group: str = ""
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    partly: bool = False  # access rules deny some of the topics that it matches
    copy: Copy | None = None  # what the session gets of topics that no other of its filters matches
    location: int = 0  # of its record in the log, and its size
    size_bytes: int = 0


class State(IntEnum):
    """How far a delivery of QoS 1 or 2 has come."""

    WAITING = 0
    SENT = 1  # until PUBACK or PUBREC
    RELEASED = 2  # PUBREL sent, until PUBCOMP


class Delivery:
    """One copy of a message for one session, while it waits or is in flight.

    `location` and `size_bytes` say where the log has it (0: nowhere). A copy that waits for a client that is
    away keeps no message in memory, only where it is.
    """

    __slots__ = (
        "duplicate",
        "identifiers",
        "location",
        "message",
        "packet_id",
        "qos",
        "retain",
        "sequence",
        "size_bytes",
        "state",
    )

    def __init__(self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...]) -> None:
        self.message: Message | None = message
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.sequence = message.sequence
        self.packet_id = 0
        self.state = State.WAITING
        self.duplicate = False
        self.location = 0
        self.size_bytes = 0


class Backlog:
    """Where in the log the messages lie that a session has yet to be sent: 12 bytes each, first in, first out."""

    __slots__ = ("_head", "_locations", "_sizes")

    def __init__(self) -> None:
        self._locations = array("Q")
        self._sizes = array("I")
        self._head = 0

    def __len__(self) -> int:
        return len(self._locations) - self._head

    def append(self, location: int, size_bytes: int) -> None:
        """One more at the end."""
        self._locations.append(location)
        self._sizes.append(size_bytes)

    def popleft(self) -> tuple[int, int]:
        """The oldest: its location and size."""
        at = self._head
        self._head += 1
        oldest = self._locations[at], self._sizes[at]
        if self._head > 1024 and self._head * 2 > len(self._locations):
            del self._locations[: self._head]
            del self._sizes[: self._head]
            self._head = 0
        return oldest

    def prepend(self, several: list[tuple[int, int]]) -> None:
        """Put these back before all others, in their order."""
        self._locations = array("Q", [one[0] for one in several]) + self._locations[self._head :]
        self._sizes = array("I", [one[1] for one in several]) + self._sizes[self._head :]
        self._head = 0

    def locations(self) -> array[int]:
        """Where everything that waits lies."""
        return self._locations[self._head :]


@dataclass(slots=True, eq=False, kw_only=True)
class Session:
    """A client's session: who it is, what it subscribed to, and what it is owed.

    It is `durable` while it outlives its connection. `number` tells it apart in the log.
    Messages it is owed wait in three places, oldest first: `resend` (in flight when a connection was lost), `queue` (in
    memory), `backlog` (in the log); then come `replays` (subscriptions whose retained messages are still to be sent).
    """

    number: int
    client_id: str
    identity: Identity
    connection: Connection | None = None
    expiry_s: float = 0.0  # set with `lasts`
    durable: bool = False
    expires_at: float = NEVER  # while it is away
    will: Will | None = None
    will_at: float = NEVER
    rings_at: float = NEVER  # when it is next looked at, see Broker.ring
    location: int = 0  # of its record in the log, and its size
    size_bytes: int = 0

    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    resend: deque[Delivery] = field(default_factory=deque)
    queue: deque[Delivery] = field(default_factory=deque)
    queue_bytes: int = 0
    backlog: Backlog = field(default_factory=Backlog)
    replays: deque[Replay] = field(default_factory=deque)
    in_flight: dict[int, Delivery] = field(default_factory=dict)
    last_packet_id: int = 0
    # QoS 2 messages from it that it has not released: packet identifier -> location and size of the record.
    received: dict[int, tuple[int, int]] = field(default_factory=dict)
    holding_until: int = 0  # nothing may overtake what waits for the log to be committed up to here

    due: int = 0
    delivered: int = 0
    dropped: list[int] = field(default_factory=lambda: [0] * len(Dropped))

    @property
    def waits(self) -> bool:
        """Whether something is still to be sent to it."""
        return bool(self.queue or self.resend or self.backlog or self.replays)

    def lasts(self, expiry_s: float) -> None:
        """How long it outlives its connection."""
        self.expiry_s = expiry_s
        self.durable = expiry_s > 0

    @property
    def owed(self) -> int:
        """Deliveries that are due and neither made nor dropped."""
        connection = self.connection
        unsent = connection.unsent if connection is not None else 0
        released = sum(one.state is State.RELEASED for one in self.in_flight.values())
        return len(self.in_flight) - released + len(self.queue) + len(self.backlog) + unsent

    def next_packet_id(self) -> int:
        """A packet identifier that is not in use (MQTT-2.2.1-4)."""
        packet_id = self.last_packet_id
        while True:
            packet_id = packet_id + 1 if packet_id < LAST_PACKET_ID else 1
            if packet_id not in self.in_flight:
                self.last_packet_id = packet_id
                return packet_id


@dataclass(slots=True)
class Replay:
    """The retained messages that a new subscription is still to be sent; looked for when its turn comes."""

    subscription: Subscription
    topics: Iterator[bytes | None] | None = None
