"""A lane: one subscription's way to its subscriber. Its class, its drop rate, what waits in it, what came of it.

Lanes outlive their subscription for as long as something is still owed on them. Data only, no I/O, no clock.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import TYPE_CHECKING

from firelane.exchange.lanes.message import Message
from firelane.scenario.model import MOST_PRIORITIES, Need

if TYPE_CHECKING:
    from firelane.exchange.clients.session import Session, Subscription

LOWEST = MOST_PRIORITIES - 1
EVERYTHING = 1 << 64
POSITION_BITS = 16  # of the place of a copy among those of one message
_MASK = EVERYTHING - 1
_NUMBERS = count(1)


class Dropped(IntEnum):
    """Why a delivery that was due did not happen."""

    POLICY = 0  # on purpose: its lane's drop rate
    OVERFLOW = 1
    EXPIRED = 2
    DISCONNECTED = 3
    TOO_LARGE = 4
    SUPERSEDED = 5  # a newer message of the same topic took its place


class State(IntEnum):
    """How far a delivery of QoS 1 or 2 has come."""

    WAITING = 0
    SENT = 1  # until PUBACK or PUBREC
    RELEASED = 2  # PUBREL sent, until PUBCOMP


class Delivery:
    """One copy of a message for one session, while it waits or is in flight.

    `order` tells which of two came first. `location` and `size_bytes` say where the log has it (0: nowhere). A copy
    that waits for a client that is away keeps no message in memory, only where it is.
    """

    __slots__ = (
        "arrived",
        "duplicate",
        "held_bytes",
        "identifiers",
        "lane",
        "location",
        "message",
        "order",
        "packet_id",
        "qos",
        "retain",
        "sequence",
        "size_bytes",
        "state",
        "waiting",
    )

    def __init__(
        self,
        lane: Lane,
        message: Message | None,
        sequence: int,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        arrived: float,
    ) -> None:
        self.lane = lane
        self.message = message
        self.sequence = sequence
        self.order = sequence << POSITION_BITS
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.arrived = arrived  # at the exchange; 0: before it was last started
        self.packet_id = 0
        self.state = State.WAITING
        self.waiting = False  # in the queue of its lane
        self.held_bytes = 0  # what it then counts for
        self.duplicate = False
        self.location = 0
        self.size_bytes = 0


class Backlog:
    """Where in the log the messages lie that a lane has yet to be given: 12 bytes each, first in, first out."""

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
        if len(several) > self._head:
            room = len(several) + len(self) // 2  # for those to come, or each would move all others
            self._locations = array("Q", bytes(8 * room)) + self.locations()
            self._sizes = array("I", bytes(4 * room)) + self.sizes()
            self._head = room
        self._head -= len(several)
        for at, (location, size_bytes) in enumerate(several, self._head):
            self._locations[at] = location
            self._sizes[at] = size_bytes

    def locations(self) -> array[int]:
        """Where everything that waits lies."""
        return self._locations[self._head :]

    def sizes(self) -> array[int]:
        """And how large it is."""
        return self._sizes[self._head :]


@dataclass(slots=True)
class Replay:
    """The retained messages that a new subscription is still to be sent; looked for when its turn comes."""

    subscription: Subscription
    topics: Iterator[bytes | None] | None = None


NOTHING: deque[Delivery] = deque(maxlen=0)  # stands for an empty queue; most lanes never need one of their own
_NO_BACKLOG = Backlog()


class Lane:
    """One subscription's lane: how it is treated, what waits in it, and running totals of what came of it.

    What waits does so in three places, oldest first: `queue` (in memory, counted by its link), `backlog` (in the log),
    `replay` (retained messages still to be looked for).
    """

    __slots__ = (
        "backlog",
        "best_class",
        "blocked",
        "by_topic",
        "bytes",
        "delays_s",
        "delta",
        "done",
        "drop_rate",
        "dropped",
        "due",
        "entry",
        "filter",
        "flow",
        "key",
        "klass",
        "merged",
        "moves",
        "need",
        "number",
        "passed",
        "queue",
        "reliable",
        "replay",
        "session",
        "share",
        "suppressed",
        "threshold",
        "topics",
        "unmerged",
    )

    def __init__(self, session: Session, topic_filter: str) -> None:
        self.session = session
        self.filter = topic_filter
        self.number = next(_NUMBERS)
        identity = f"{session.client_id}\0{topic_filter}".encode()
        self.key = int.from_bytes(hashlib.blake2b(identity, digest_size=8).digest(), "little")
        self.need = Need()
        self.best_class = 0  # it may not be put above this one
        self.flow: int | None = None
        self.klass = LOWEST
        self.drop_rate = 0.0
        self.threshold = 0  # a message is dropped whose hash lies below
        self.delta: float | None = None  # precision of streams of sensors: its tolerance, or wider by plan

        self.queue = NOTHING  # its link puts deliveries there
        self.reliable = 0  # messages of QoS 1 and 2 among these
        self.moves = 0  # from class to class
        self.backlog = _NO_BACKLOG
        self.replay: Replay | None = None
        self.entry: tuple[int, int, Lane] | None = None  # where it stands in line on its link
        self.blocked = False  # its client takes nothing more for now
        self.by_topic: dict[bytes, Delivery] | None = None  # `keep: latest`: what waits of each topic
        self.topics: Counter[bytes] | None = None  # what waits, where other lanes of its session may carry the same

        self.due = 0
        self.passed = 0  # delivered without having waited
        self.done = 0  # delivered otherwise
        self.merged = 0  # carried by another lane of the same session
        self.unmerged = 0  # of these: dropped there on purpose
        self.suppressed = 0  # updates of sensors that it need not be sent
        self.share = 1.0  # of the updates that it would get at its tolerance, what a wider delta leaves, about
        self.bytes = 0
        self.dropped = [0] * len(Dropped)
        self.delays_s = array("d")  # of the last few, until they are counted

    @property
    def delivered(self) -> int:
        """Deliveries made."""
        return self.passed + self.done

    @property
    def owed(self) -> int:
        """Deliveries that are due and neither made nor dropped."""
        return self.due - self.delivered - sum(self.dropped)

    def take_delays(self) -> array[float]:
        """The delays noted since this was last asked."""
        taken, self.delays_s = self.delays_s, array("d")
        return taken

    @property
    def idle(self) -> bool:
        """Whether nothing waits in it; something may be in flight."""
        return not (self.queue or self.backlog or self.replay)

    def count_topics(self) -> None:
        """From now on know of which topics messages wait in memory; those that are to be sent again do not count."""
        self.topics = Counter(one.message.topic for one in self.queue if one.message is not None)

    def treat(self, klass: int, drop_rate: float, flow: int | None = None, delta: float | None = None) -> None:
        """Give it a class, which its link knows of, and a drop rate or a precision, as far as its need allows."""
        tolerance = self.need.tolerance
        self.klass = klass
        self.drop_rate = 0.0 if tolerance is not None else drop_rate
        self.delta = None if tolerance is None else max(tolerance, delta or 0.0)
        self.threshold = round(self.drop_rate * EVERYTHING)
        self.flow = flow

    def want(self, need: Need, best_class: int) -> None:
        """Take on another need; whoever does this has it treated anew."""
        self.need, self.best_class = need, best_class
        latest = need.keep == "latest"
        if latest != (self.by_topic is not None):
            self.by_topic = {} if latest else None

    def store(self, location: int, size_bytes: int) -> None:
        """Let a message wait in the log."""
        if self.backlog is _NO_BACKLOG:
            self.backlog = Backlog()
        self.backlog.append(location, size_bytes)

    def store_first(self, several: list[tuple[int, int]]) -> None:
        """Let messages wait in the log before all others there."""
        if self.backlog is _NO_BACKLOG:
            self.backlog = Backlog()
        self.backlog.prepend(several)


def hash64(boot: int, sequence: int, key: int) -> int:
    """A message's hash for a lane: uniform over 64 bits, independent between lanes and between messages.

    The message is (boot number of the exchange, ingress sequence); mixed as splitmix64 finishes a number.
    """
    mixed = (boot + sequence * 0x9E37_79B9_7F4A_7C15 ^ key) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D0_49BB_1331_11EB & _MASK
    return mixed ^ mixed >> 31
