"""The UDP socket of MQTT-SN: which client a datagram is from, and what strangers may do.

A source address is only claimed, so nothing that comes from a stranger makes more than one of `clients` places taken or
is answered with more bytes than came; who has only introduced itself gives way when there are too many.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from firelane.exchange.gateway import asking, entering
from firelane.exchange.gateway.peer import Peer
from firelane.exchange.protocol import connecting
from firelane.exchange.protocol.publishing import accept_unasked
from firelane.mqtt.reasons import PacketError
from firelane.mqtt.sn import messages
from firelane.mqtt.sn.decode import decode
from firelane.mqtt.sn.encode import encode
from firelane.mqtt.sn.messages import Kind, ReturnCode, TopicKind
from firelane.mqtt.topics import topic_problem
from firelane.scenario.settings import MqttSn

if TYPE_CHECKING:
    from firelane.exchange.sockets.server import Server

PROVEN_WITHIN_S = 10.0  # after which a client that only introduced itself gives way to another
MOST_CREDITS = 10_000
Address = tuple[Any, ...]  # host, port, and what else IPv6 has


class Listener(asyncio.DatagramProtocol):
    """Takes datagrams to the clients that they are from."""

    def __init__(self, server: Server, settings: MqttSn, clock: Callable[[], float] = monotonic) -> None:
        self.server = server
        self.settings = settings
        self.clock = clock
        self.full = False  # the socket takes no more
        self.peers: dict[Address, Peer] = {}
        self._unproven: OrderedDict[Peer, None] = OrderedDict()  # the first that came comes first
        self._credits: dict[str, tuple[float, float]] = {}  # host -> messages without a connection, and when counted
        self._transport: asyncio.DatagramTransport | None = None

    # ---- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        """A datagram came."""
        counts, now = self.server.broker.counts, self.clock()
        counts.datagrams_received += 1
        try:
            message = decode(data)
        except PacketError:
            counts.datagrams_malformed += 1
            return
        peer = self.peers.get(addr)
        if isinstance(message, messages.Connect):
            self._connect(peer, message, addr, now)
        elif peer is not None:
            asking.handle(peer, message, now)
            if peer.proven:
                self._unproven.pop(peer, None)
        else:
            self._take_from_stranger(message, addr, now)
        self.server.settle()
        if peer is not None:
            peer.rest(now)

    def error_received(self, exc: Exception) -> None:
        """Something sent was not delivered: nobody knows what, and who wants an answer is sent it again."""

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._fill(True)

    def resume_writing(self) -> None:
        """It takes more again."""
        self._fill(False)
        self.server.settle()

    def _fill(self, full: bool) -> None:
        self.full = full
        now = self.clock()
        for peer in self.peers.values():
            peer.take_more(now)

    def send(self, datagram: bytes, address: Address) -> None:
        """Send a datagram."""
        if self._transport is not None and not self._transport.is_closing():
            self.server.broker.counts.datagrams_sent += 1
            self._transport.sendto(datagram, address)

    def tick(self, now: float) -> None:
        """Time has passed. Ten times a second."""
        for peer in list(self.peers.values()):
            peer.tick(now)

    # ---- clients

    def forget(self, peer: Peer) -> None:
        """A client is gone."""
        self._unproven.pop(peer, None)
        self.server.forget(peer)
        if self.peers.get(peer.address) is peer:
            del self.peers[peer.address]

    def introduce_to(self, address: Address) -> None:
        """Answer whoever looks for a gateway."""
        self.send(encode(messages.GatewayInfo(gateway_id=self.settings.gateway_id)), address)

    def _connect(self, peer: Peer | None, hello: messages.Connect, address: Address, now: float) -> None:
        if peer is not None:
            if entering.is_no_other(peer, hello, now):
                return
            peer.supersede(now)
        if len(self.peers) >= self.settings.clients and not self._make_room(now):
            self.server.broker.counts.connections_refused += 1
            self.send(encode(messages.Answer(kind=Kind.CONNACK, return_code=ReturnCode.CONGESTION)), address)
            return
        peer = self.peers[address] = Peer(self, address, now)
        self._unproven[peer] = None
        self.server.drivers[peer] = None
        self.server.broker.opened(peer.connection)
        entering.handle_connect(peer, hello, now)

    def _make_room(self, now: float) -> bool:
        peer = next(iter(self._unproven), None)
        if peer is None or now - peer.connection.opened_at < PROVEN_WITHIN_S:
            return False
        peer.lost(now)
        peer.leave(now)
        return True

    # ---- strangers

    def _take_from_stranger(self, message: messages.Message, address: Address, now: float) -> None:
        match message:
            case messages.Publish(qos=messages.FIRE_AND_FORGET):
                self._publish(message, str(address[0]), now)
            case messages.SearchGateway():
                self.introduce_to(address)
            case messages.Disconnect() | messages.Advertise() | messages.GatewayInfo():
                self._ignore()  # to answer could go on for ever
            case _:
                self._ignore()
                self.send(encode(messages.Disconnect()), address)

    def _ignore(self) -> None:
        self.server.broker.counts.datagrams_ignored += 1

    def _publish(self, message: messages.Publish, host: str, now: float) -> None:
        """QoS -1: a message from somebody who has no connection, to a topic that needs no registration."""
        broker, topic = self.server.broker, message.topic
        if isinstance(topic, int):
            topic = self.settings.predefined.get(topic, "") if message.topic_kind is TopicKind.PREDEFINED else ""
        if topic_problem(topic) or not self._has_credit(host, now):
            self._ignore()
        elif not connecting.anonymous_allowed(broker, host):
            broker.counts.publish_refused += 1
        else:
            accept_unasked(broker, topic, message.payload, message.retain, now)

    def _has_credit(self, host: str, now: float) -> bool:
        rate_hz = self.server.broker.limits.publish_hz
        if rate_hz is None:
            return True
        if len(self._credits) > MOST_CREDITS:
            self._credits.clear()
        most = max(1.0, rate_hz)
        credit, since = self._credits.get(host, (most, now))
        credit = min(most, credit + (now - since) * rate_hz) - 1
        self._credits[host] = (max(credit, 0.0), now)
        return credit >= 0
