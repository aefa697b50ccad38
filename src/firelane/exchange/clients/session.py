"""What the exchange remembers of a client, connected or not (MQTT 5, section 4.1). Data only, no I/O, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firelane.exchange.lanes.lane import LOWEST, Delivery, Dropped, Lane, State
from firelane.exchange.lanes.message import NEVER
from firelane.mqtt.packets import Will
from firelane.mqtt.topics import SHARED

if TYPE_CHECKING:
    from firelane.exchange.clients.access import Identity
    from firelane.exchange.clients.connection import Connection
    from firelane.exchange.delivering.routes import Copy
    from firelane.exchange.lanes.link import Link

LAST_PACKET_ID = 65_535
MOST_CARRIERS = 1000


@dataclass(slots=True, eq=False, kw_only=True)
class Subscription:
    """One filter of a session and its options; `group` is the name of a shared subscription."""

    session: Session
    filter: str  # as the client wrote it
    topics: str  # without $share/NAME/
    qos: int
    lane: Lane
    group: str = ""
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    profile: str | None = None  # by which a need was asked for
    wishes: tuple[tuple[str, str], ...] = ()  # and what the client's properties said of it
    partly: bool = False  # access rules deny some of the topics that it matches
    copy: Copy | None = None  # what the session gets of topics that no other of its filters matches
    location: int = 0  # of its record in the log, and its size
    size_bytes: int = 0


@dataclass(slots=True)
class Totals:
    """Running totals of deliveries."""

    due: int = 0
    delivered: int = 0
    dropped: list[int] = field(default_factory=lambda: [0] * len(Dropped))

    def add(self, one: Lane | Totals) -> None:
        """Add those of another."""
        self.due += one.due
        self.delivered += one.delivered
        self.dropped = [mine + its for mine, its in zip(self.dropped, one.dropped, strict=True)]


@dataclass(slots=True, eq=False, kw_only=True)
class Session:
    """A client's session: who it is, what it subscribed to, and what it is owed.

    It is `durable` while it outlives its connection. `number` tells it apart in the log. What it is owed waits in its
    lanes, one for each subscription, and for former ones until nothing is owed on them.
    """

    number: int
    client_id: str
    identity: Identity
    connection: Connection | None = None
    link: Link | None = None  # that it sits on, or last sat on
    subscriber: str | None = None  # the scenario's name for it
    best_class: int = LOWEST  # of its lanes
    expiry_s: float = 0.0  # set with `lasts`
    durable: bool = False
    expires_at: float = NEVER  # while it is away
    will: Will | None = None
    will_at: float = NEVER
    rings_at: float = NEVER  # when it is next looked at, see Broker.ring
    location: int = 0  # of its record in the log, and its size
    size_bytes: int = 0

    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    carriers: dict[bytes, Lane] = field(default_factory=dict)  # of several lanes, the one whose backlog has a topic
    unsure: bool = False  # there may be topics in a backlog that `carriers` does not know
    overlaps: bool = False  # set with `overlap`
    blocked: dict[Lane, None] = field(default_factory=dict)  # lanes that wait for the client to take more
    queued: int = 0  # messages that wait in memory
    stored: int = 0  # and in the log
    replaying: dict[Lane, None] = field(default_factory=dict)  # lanes with retained messages still to be sent
    in_flight: dict[int, Delivery] = field(default_factory=dict)
    again: deque[Delivery] = field(default_factory=deque)  # of these: to be sent again, in this order
    last_packet_id: int = 0
    # QoS 2 messages from it that it has not released: packet identifier -> location and size of the record.
    received: dict[int, tuple[int, int]] = field(default_factory=dict)
    holding_until: int = 0  # nothing may overtake what waits for the log to be committed up to here
    past: Totals = field(default_factory=Totals)  # of lanes that are no more

    @property
    def name(self) -> str:
        """What plans and metrics call it: the scenario's name for it, else its client id."""
        return self.subscriber or self.client_id

    @property
    def waits(self) -> bool:
        """Whether something is still to be sent to it."""
        return bool(self.queued or self.stored or self.replaying)

    @property
    def fresh(self) -> int:
        """Messages that wait in memory and were not sent before."""
        return self.queued - len(self.again)

    def lasts(self, expiry_s: float) -> None:
        """How long it outlives its connection."""
        self.expiry_s = expiry_s
        self.durable = expiry_s > 0

    def let_go(self) -> None:
        """It is over: it and its lanes no longer hold each other."""
        for lanes in (self.lanes, self.carriers, self.blocked, self.replaying):
            lanes.clear()

    def lane(self, topic_filter: str) -> Lane:
        """The lane of a filter, made if there is none yet."""
        lane = self.lanes.get(topic_filter)
        if lane is None:
            self.unsure = self.unsure or (len(self.lanes) == 1 and self.stored > 0)
            lane = self.lanes[topic_filter] = Lane(self, topic_filter)
            if self.overlaps:
                lane.count_topics()
        return lane

    def overlap(self) -> None:
        """Several of its filters match one topic, so which lane carries it has to be looked at from now on."""
        if not self.overlaps:
            self.overlaps = True
            for lane in self.lanes.values():
                lane.count_topics()

    def stored_one(self, topic: bytes, lane: Lane) -> None:
        """One more message waits in the log; remember in which of several lanes."""
        self.stored += 1
        if len(self.lanes) > 1 and not lane.filter.startswith(SHARED):
            if len(self.carriers) < MOST_CARRIERS or topic in self.carriers:
                self.carriers[topic] = lane
            else:
                self.unsure = True

    def fetched_one(self) -> None:
        """One less."""
        self.stored -= 1
        if not self.stored:
            self.carriers.clear()
            self.unsure = False

    def former(self) -> tuple[Lane, ...]:
        """Lanes of subscriptions that are no more, which may still have something to deliver."""
        gone = (lane for one, lane in self.lanes.items() if one not in self.subscriptions)
        return tuple(lane for lane in gone if not (lane.idle or lane.filter.startswith(SHARED)))

    def carrier(self, topic: bytes, lanes: Sequence[Lane], present: Lane) -> Lane | None:
        """Which of several lanes may have a topic in its backlog; where that is not known, rather the present one."""
        lane = self.carriers.get(topic)
        if lane is not None and lane in lanes and lane.backlog:
            return lane
        several = [one for one in lanes if one.backlog] if self.unsure else []
        return several[0] if len(several) == 1 else present if present in several else None

    def rank(self) -> None:
        """See which class is its best."""
        self.best_class = min((one.klass for one in self.lanes.values()), default=LOWEST)

    def tidy(self) -> list[Lane]:
        """Let go of lanes that have no subscription any more and on which nothing is owed; returns them."""
        gone = []
        for topic_filter in [one for one in self.lanes if one not in self.subscriptions]:
            lane = self.lanes[topic_filter]
            if not lane.owed and lane.idle:
                self.past.add(lane)
                gone.append(self.lanes.pop(topic_filter))
        return gone

    @property
    def totals(self) -> Totals:
        """Of all its deliveries."""
        totals = Totals()
        totals.add(self.past)
        for lane in self.lanes.values():
            totals.add(lane)
        return totals

    @property
    def owed(self) -> int:
        """Deliveries that are due and neither made nor dropped."""
        flying = sum(one.state is not State.RELEASED and not one.waiting for one in self.in_flight.values())
        return flying + self.queued + self.stored

    def next_packet_id(self) -> int:
        """A packet identifier that is not in use (MQTT-2.2.1-4)."""
        packet_id = self.last_packet_id
        while True:
            packet_id = packet_id + 1 if packet_id < LAST_PACKET_ID else 1
            if packet_id not in self.in_flight:
                self.last_packet_id = packet_id
                return packet_id


def new_subscription(
    session: Session,
    topic_filter: str,
    *,
    qos: int,
    no_local: bool = False,
    retain_as_published: bool = False,
    identifier: int = 0,
    profile: str | None = None,
    wishes: Iterable[tuple[str, str]] = (),
) -> Subscription:
    """A subscription of a session; a shared one is taken apart into its group and its filter."""
    group, topics = "", topic_filter
    if topic_filter.startswith(SHARED):
        _, group, topics = topic_filter.split("/", 2)
    return Subscription(
        session=session,
        filter=topic_filter,
        topics=topics,
        lane=session.lane(topic_filter),
        group=group,
        qos=qos,
        no_local=no_local,
        retain_as_published=retain_as_published,
        identifier=identifier,
        profile=profile,
        wishes=tuple((name, text) for name, text in wishes),
    )
