"""The sockets of the exchange: TCP, TLS, WebSocket and UDP, driven by asyncio; the broker itself knows nothing of them.

After every event what the broker wants written is written, once per connection, and the log is told to commit.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, cast

from firelane.errors import ServeError
from firelane.exchange.broker import Broker
from firelane.exchange.clients.access import Passwords
from firelane.exchange.clients.connection import Conduit, Connection, Phase
from firelane.exchange.lanes.link import Link
from firelane.exchange.sockets.alarm import Alarm
from firelane.exchange.sockets.kernel import CLOSED, tcp_info

TICK_S = 0.1
CLEANING_PAUSE_S = 0.002
MEASURED_A_TICK = 128  # lanes whose delays are counted
MEASURED_AT_ONCE = 8  # of these: a fifth of a millisecond
BACKLOG = 2048
HIGH_WATER_BYTES = 65_536
DRAIN_WITHIN_S = 5.0
HANDSHAKE_WITHIN_S = 10.0
RECEIVE_BYTES = 4_000_000  # of datagrams that wait to be read, as far as the system allows
SLICE_BYTES = 1024  # taken at first from what a client has sent, to see how long it takes
TURN_S = 0.005  # and how long, until others have their turn
MUCH_BYTES = 65_536  # as much at once is from someone who sends as fast as it is read
MOST_UNREAD_BYTES = 1_000_000  # of answers that a client does not take, beyond one packet
UNSENT_S = 0.002  # of a paced link, in the kernel and not sent
SEGMENT_BYTES = 1460
TCP_NOTSENT_LOWAT = 25  # Linux; the socket module has no name for it


class Server:
    """Drives a broker: listens, reads, writes, keeps its time and its log."""

    def __init__(self, broker: Broker, passwords: Passwords, tell: Callable[[str], None] = lambda line: None) -> None:
        self.broker = broker
        self.passwords = passwords
        self.tell = tell
        self.drivers: dict[Conduit, None] = {}
        self._listeners: list[asyncio.Server] = []
        self._datagrams: list[asyncio.DatagramTransport] = []
        self.at_ticks: list[Callable[[float], None]] = []  # further things to do ten times a second
        self._paused: dict[Conduit, None] = {}
        self._unfinished: dict[Connection, None] = {}
        self._leaving: dict[Conduit, float] = {}  # closed from here, and when patience ends
        self._loop = asyncio.get_running_loop()
        self._group: asyncio.TaskGroup | None = None
        self._alarm = Alarm(self._loop, self._wake)  # when a link is free for what waits on it

    async def listen(
        self,
        make: Callable[[Server], asyncio.BaseProtocol],
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        setting: str = "--mqtt-port",
    ) -> int:
        """Accept connections at an address; returns the port, which the system chooses when it was 0. `setting` says
        where another can be chosen."""
        try:
            patience_s = HANDSHAKE_WITHIN_S if tls is not None else None
            listener = await self._loop.create_server(
                lambda: make(self), host, port, ssl=tls, backlog=BACKLOG, ssl_handshake_timeout=patience_s
            )
        except (OSError, OverflowError) as problem:
            raise ServeError.listening(host, port, problem, f"choose another {setting}") from None
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    async def listen_for_datagrams(self, listener: asyncio.DatagramProtocol, host: str, port: int) -> int:
        """Receive datagrams at an address; returns the port."""
        try:
            transport, _ = await self._loop.create_datagram_endpoint(lambda: listener, local_addr=(host, port))
        except (OSError, OverflowError) as problem:
            raise ServeError.listening(host, port, problem, "choose another exchange.mqtt_sn.port") from None
        with suppress(OSError):  # what comes at once while there is other work to do
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self._datagrams.append(transport)
        return int(transport.get_extra_info("sockname")[1])

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then let everybody go in order; also if something has failed."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            beside = [group.create_task(one) for one in (self._tick(), self._measure(), self._clean())]
            try:
                await stop.wait()
            finally:
                for task in beside:
                    task.cancel()
                await self._close()

    def settle(self) -> None:
        """Write what the last event made ready, check passwords that came, hand the log what was written down."""
        broker = self.broker
        outboxes = broker.outboxes
        while outboxes.dirty:
            for connection in broker.take_dirty():
                driver = cast(Conduit | None, connection.driver)
                if driver is None:  # an answer to somebody who is gone
                    broker.take_output(connection)
                    continue
                session = connection.session
                if session is not None and session.link is not driver.link:
                    driver.sit_on(session.link)
                if connection.outbox:
                    driver.write(broker.take_output(connection))
                if connection.phase is Phase.CLOSING:
                    driver.close()
                    self._leaving.setdefault(driver, monotonic() + DRAIN_WITHIN_S)
                elif not connection.direct:
                    self._finish_later(connection)
        serving = broker.serving
        if serving.unreadable:
            for line in broker.let_go_unreadable(monotonic()):
                self.tell(line)
            self._loop.call_soon(self.settle)
        if broker.to_check:
            self._check_passwords()
        if serving.wakes and serving.wakes[0][0] < self._alarm.rings_at:
            self._alarm.set(serving.wakes[0][0])
        broker.journal.flush()

    def _wake(self) -> None:
        self.broker.wake(monotonic())
        self.settle()

    def committed(self, position: int) -> None:
        """The log's writer says so, from its own thread."""
        self._loop.call_soon_threadsafe(self._committed, position)

    def hold(self, driver: Conduit) -> None:
        """Read nothing more from a connection until the broker wants to."""
        if driver not in self._paused:
            self._paused[driver] = None
            driver.pause_reading()

    def forget(self, driver: Conduit) -> None:
        """A connection is gone."""
        self.drivers.pop(driver, None)
        self._paused.pop(driver, None)
        self._leaving.pop(driver, None)
        self._unfinished.pop(driver.connection, None)

    def carry_on(self) -> None:
        """Apply a new plan step by step, so that nobody waits long for their turn."""
        if self.broker.carry_on():
            self._loop.call_soon(self.carry_on)
        self.settle()

    def resize(self, link: Link) -> None:
        """A link is known to carry more or less than before: as much less may wait unsent."""
        for driver in self.drivers:
            if driver.link is link:
                driver.sit_on(link)

    def later(self, act: Callable[[], None]) -> None:
        """Do something when all others have had their turn."""
        self._loop.call_soon(act)

    def _committed(self, position: int) -> None:
        if self.broker.journal.durable:
            self.broker.committed(position, monotonic())
        self.settle()

    def _finish_later(self, connection: Connection) -> None:
        """Whoever has more waiting goes on after the socket has had its turn, so that nobody fills the memory."""
        session = connection.session
        if session is None or not session.waits:
            return
        if not self._unfinished:
            self._loop.call_soon(self._go_on)
        self._unfinished[connection] = None

    def _go_on(self) -> None:
        unfinished, self._unfinished = self._unfinished, {}
        now = monotonic()
        for connection in unfinished:
            self.broker.written(connection, now)
        self.settle()

    def _check_passwords(self) -> None:
        waiting, self.broker.to_check = self.broker.to_check, []
        for connection in waiting:
            assert self._group is not None
            self._group.create_task(self._check_password(connection))

    async def _check_password(self, connection: Connection) -> None:
        asked = connection.asked
        assert asked is not None
        assert asked.user is not None
        right = await self.passwords.verify(asked.user, asked.password or b"")
        self.broker.verified(connection, right, monotonic())
        self._release()
        self.settle()

    def _release(self) -> None:
        for driver in [one for one in self._paused if one.connection.reading]:
            del self._paused[driver]
            driver.resume_reading()

    def _abort_the_reluctant(self) -> None:
        """Who was let go but does not take the last bytes is cut off."""
        for driver in [one for one, patience in self._leaving.items() if monotonic() > patience]:
            del self._leaving[driver]
            driver.abort()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.broker.tick(monotonic())
            for act in self.at_ticks:
                act(monotonic())
            for line in self.broker.streams.take_news():
                self.tell(line)
            self._release()
            self._abort_the_reluctant()
            self.settle()

    async def _measure(self) -> None:
        """Count the delays that lanes have noted, a few at a time between other work, as the notes take room."""
        while True:
            await asyncio.sleep(TICK_S)
            for _ in range(MEASURED_A_TICK // MEASURED_AT_ONCE):
                if not self.broker.measure(MEASURED_AT_ONCE):
                    break
                await asyncio.sleep(0)

    async def _clean(self) -> None:
        """Keep the log small, a step at a time between other work."""
        while True:
            await asyncio.sleep(TICK_S)
            while self.broker.clean():
                self.settle()
                await asyncio.sleep(CLEANING_PAUSE_S)
            self.settle()

    async def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self.broker.shut_down()
        self.settle()
        patience = self._loop.time() + DRAIN_WITHIN_S
        while self.drivers and self._loop.time() < patience:
            await asyncio.sleep(0.01)
        for driver in list(self.drivers):
            driver.abort()
        for transport in self._datagrams:
            transport.close()
        self._alarm.close()
        await asyncio.sleep(0)


class Driver(asyncio.Protocol):
    """One TCP or TLS connection: passes bytes and events on to the broker."""

    __slots__ = ("_choked", "_closing", "_rest", "_server", "_transport", "connection", "link")
    connection: Connection
    _transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._closing = False
        self._choked = False  # too many answers are not read
        self._rest = b""  # has come, and its turn has not
        self.link: Link | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        peer: Any = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        self.connection = Connection(address, monotonic(), user=certified_name(transport), driver=self)
        self._server.drivers[self] = None
        self._server.broker.opened(self.connection)

    def data_received(self, data: bytes) -> None:
        """Bytes from the client. Who sends a lot takes turns with the others."""
        if self._rest:
            self._rest += data
            return
        if len(data) <= SLICE_BYTES:  # the common case, without a look at the clock afterwards
            server = self._server
            self.take(data, monotonic())
            if not self.connection.reading:
                server.hold(self)
            server.settle()
            return
        self._take_turn(data)
        if self._rest or len(data) >= MUCH_BYTES:
            self.pause_reading()
            self._server.later(self._next_turn)

    def _take_turn(self, data: bytes) -> None:
        """Take in as much as a turn allows; the rest stays."""
        server, started, at, slice_bytes = self._server, monotonic(), 0, SLICE_BYTES
        now = started
        while at < len(data) and now - started < TURN_S and not self._closing:
            self.take(data[at : at + slice_bytes], now)
            at += slice_bytes
            now = monotonic()
            if now - started < TURN_S / 4:
                slice_bytes *= 2
        self._rest = b"" if self._closing else data[at:]
        if not self.connection.reading:
            server.hold(self)
        server.settle()

    def _next_turn(self) -> None:
        if self._rest:
            self._take_turn(self._rest)
            self._server.later(self._next_turn)
        else:
            self.resume_reading()

    def take(self, data: bytes, now: float) -> None:
        """Bytes of MQTT."""
        self._server.broker.received(self.connection, data, now)

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._server.broker.writable(self.connection, False, monotonic())

    def resume_writing(self) -> None:
        """It takes more again."""
        self._choked = False
        self.resume_reading()
        self._server.broker.writable(self.connection, True, monotonic())
        self._server.settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or was let go."""
        self._closing = True
        server = self._server
        server.forget(self)
        server.broker.closed(self.connection, monotonic())
        server.settle()
        self.connection.driver = None  # they hold each other

    def write(self, data: bytes) -> None:
        """Bytes to the client."""
        if not self._closing:
            self._transport.write(data)
            if not self.connection.writable:
                self._read_no_more_than_is_read()

    def _read_no_more_than_is_read(self) -> None:
        """Who does not take answers is asked nothing more."""
        most = MOST_UNREAD_BYTES + self._server.broker.limits.packet_bytes
        if self._transport.get_write_buffer_size() > most:
            self._choked = True
            self.pause_reading()

    def sit_on(self, link: Link | None) -> None:
        """The client is on this link: if it is paced, no queue may form behind the scheduler."""
        before, self.link = self.link, link
        if link is not None and link.paced:
            unsent_bytes = max(SEGMENT_BYTES, round(UNSENT_S * link.bandwidth_bps / 8))
            self._limit(high_bytes=unsent_bytes, unsent_bytes=unsent_bytes)
        elif before is not None and before.paced:
            self._limit(high_bytes=HIGH_WATER_BYTES, unsent_bytes=0)  # as the system has it

    def _limit(self, *, high_bytes: int, unsent_bytes: int) -> None:
        self._transport.set_write_buffer_limits(high=high_bytes)
        socket_ = self._transport.get_extra_info("socket")
        if socket_ is not None and socket_.family in (socket.AF_INET, socket.AF_INET6):
            with suppress(*CLOSED):
                socket_.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, unsent_bytes)

    def tcp_info(self) -> bytes | None:
        """What the kernel says of the connection, if it does (`firelane.exchange.sockets.kernel`)."""
        socket_ = self._transport.get_extra_info("socket")
        return None if socket_ is None or self._closing else tcp_info(socket_)

    def close(self) -> None:
        """Close after what was written."""
        self._closing = True
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Read nothing for now."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, unless there is a reason not to."""
        if self.connection.reading and not (self._choked or self._rest or self._transport.is_closing()):
            self._transport.resume_reading()


def certified_name(transport: asyncio.BaseTransport) -> str | None:
    """The common name in a client's certificate, which stands for its user."""
    certificate: Any = transport.get_extra_info("peercert")
    if not certificate:
        return None
    for names in certificate.get("subject", ()):
        for key, value in names:
            if key == "commonName":
                return str(value)
    return None


def allow_many_files() -> None:
    """A connection is an open file: take as many as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
