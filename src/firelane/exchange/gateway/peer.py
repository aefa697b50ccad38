"""A client on UDP as a connection of the broker: its datagrams become packets of MQTT 5, and packets become datagrams.

MQTT 5 and not 3.1.1, as it can say no to a message, and MQTT-SN can pass that on. What the client says is dealt with in
`asking` and `entering`, what the broker answers in `telling`, and messages to the client in `sending`. A client that
sleeps is a connection that takes nothing more until it asks (MQTT-SN 1.2, section 6.14), so what comes meanwhile waits
in its lanes like everything else, within the same bounds.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from firelane.exchange.clients.connection import Connection, Phase
from firelane.exchange.gateway import telling
from firelane.exchange.gateway.sending import Sending
from firelane.exchange.protocol import connecting
from firelane.mqtt import packets as mqtt
from firelane.mqtt.decode import packets
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5
from firelane.mqtt.reasons import Reason
from firelane.mqtt.sn import encode as sn
from firelane.mqtt.sn.messages import Connect, Disconnect, Kind, Message, Plain, TopicKind, WillTopic

if TYPE_CHECKING:
    from firelane.exchange.gateway.listener import Address, Listener
    from firelane.exchange.lanes.link import Link

LONGEST_KEEP_ALIVE_S = 65_535  # of who asks for none: nothing else tells that a client on UDP is gone
AWAKE_S = 10.0  # that a sleeping client is sent what has come meanwhile, at most
MOST_ASKED = 100  # requests of one client that wait for their answer


class State(Enum):
    """Where a client is in its life."""

    ENTERING = 0
    ACTIVE = 1
    ASLEEP = 2
    AWAKE = 3  # for a moment, to be sent what waits
    GONE = 4


class Peer:
    """The client at one address."""

    def __init__(self, listener: Listener, address: Address, now: float) -> None:
        self.connection = Connection(str(address[0]), now, driver=self)
        self.link: Link | None = None
        self.state = State.ENTERING
        self.proven = False  # it has sent more than its introduction, which anybody may send in anybody's name
        self.silent = False  # it need not be told that it was let go
        self.listener = listener
        self.broker = listener.server.broker
        self.address = address
        self.hello: Connect | None = None
        self.will_topic: WillTopic | None = None  # while its message has not come
        self.sending = Sending(listener.settings, self.broker.counts, self.out, self.lost, listener.clock)
        self.connection.gate = self.sending
        self._asked: dict[int, tuple[TopicKind, int | str]] = {}
        self._woken_at = now
        self._promised_s = 0.0  # how long a new session is to last, once it has shown that it is there

    # ---- for those who deal with messages

    def pass_on(self, packet: mqtt.Packet, now: float) -> None:
        """Tell the broker what the client says."""
        if self.connection.phase is not Phase.CLOSING:
            self.broker.received(self.connection, encode(packet, V5), now)

    def say(self, message: Message) -> None:
        """Tell the client something that the broker knows nothing of; it takes its time on the link all the same."""
        self.out(sn.encode(message), own=True)

    def out(self, datagram: bytes, *, own: bool = False) -> None:
        """Send a datagram; what is the gateway's `own` has not been counted on the link yet."""
        if own and self.link is not None and self.link.paced:
            self.link.charge(len(datagram))
        self.listener.send(datagram, self.address)

    def ignore(self) -> None:
        """A datagram is of no use."""
        self.broker.counts.datagrams_ignored += 1

    def ask(self, message_id: int, kind: TopicKind, topic: int | str) -> None:
        """Remember what a request is about until it is answered."""
        self._asked[message_id] = kind, topic
        if len(self._asked) > MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def asked(self, message_id: int) -> tuple[TopicKind, int | str]:
        """What the request was about that is answered now."""
        return self._asked.pop(message_id, (TopicKind.NORMAL, 0))

    def doubt(self) -> None:
        """Its session is new, and does not outlive it yet, or strangers could make any number of them."""
        session = self.connection.session
        assert session is not None
        self._promised_s = session.expiry_s
        session.lasts(0.0)

    def prove(self) -> None:
        """It has sent more than its introduction."""
        self.proven = True
        session = self.connection.session
        if session is not None and self._promised_s:
            session.lasts(self._promised_s)
            self._promised_s = 0.0

    # ---- sleep

    @property
    def awake(self) -> bool:
        """Whether it woke up only to be sent what waits."""
        return self.state is State.AWAKE

    def activate(self) -> None:
        """It listens all the time, and is to be heard of as often as it said."""
        assert self.hello is not None
        self.state = State.ACTIVE
        self.connection.keep_alive_s = self.hello.duration_s or LONGEST_KEEP_ALIVE_S

    def fall_asleep(self, now: float) -> None:
        """It listens no more."""
        self.state = State.ASLEEP
        self.broker.writable(self.connection, False, now)

    def wake(self, now: float, *, for_good: bool) -> None:
        """It listens again, for good or for what waits."""
        if for_good:
            self.activate()
        else:
            self.state, self._woken_at = State.AWAKE, now
        self.sending.wake(now)
        self.take_more(now)

    def take_more(self, now: float) -> None:
        """It can be sent more, unless it sleeps or the socket is full."""
        listens = self.state is not State.ASLEEP and not self.listener.full
        if listens != self.connection.writable:
            self.broker.writable(self.connection, listens, now)

    def rest(self, now: float) -> None:
        """A client that woke up to be sent what waits sleeps again when it has had all of it."""
        session = self.connection.session
        if self.awake and session is not None:
            owed = session.waits or session.in_flight or self.connection.outbox
            if not owed or now - self._woken_at > AWAKE_S:
                self.say(Plain(kind=Kind.PINGRESP))
                self.fall_asleep(now)

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self.state in (State.ACTIVE, State.AWAKE):
            if self.sending.waits:
                self.sending.tick(now)
            self.rest(now)

    # ---- the end

    def lost(self, now: float) -> None:
        """It does not answer any more: for the broker it is gone, and what it has not acknowledged waits for it."""
        if self.connection.phase is not Phase.CLOSING:
            connecting.disconnect(self.broker, self.connection, Reason.KEEP_ALIVE_TIMEOUT)
            connecting.closed(self.broker, self.connection, now)

    def supersede(self, now: float) -> None:
        """Its address begins anew: one that slept was not lost, so its will is not sent."""
        session = self.connection.session
        if self.state in (State.ASLEEP, State.AWAKE) and session is not None and session.connection is self.connection:
            connecting.change_will(self.broker, session, None)
        self.silent = True
        self.leave(now)

    def leave(self, now: float) -> None:
        """It is gone."""
        self.state = State.GONE
        self.listener.forget(self)
        self.broker.closed(self.connection, now)

    # ---- what the server asks of whoever carries a connection

    def write(self, data: bytes) -> None:
        """Packets to the client."""
        if self.state is not State.GONE:
            for packet in packets(data, V5):
                telling.tell(self, packet)
            self.rest(self.listener.clock())

    def sit_on(self, link: Link | None) -> None:
        """The client is on this link."""
        self.link = link

    def close(self) -> None:
        """Tell the client that it is over, unless it knows."""
        if self.state is not State.GONE:
            if not self.silent:
                self.say(Disconnect())
            self.state = State.GONE
            self.listener.server.later(self._leave_later)

    def _leave_later(self) -> None:
        self.leave(self.listener.clock())
        self.listener.server.settle()

    def abort(self) -> None:
        """Let it go without a word."""
        self.silent = True
        self.close()

    def pause_reading(self) -> None:
        """Datagrams cannot be held back: those that come too early are ignored, and sent again if they matter."""

    def resume_reading(self) -> None:
        """There is nothing to take up."""

    def tcp_info(self) -> bytes | None:
        """Nobody knows what becomes of datagrams."""
        return None
