"""A bridge to another broker (`exchange.upstream`): an ordinary session whose connection is opened from this side.

What goes up is a durable session's subscriptions, so it waits in the log while the other broker is away and is
acknowledged by it; what comes down is published like any client's message, and acknowledged once the log has it.
Neither side is told what it said itself: both subscribe with "no local". For a broker without MQTT 5 the connection
says that it is a bridge, as mosquitto's do.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Callable
from time import monotonic

from firelane.exchange.broker import Broker
from firelane.exchange.clients.access import Identity
from firelane.exchange.clients.connection import LARGEST_PACKET, Connection, Phase
from firelane.exchange.clients.session import Session, new_subscription
from firelane.exchange.lanes.message import NEVER
from firelane.exchange.protocol import connecting
from firelane.exchange.protocol.connecting import FOREVER, UPSTREAM
from firelane.exchange.protocol.subscribing import start_replay
from firelane.exchange.sockets.server import Driver, Server
from firelane.mqtt.decode import decode
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, V5, Connack, Connect, Disconnect, Kind, Packet, Ping, Suback, Subscribe
from firelane.mqtt.packets import Subscription as Wish
from firelane.mqtt.reasons import PacketError, Reason, protocol_error
from firelane.scenario.settings import Upstream

KEEP_ALIVE_S = 30
PATIENCE_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
BRIDGE = 0x80  # added to the protocol level of 3.1.1 by bridges
_ANSWERS = (Kind.CONNACK, Kind.SUBACK, Kind.PINGRESP, Kind.DISCONNECT)


class Bridge:
    """Keeps a connection to the other broker, with longer and longer pauses while it cannot be had."""

    def __init__(self, server: Server, settings: Upstream, tell: Callable[[str], None]) -> None:
        self._server = server
        self._settings = settings
        self._tell = tell
        self._version = V5
        self.connected = False

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        session = self._session()
        for subscription in session.subscriptions.values():
            start_replay(subscription)
        pause_s, said = FIRST_PAUSE_S, ""
        while True:
            problem = await self._one_connection()
            if self.connected:
                self.connected = False
                pause_s, said = FIRST_PAUSE_S, ""
            if problem != said:  # once per cause, not once per try
                said = problem
                self._tell(f"upstream {self._settings.host}:{self._settings.port}: {problem}; trying again")
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _one_connection(self) -> str:
        settings = self._settings
        context = ssl.create_default_context() if settings.tls else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PATIENCE_S):
                _, driver = await loop.create_connection(
                    lambda: UpstreamDriver(self._server, self), settings.host, settings.port, ssl=context
                )
        except TimeoutError:
            return "no answer"
        except (OSError, ssl.SSLError) as problem:
            return problem.strerror or str(problem)
        try:
            return await self._watch(driver)
        finally:
            driver.close()

    async def _watch(self, driver: UpstreamDriver) -> str:
        """Keep the connection alive until it ends, and say why it did."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await driver.entered.wait()
        except TimeoutError:
            return "no CONNACK"
        if not driver.ended.is_set():
            self.connected = True
            self._tell(f"upstream {self._settings.host}:{self._settings.port}: connected")
        while not driver.ended.is_set():
            try:
                async with asyncio.timeout(KEEP_ALIVE_S / 2):
                    await driver.ended.wait()
            except TimeoutError:
                driver.ping()
        return driver.problem or "the connection was lost"

    def hello(self) -> bytes:
        """CONNECT to the other broker, for a session that outlives connections there too."""
        settings = self._settings
        properties = {"session_expiry_interval": FOREVER, "receive_maximum": self._server.broker.limits.inflight}
        packet = Connect(
            client_id=settings.client_id or f"firelane-{socket.gethostname()}",
            version=self._version,
            clean_start=False,
            keep_alive_s=KEEP_ALIVE_S,
            user=settings.user,
            password=settings.password.encode() if settings.password is not None else None,
            properties=properties if self._version == V5 else {},
        )
        wire = bytearray(encode(packet, self._version))
        if self._version == V3:
            wire[wire.index(b"MQTT") + 4] |= BRIDGE
        return bytes(wire)

    def wishes(self) -> bytes | None:
        """SUBSCRIBE to what is to come down."""
        v5 = self._version == V5
        wishes = [Wish(filter=one, qos=2, no_local=v5, retain_as_published=v5) for one in self._settings.in_filters]
        return encode(Subscribe(packet_id=1, subscriptions=wishes), self._version) if wishes else None

    def entered(self, connection: Connection, packet: Connack) -> str:
        """CONNACK: attach the session, and start sending what waits; returns what is wrong, if anything."""
        if packet.reason in (Reason.UNSUPPORTED_PROTOCOL_VERSION, 1) and self._version == V5:
            self._version = V3
            return "it has no MQTT 5, so 3.1.1 is used"
        if packet.reason:
            return f"it refuses this client (reason {packet.reason}); check user, password and access there"
        broker, now = self._server.broker, monotonic()
        session = self._session()
        if session.connection is not None:
            connecting.closed(broker, session.connection, now)
        limit, properties = broker.limits.inflight, packet.properties
        connection.version = self._version
        connection.window = min(properties.get("receive_maximum", limit), limit)
        connection.largest_out = properties.get("maximum_packet_size", LARGEST_PACKET)
        connection.keep_alive_s = KEEP_ALIVE_S
        connection.unacknowledged = len(session.received)
        connection.last_record = broker.journal.appended  # what was received before may not be in the log yet
        connection.session, session.connection = session, connection
        connection.phase = Phase.OPEN
        broker.connected(connection)
        if wishes := self.wishes():
            broker.outboxes.write(connection, wishes)
        broker.seat(session, connection, now)
        broker.answering.attach(session, now)
        return ""

    def _session(self) -> Session:
        """The session here that stands for the other broker, with what is to go up."""
        broker = self._server.broker
        session = broker.sessions.get(UPSTREAM)
        if session is None:
            session = broker.new_session(UPSTREAM, Identity(client_id=UPSTREAM))
        session.lasts(NEVER)
        session.expires_at = NEVER
        broker.journal.session(session)
        for topic_filter in set(session.subscriptions) - set(self._settings.out_filters):
            gone = session.subscriptions.pop(topic_filter)
            broker.routes.remove(gone)
            broker.journal.unsubscribed(gone)
        for topic_filter in self._settings.out_filters:
            if topic_filter not in session.subscriptions:
                self._send_up(broker, session, topic_filter)
        return session

    def _send_up(self, broker: Broker, session: Session, topic_filter: str) -> None:
        subscription = new_subscription(session, topic_filter, qos=2, no_local=True, retain_as_published=True)
        session.subscriptions[topic_filter] = subscription
        broker.routes.add(subscription)
        broker.journal.subscribed(subscription)


