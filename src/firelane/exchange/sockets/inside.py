"""A client inside the process: it hands over packets, not bytes on a socket, and is told which message a copy is of.

Its session outlives it in the log like any other, unless it is not one that `lasts`; its lanes wait on a link like any
other, and nobody outside may use its name. What it is sent comes one turn of the event loop later, so it may answer as
it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from firelane.exchange.clients.access import Identity
from firelane.exchange.clients.connection import Connection, Phase
from firelane.exchange.clients.session import Session
from firelane.exchange.lanes.link import Link
from firelane.exchange.protocol import connecting
from firelane.exchange.protocol.publishing import accept
from firelane.exchange.sockets.server import Server
from firelane.mqtt.decode import packets
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Packet, Publish


class Inside:
    """A connection without a socket. `got` is called with every packet for it, `over` when it was closed."""

    def __init__(
        self,
        server: Server,
        client_id: str,
        got: Callable[[Packet], None],
        *,
        over: Callable[[], None] = lambda: None,
        window: int | None = None,
        lasts: bool = True,
    ) -> None:
        assert connecting.is_inside(client_id)
        self.link: Link | None = None
        self.connection = Connection("", monotonic(), driver=self)
        self.connection.version = V5
        self.connection.upstream = self
        self.connection.numbered = True
        self._server = server
        self._client_id = client_id
        self._window = window
        self._lasts = lasts
        self._got, self._over = got, over
        self._came: list[bytes] = []
        self._gone = True  # until it has entered
        self._given = 0  # how many messages of QoS 1 and 2 may be under way
        self._holding = False  # it takes no more of them
        self._unsettled = False  # something was said this turn

    @property
    def session(self) -> Session:
        """Its session."""
        session = self.connection.session
        assert session is not None
        return session

    def enter(self) -> None:
        """Take up its session, and be sent what waits there."""
        server, now = self._server, monotonic()
        self._gone = False
        server.drivers[self] = None
        server.broker.opened(self.connection)
        properties = {"session_expiry_interval": connecting.FOREVER if self._lasts else 0}
        if self._window is not None:
            properties["receive_maximum"] = self._window
        hello = Connect(client_id=self._client_id, version=V5, clean_start=not self._lasts, properties=properties)
        identity = Identity(client_id=self._client_id, inside=True)
        connecting.enter(server.broker, self.connection, hello, identity, now)
        self._given = self.connection.window
        server.settle()

    def say(self, *said: Packet) -> None:
        """Packets to the broker; what they have it write down is written together, with all that is said this turn."""
        connection, broker = self.connection, self._server.broker
        if not said or self._gone or connection.phase is not Phase.OPEN:
            return
        first = said[0]
        if len(said) == 1 and isinstance(first, Publish) and self._is_plain(first):
            topic = first.topic.encode()
            broker.counts.packets_received += 1
            accept(broker, connection, topic, first.payload, 0, False, 0, first.properties, monotonic())
        else:
            broker.received(connection, b"".join(encode(one, V5) for one in said), monotonic())
        if not self._unsettled:
            self._unsettled = True
            self._server.later(self._settle)

    def _is_plain(self, message: Publish) -> bool:
        """Whether a message may go past the bytes: nothing waits that it would overtake, and nothing need wait."""
        connection = self.connection
        return not (message.qos or message.retain or connection.stalled_until or connection.partial is not None)

    def _settle(self) -> None:
        self._unsettled = False
        self._server.settle()

    def hold(self, holding: bool) -> None:
        """Whether messages of QoS 1 and 2 are to wait in its session (beyond the bound of its memory: in the log)."""
        if holding == self._holding or self._gone or self.connection.phase is not Phase.OPEN:
            return
        self._holding = holding
        self.connection.window = 0 if holding else self._given
        if not holding:
            self._server.broker.serving.resume(self.session, monotonic())
            self._server.settle()

    def leave(self) -> None:
        """Go; the session stays."""
        if not self._gone:
            self._gone = True
            self._server.forget(self)
            self._server.broker.closed(self.connection, monotonic())
            self._server.settle()

    def handled(self, first: int, body: bytes) -> bool:
        """It sends nothing that only brokers send."""
        return False

    # ---- what the server asks of whoever carries a connection

    def write(self, data: bytes) -> None:
        """Packets for the client."""
        if not self._came:
            self._server.later(self._take)
        self._came.append(data)

    def _take(self) -> None:
        came, self._came = self._came, []
        for data in came:
            for packet in packets(data, V5):
                self._got(packet)

    def sit_on(self, link: Link | None) -> None:
        """Its lanes wait on this link."""
        self.link = link

    def close(self) -> None:
        """It was let go."""
        if not self._gone:
            self._server.later(self._close)

    def _close(self) -> None:
        self.leave()
        self._over()

    def abort(self) -> None:
        """The same, at once."""
        self.close()

    def pause_reading(self) -> None:
        """What it says was said already."""

    def resume_reading(self) -> None:
        """There is nothing to take up."""

    def tcp_info(self) -> bytes | None:
        """There is no socket."""
        return None
