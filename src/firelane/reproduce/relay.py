"""A wide-area link of an experiment's own: a TCP relay that holds back what passes, and now and then something longer.

TCP itself makes up for lost packets, so a loss is seen as lateness: what was lost comes a retransmission time-out
later, the round trip and 0.2 s (Linux's least), and what is behind it waits. One relay can be several links: whose a
connection is, is told by the client id in its CONNECT.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self, cast

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.packets import V5, Connect
from firelane.mqtt.reasons import PacketError

HOST = "127.0.0.1"
LEAST_TIMEOUT_S = 0.2  # until Linux sends again what was lost, beyond the round trip
SEGMENT_BYTES = 1448
MOST_HELD_BYTES = 8_000_000  # of each direction; then the sender must wait
LONGEST_HELLO_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Wan:
    """How long a link takes one way, and which share of its segments is lost."""

    delay_s: float = 0.0
    loss: float = 0.0


class Passed:
    """What has passed a link, both ways."""

    def __init__(self) -> None:
        self.bytes = 0
        self.segments = 0
        self.lost = 0


class Relay:
    """`async with Relay() as relay:` listens on `relay.port` and passes on to `relay.target`, a port of this machine.

    `links` may be changed at any time, and holds for what comes from then on; clients not named there have `other`.
    """

    def __init__(self, *, other: Wan | None = None, seed: int = 1) -> None:
        self.target = 0
        self.other = other or Wan()
        self.links: dict[str, Wan] = {}
        self.passed: dict[str, Passed] = {}
        self.chance = Random(seed)
        self._open: set[_Side] = set()
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        await self._group.__aenter__()
        self._server = await loop.create_server(lambda: _Near(self), HOST, 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for side in list(self._open):
            side.abort()
        await self._group.__aexit__(kind, problem, trace)

    @property
    def locator(self) -> str:
        """Where to connect to."""
        return f"{HOST}:{self.port}"

    def link(self, client: str) -> Wan:
        """The link of a client, as it is now."""
        return self.links.get(client, self.other)

    def reached(self, near: _Near) -> None:
        """Somebody has connected and said who it is: the other side is connected, too."""
        self._group.create_task(self._reach(near))

    async def _reach(self, near: _Near) -> None:
        try:
            async with asyncio.timeout(5.0):
                await asyncio.get_running_loop().create_connection(lambda: _Far(near), HOST, self.target)
        except OSError:  # TimeoutError is one
            near.abort()

    def opened(self, side: _Side) -> None:
        """A connection is there."""
        self._open.add(side)

    def closed(self, side: _Side) -> None:
        """A connection is gone."""
        self._open.discard(side)


class _Way:
    """One direction of one connection: what is held back, and until when."""

    def __init__(self, wan: Callable[[], Wan], passed: Passed, chance: Random, to: _Side) -> None:
        self._wan, self._passed, self._chance, self._to = wan, passed, chance, to
        self._held: deque[tuple[float, bytes]] = deque()
        self._last_s = 0.0
        self._ends = False
        self._timer: asyncio.TimerHandle | None = None
        self.held_bytes = 0
        self._loop = asyncio.get_running_loop()

    def send(self, data: bytes) -> None:
        wan, now = self._wan(), self._loop.time()
        due = now + wan.delay_s
        segments = -(-len(data) // SEGMENT_BYTES)
        if wan.loss:
            lost = sum(self._chance.random() < wan.loss for _ in range(segments))
            self._passed.lost += lost
            due += lost * (2 * wan.delay_s + LEAST_TIMEOUT_S)
        self._passed.bytes += len(data)
        self._passed.segments += segments
        self._last_s = max(self._last_s, due)  # nothing overtakes
        self._held.append((self._last_s, data))
        self.held_bytes += len(data)
        self._wake()

    def end(self) -> None:
        """What is held is still passed on, then the connection ends."""
        self._ends = True
        self._last_s = max(self._last_s, self._loop.time() + self._wan().delay_s)
        self._held.append((self._last_s, b""))
        self._wake()

    def _wake(self) -> None:
        if self._timer is None and self._held:
            self._timer = self._loop.call_at(self._held[0][0], self._pass_on)

    def _pass_on(self) -> None:
        self._timer = None
        now, some = self._loop.time() + 0.0005, []
        while self._held and self._held[0][0] <= now:
            some.append(self._held.popleft()[1])
        data = b"".join(some)
        self.held_bytes -= len(data)
        self._to.write(data)
        if self._ends and not self._held:
            self._to.close()
        self._wake()


class _Side(asyncio.Protocol):
    """One of the two connections of a passage."""

    relay: Relay
    out: _Way | None = None  # what is said here goes there
    _transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.relay.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.relay.closed(self)
        if self.out is not None:
            self.out.end()

    def data_received(self, data: bytes) -> None:
        if self.out is not None:
            self.out.send(data)
            self._hold()

    def _hold(self) -> None:
        """Who says more than is held back must wait, looked at again soon."""
        if self._transport is None or self.out is None or self._transport.is_closing():
            return
        if self.out.held_bytes > MOST_HELD_BYTES:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(0.01, self._hold)
        elif not self._transport.is_reading():
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport is not None and data and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Near(_Side):
    """The connection that somebody made to the relay."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.client: str | None = None
        self._hello = b""

    def data_received(self, data: bytes) -> None:
        if self.client is not None and self.out is None:
            self._hello += data
        elif self.client is not None:
            super().data_received(data)
        else:
            self._hello += data
            self.client = client_of(self._hello)
            if self.client is not None and self._transport is not None:
                self._transport.pause_reading()  # until there is somebody to pass it on to
                self.relay.reached(self)

    def joined(self, far: _Far) -> None:
        """The other connection is there, too."""
        client = self.client or ""
        passed = self.relay.passed.setdefault(client, Passed())
        self.out = _Way(lambda: self.relay.link(client), passed, self.relay.chance, far)
        far.out = _Way(lambda: self.relay.link(client), passed, self.relay.chance, self)
        self.out.send(self._hello)
        if self._transport is None or self._transport.is_closing():
            self.out.end()
        else:
            self._hold()


class _Far(_Side):
    """The connection that the relay made in its stead."""

    def __init__(self, near: _Near) -> None:
        self.relay, self._near = near.relay, near

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._near.joined(self)


def client_of(begin: bytes) -> str | None:
    """The client id in the CONNECT that a connection begins with; None while that is not whole."""
    try:
        place = frame(begin, 0, LONGEST_HELLO_BYTES) if begin else None
        if place is None or place[1] > len(begin):
            return None
        packet = decode(begin[0], begin[place[0] : place[1]], V5)
    except PacketError:
        return ""
    return packet.client_id if isinstance(packet, Connect) else ""