class UpstreamDriver(Driver):
    """The connection to the other broker; answers that only a client gets are dealt with here."""

    __slots__ = ("_bridge", "ended", "entered", "problem")

    def __init__(self, server: Server, bridge: Bridge) -> None:
        super().__init__(server)
        self._bridge = bridge
        self.entered = asyncio.Event()
        self.ended = asyncio.Event()
        self.problem = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce this exchange."""
        super().connection_made(transport)
        self.connection.upstream = self
        self.write(self._bridge.hello())

    def connection_lost(self, exc: Exception | None) -> None:
        """The other broker is gone; what waits for it waits on."""
        self.ended.set()
        self.entered.set()
        super().connection_lost(exc)

    def ping(self) -> None:
        """Show that this side is alive."""
        self.write(bytes((Kind.PINGREQ << 4, 0)))

    def handled(self, first: int, body: bytes) -> bool:
        """Deal with a packet that a broker sends to a client; the others are the same both ways."""
        if first >> 4 not in _ANSWERS:
            if self.connection.phase is Phase.NEW:
                raise protocol_error("the first packet must be CONNACK")
            return False
        self._answer(decode(first, body, self._bridge_version(first, body)))
        return True

    def _bridge_version(self, first: int, body: bytes) -> int:
        """A CONNACK of two bytes is 3.1.1's, also when the question was in MQTT 5."""
        if first >> 4 == Kind.CONNACK:
            return V3 if len(body) == 2 else V5
        return self.connection.version

    def _answer(self, packet: Packet) -> None:
        match packet:
            case Connack():
                self.problem = self._bridge.entered(self.connection, packet)
                self.entered.set()
            case Suback() if any(reason >= Reason.UNSPECIFIED_ERROR for reason in packet.reasons):
                self.problem = "it refuses a subscription of exchange.upstream.in; check access there"
            case Disconnect():
                self.problem = f"it ended the connection (reason {packet.reason})"
            case Ping() | Suback():
                return
        if self.problem:
            raise PacketError(Reason.UNSPECIFIED_ERROR, self.problem)
