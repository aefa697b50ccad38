"""A client that does everything right, and keeps its side of a session while connections and brokers come and go."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

from desk import Desk
from line import Line

from firelane.mqtt.packets import V3, V5, Ack, Connack, Disconnect, Kind, Packet, Publish, Suback
from firelane.mqtt.packets import Subscription as Wish

EXPIRY_S = 50
SHARED = "s"  # its order depends on whose turn it is when a publisher sends something again


@dataclass
class Publication:
    """A message that a client has published, and which sessions the broker owes it if it accepts it."""

    number: int
    publisher: str
    topic: str
    qos: int
    retain: bool
    expiry_s: int | None = None
    expires_at: float = math.inf
    accepted: bool = False
    owed: dict[tuple[str, int, int], int] = field(default_factory=dict)  # (client, session, QoS) -> copies
    again: bool = False  # was it sent again, so that it may come out of order?
    # Who is owed it from a shared group too. That is a record each, and a crash may leave only the first.
    twice: set[tuple[str, int]] = field(default_factory=set)
    expired: set[tuple[str, int]] = field(default_factory=set)  # whose copy was dropped as its time was over

    def owe(self, name: str, session: int, qos: int) -> None:
        """A client is to have a copy more."""
        qos = min(qos, self.qos)
        self.owed[name, session, qos] = self.owed.get((name, session, qos), 0) + 1
        if sum(self.owed.get((name, session, one), 0) for one in (1, 2)) > 1:
            self.twice.add((name, session))

    @property
    def payload(self) -> bytes:
        return b"%040d" % self.number  # long enough to fill segments


@dataclass(frozen=True)
class State:
    """What the broker should know of a client's session; `session` counts them, 0 is none."""

    session: int = 0
    lasts: bool = False
    subscriptions: dict[str, int] = field(default_factory=dict)
    left_at: float | None = None  # when its connection was lost


@dataclass
class Client:
    """Answers only what it was sent on this connection, in order, when it is told to."""

    desk: Desk
    name: str
    version: int
    window: int
    aliases: int = 0
    line: Line | None = None
    state: State = field(default_factory=State)
    history: list[tuple[int, State]] = field(default_factory=list)  # with the position in the log behind each
    sessions: int = 0

    unacknowledged: dict[int, Publication] = field(default_factory=dict)
    releasing: set[int] = field(default_factory=set)  # of these: PUBREC came
    to_answer: list[Ack] = field(default_factory=list)
    open_ids: dict[int, bytes] = field(default_factory=dict)  # on this connection, not answered to the end
    finished: dict[bytes, int] = field(default_factory=dict)  # QoS 1, acknowledged: the position in the log behind it
    settled: set[tuple[int, bytes]] = field(default_factory=set)  # those that the log knew of in a crash
    held: dict[int, bytes] = field(default_factory=dict)  # QoS 2, taken and not released
    topics: dict[int, str] = field(default_factory=dict)  # by alias
    had: Counter[tuple[int, int, int]] = field(default_factory=Counter)  # (session, number, QoS)
    new: Counter[tuple[int, int, int]] = field(default_factory=Counter)  # of these: since a crash, not sent again
    last: dict[tuple[int, str, str, int, int], int] = field(default_factory=dict)  # number of the newest
    publications: dict[int, Publication] = field(default_factory=dict)  # everybody's

    @property
    def expired(self) -> bool:
        """Whether the session has outlived its time; in MQTT 3.1.1 it never does."""
        left_at = self.state.left_at
        return left_at is not None and self.version == V5 and self.desk.now >= left_at + EXPIRY_S

    # ---- what it does

    def connect(self, *, clean: bool, lasts: bool) -> None:
        if self.version == V3:
            lasts = not clean
        properties = {"session_expiry_interval": EXPIRY_S if lasts else 0, "receive_maximum": self.window,
                      "topic_alias_maximum": self.aliases}  # fmt: skip
        resumed = self.state.lasts and not self.expired and not clean
        left = replace(self.state, left_at=self.desk.now)
        self.forget_connection()
        self.line = self.desk.dial(self.version)
        self.line.connect(self.name, clean_start=clean, properties=properties if self.version == V5 else {})
        connack = self.line.connack
        assert isinstance(connack, Connack)
        assert connack.reason == 0
        assert connack.session_present == resumed, self.name
        self.history.append((self.desk.log.appended, left))  # on the way, if a connection was taken over
        if not resumed:
            self.history.append((self.desk.log.appended, State()))
            self._begin_anew()
        self.become(replace(self.state, lasts=lasts, left_at=None))
        if not (resumed and lasts):
            # CONNACK does not wait for the log, so a crash now would bring back what the client has given up.
            self.desk.commit()
        self._send_again()

    def _begin_anew(self) -> None:
        self.sessions += 1
        self.state = State(self.sessions)
        self.unacknowledged.clear()
        self.releasing.clear()
        self.held.clear()

    def _send_again(self) -> None:
        for packet_id, publication in list(self.unacknowledged.items()):
            if packet_id in self.releasing:
                self.to_answer.append(Ack(kind=Kind.PUBREL, packet_id=packet_id))
            else:
                self._send(publication, packet_id, again=True)

    def lose(self) -> None:
        """The connection is over, whoever ended it."""
        self.forget_connection()
        self.become(replace(self.state, left_at=self.desk.now) if self.state.lasts else State())

    def forget_connection(self) -> None:
        """What was sent and not answered will be sent again."""
        self.line = None
        self.to_answer.clear()
        self.open_ids.clear()
        self.topics.clear()

    def become(self, state: State) -> None:
        """Remember what the broker should know, and how much of the log tells it so."""
        self.state = state
        self.history.append((self.desk.log.appended, state))

    def crashed(self, committed: int) -> None:
        """The broker is gone, and only so much of its log was on disk."""
        self.forget_connection()
        known = [payload for payload, position in self.finished.items() if position <= committed]
        self.settled.update((self.state.session, payload) for payload in known)
        self.finished.clear()
        self.new.clear()

    def publish(self, publication: Publication) -> None:
        packet_id = next(one for one in range(1, 99) if one not in self.unacknowledged) if publication.qos else 0
        if publication.qos:
            self.unacknowledged[packet_id] = publication
        self._send(publication, packet_id, again=False)

    def _send(self, publication: Publication, packet_id: int, *, again: bool) -> None:
        publication.again |= again
        survived = again and publication.qos == 2 and packet_id in self.desk.session(self.name).received
        before = {name: (one.totals.due, bool(one.replaying)) for name, one in self.desk.broker.sessions.items()}
        properties = {} if publication.expiry_s is None else {"message_expiry_interval": publication.expiry_s}
        if properties and not survived:
            publication.expires_at = self.desk.now + publication.expiry_s
        self.line.publish(publication.topic, publication.payload, qos=publication.qos, packet_id=packet_id,
                          retain=publication.retain, duplicate=again, properties=properties)  # fmt: skip
        if not survived:
            self.on_accepted(publication, before)

    def subscribe(self, topic_filter: str, qos: int) -> None:
        self.line.subscribe(Wish(filter=topic_filter, qos=qos))
        self.become(replace(self.state, subscriptions={**self.state.subscriptions, topic_filter: qos}))

    def unsubscribe(self, topic_filter: str) -> None:
        self.line.unsubscribe(topic_filter)
        left = {name: qos for name, qos in self.state.subscriptions.items() if name != topic_filter}
        self.become(replace(self.state, subscriptions=left))

    def answer(self, count: int) -> None:
        for _ in range(min(count, len(self.to_answer))):
            answer = self.to_answer.pop(0)
            payload = self.open_ids.pop(answer.packet_id, b"") if answer.kind in (Kind.PUBACK, Kind.PUBCOMP) else b""
            self.line.send(answer)
            if answer.kind is Kind.PUBACK and self.state.lasts:
                self.finished[payload] = self.desk.log.appended

    def on_accepted(self, publication: Publication, before: dict[str, tuple[int, bool]]) -> None:
        """The broker has taken a message in; whoever plays with this client knows what follows."""

    # ---- what it sees

    def read(self) -> None:
        line = self.line
        if line is None:
            return
        for packet in line.take_all():
            self._see(packet)
        assert len(self.open_ids) <= self.window
        if line.closed and self.line is line:
            self.lose()

    def _see(self, packet: Packet) -> None:
        match packet:
            case Publish():
                self._see_message(packet)
            case Ack(kind=Kind.PUBREL):
                self.held.pop(packet.packet_id, None)
                self.to_answer.append(Ack(kind=Kind.PUBCOMP, packet_id=packet.packet_id))
            case Ack():
                self._see_answer(packet)
            case Suback() | Disconnect():
                pass
            case _:
                raise AssertionError(f"{packet} was not expected")

    def _see_answer(self, packet: Ack) -> None:
        publication = self.unacknowledged[packet.packet_id]
        assert packet.reason < 0x80 or packet.kind is Kind.PUBCOMP
        if packet.kind is Kind.PUBREC:
            self.releasing.add(packet.packet_id)
            self.to_answer.append(Ack(kind=Kind.PUBREL, packet_id=packet.packet_id))
        else:
            assert (packet.kind is Kind.PUBCOMP) == (packet.packet_id in self.releasing)
            self.releasing.discard(packet.packet_id)
            del self.unacknowledged[packet.packet_id]
        publication.accepted = True

    def _see_message(self, packet: Publish) -> None:
        alias = packet.properties.get("topic_alias")
        if alias is not None:
            assert alias <= self.aliases
            self.topics[alias] = packet.topic or self.topics[alias]
        topic = packet.topic or self.topics[alias]
        if packet.qos:
            assert packet.packet_id not in self.open_ids, "an identifier is used twice"
            self.open_ids[packet.packet_id] = b"" if packet.retain else packet.payload
            kind = Kind.PUBACK if packet.qos == 1 else Kind.PUBREC
            self.to_answer.append(Ack(kind=kind, packet_id=packet.packet_id))
        if packet.qos == 2 and packet.packet_id in self.held:
            assert packet.duplicate
            assert packet.payload == self.held[packet.packet_id], "an identifier is used for another message"
            return
        if packet.qos == 2:
            self.held[packet.packet_id] = packet.payload
        if packet.payload.isdigit():
            self._check_time(self.publications[int(packet.payload)], packet)
            if not packet.retain:
                self._have(topic, packet)

    def _check_time(self, publication: Publication, packet: Publish) -> None:
        """Nothing is sent for the first time when its time is over; QoS 2 may wait for the log after it was sent."""
        left_s = publication.expires_at - self.desk.now
        # times that come back from the log are rounded
        assert left_s > -1e-3 or packet.duplicate or packet.qos == 2, f"{self.name} had {publication.number} too late"
        if self.version == V5 and not publication.again:
            told = packet.properties.get("message_expiry_interval", math.inf)
            assert told >= left_s - 1e-3
            assert told > 0 or packet.duplicate
            assert told <= left_s + 1 + 1e-3 or packet.duplicate or packet.qos == 2  # whole seconds, rounded up

    def _have(self, topic: str, packet: Publish) -> None:
        publication = self.publications[int(packet.payload)]
        assert publication.topic == topic
        session, number = self.state.session, publication.number
        key = (session, number, packet.qos)
        self.had[key] += 1
        if packet.qos < 2 and not packet.duplicate and not publication.again:
            self.new[key] += 1
            assert self.new[key] <= publication.owed[self.name, session, packet.qos], f"{number} came twice"
        once = not publication.again and (self.name, session) not in publication.twice
        assert not (once and packet.qos == 1 and (session, packet.payload) in self.settled), f"{number} came again"
        if packet.qos == 2:
            assert self.had[key] <= publication.owed[self.name, session, 2], f"{self.name} had {number} too often"
        if packet.qos and self.had[key] == 1 and topic != SHARED and not publication.again:
            stream = (session, publication.publisher, topic, packet.qos)
            assert number > self.last.get(stream, 0), f"{self.name} had {number} too late"
            self.last[stream] = number
