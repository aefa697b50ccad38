"""An edge's connection to a router, as an MQTT 5 client: it wants what the edge's clients want, and publishes there.

It connects again and again until it is closed. A router that does not answer for some seconds is taken for dead, also
if it is only paused. What cannot be written soon is not written at all: what matters is sent again through another.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import Any, TypeVar, cast

from firelane.exchange.neighbours import EDGE, NAME
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import (
    V5,
    Ack,
    Connack,
    Connect,
    Kind,
    Packet,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from firelane.mqtt.reasons import PacketError
from firelane.overlay.dialling import dialled
from firelane.overlay.interest import Wish
from firelane.overlay.life import Life, acked_bytes, queued_bytes
from firelane.overlay.notes import FOR, TO

PING_EVERY_S = 0.5
SILENT_S = 2.0  # and it is taken for dead
MOMENT_S = 0.01  # later than that, so that it is over
PATIENCE_S = 3.0
NO_ANSWER = "no answer"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 0.5
MOST_UNSENT_BYTES = 4_000_000
MOST_BYTES = 16_000_000  # of a packet
FILTERS_A_PACKET, FILTER_BYTES_A_PACKET = 500, 30_000
LAST_PORT = 65_535
REFUSED = 0x80  # and above
OWN = 2  # topics of an edge itself

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How an edge shows a router who it is."""

    user: str | None = None
    password: bytes | None = None
    tls: ssl.SSLContext | None = None


class Sent(Enum):
    """What became of a message for a router."""

    YES = "sent"
    NO_PATH = "no path"
    FULL = "path full"
    TOO_LARGE = "too large"  # for this router, and it stays so


class Path:
    """To one router. `got` is called with what comes, `up` and `down` when it can be reached and no more.

    With `peer` it leads to that edge, of which nothing is wanted.
    """

    def __init__(
        self,
        edge: str,
        locator: str,
        credentials: Credentials,
        *,
        got: Callable[[Publish], None],
        up: Callable[[], None],
        down: Callable[[str], None],
        tell: Callable[[str], None] = lambda line: None,
        peer: str | None = None,
    ) -> None:
        self.locator = locator
        self._peer = peer
        self._edge, self._credentials = edge, credentials
        self._got, self._up, self._down, self._tell = got, up, down, tell
        self._wanted: dict[str, Wish] = {f"{FOR}{edge}": Wish(qos=1), f"{TO}{edge}": Wish(qos=1)}
        if peer is not None:
            self._wanted = {}
        self._line: _Line | None = None
        self.dropped: Counter[str] = Counter()
        self.refused = 0  # filters, since it was last connected

    @property
    def connected(self) -> bool:
        """Whether it can be used."""
        return self._line is not None and self._line.open

    def want(self, filters: Mapping[str, Wish]) -> None:
        """All that the edge's clients want from now on."""
        own = dict(list(self._wanted.items())[:OWN])
        before, self._wanted = self._wanted, own | dict(filters)
        if self._line is not None and self._line.open:
            gone = [one for one in before if one not in self._wanted]
            new = {one: wish for one, wish in self._wanted.items() if before.get(one) != wish}
            self._line.ask(_asking(new, gone))

    def publish(self, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> Sent:
        """Publish there; says what became of it."""
        sent = Sent.NO_PATH
        if self._line is not None and self._line.open:
            sent = self._line.publish(Publish(topic=topic, payload=payload, qos=qos, properties=properties))
        if sent is not Sent.YES:
            self.dropped[sent.value] += 1
        return sent

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            problem = await self._one_line()
            if self.connected:
                pause_s = FIRST_PAUSE_S
            was_up, self._line = self.connected, None
            if was_up or problem:
                self._down(problem)
            if problem != NO_ANSWER:  # that has taken its time
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _one_line(self) -> str:
        host, _, port = self.locator.rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) <= LAST_PORT):
            return f"{self.locator} is no HOST:PORT; start it with another --locator"
        try:
            line = await self._connected(host.strip("[]"), int(port))
        except TimeoutError:
            return NO_ANSWER
        except (OSError, ssl.SSLError) as problem:
            return problem.strerror or str(problem) or "the connection was closed"
        except ValueError as problem:  # a name that is none
            return str(problem)
        try:
            line.write(encode(self._hello(), V5))
            async with asyncio.timeout(PATIENCE_S):
                await line.entered.wait()
            if not line.open:
                return line.problem
            self._line, self.refused = line, 0
            line.ask(_asking(self._wanted, []))
            self._up()
            return await line.watch()
        except TimeoutError:
            return "no CONNACK"
        finally:
            line.abort()

    async def _connected(self, host: str, port: int) -> _Line:
        tls = self._credentials.tls
        dialled_socket = await dialled(host, port, PATIENCE_S)
        try:
            async with asyncio.timeout(PATIENCE_S):
                _, line = await asyncio.get_running_loop().create_connection(
                    lambda: _Line(self._got, self._refused, self._peer),
                    sock=dialled_socket,
                    ssl=tls,
                    server_hostname=None if tls is None else host,
                )
        except BaseException:
            dialled_socket.close()
            raise
        return line

    def _refused(self, reasons: list[int]) -> None:
        """Some of what clients want is not given there: it comes late, when its origin asks who lacks it."""
        if not self.refused:
            what = f"it refuses filters that clients want here (reason {reasons[0]:#x})"
            self._tell(f"{what}; raise its exchange.limits.subscriptions, or check access there")
        self.refused += len(reasons)

    def _hello(self) -> Connect:
        return Connect(
            client_id=f"{EDGE}{self._edge}",
            version=V5,
            clean_start=True,
            keep_alive_s=max(1, round(2 * SILENT_S)),
            user=self._credentials.user,
            password=self._credentials.password,
            properties={"receive_maximum": 65_535},
        )


class _Line(asyncio.Protocol):
    """One connection, as long as it lasts."""

    def __init__(
        self, got: Callable[[Publish], None], refused: Callable[[list[int]], None], peer: str | None = None
    ) -> None:
        self._got, self._refused, self._peer = got, refused, peer
        self._partial = bytearray()
        self._life = Life(monotonic())
        self._most_bytes = MOST_BYTES  # of a packet that the router takes
        self._admitted = False
        self._ids: deque[int] = deque()
        self._waiting: deque[Publish] = deque()  # of QoS 1, for an identifier
        self._waiting_bytes = 0
        self.entered = asyncio.Event()
        self.ended = asyncio.Event()
        self.open = False
        self.problem = ""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.problem = self.problem or "the connection was lost"
        self.entered.set()
        self.ended.set()

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() + self._waiting_bytes

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def ask(self, packets: list[Packet]) -> None:
        self.write(b"".join(encode(one, V5) for one in packets))

    def publish(self, packet: Publish) -> Sent:
        if self.unsent_bytes > MOST_UNSENT_BYTES:
            return Sent.FULL
        if packet.qos:
            if not self._ids:
                self._waiting.append(packet)
                self._waiting_bytes += len(packet.payload)
                return Sent.YES
            packet.packet_id = self._ids.popleft()
        data = encode(packet, V5)
        if len(data) <= self._most_bytes:
            self.write(data)
            return Sent.YES
        if packet.qos:
            self._ids.appendleft(packet.packet_id)
        return Sent.TOO_LARGE

    def abort(self) -> None:
        self._transport.abort()

    async def watch(self) -> str:
        """Until it ends; says why it did."""
        silent_s = 0.0
        while not self.ended.is_set():
            try:
                async with asyncio.timeout(min(PING_EVERY_S, max(SILENT_S - silent_s, 0.0) + MOMENT_S)):
                    await self.ended.wait()
            except TimeoutError:
                silent_s = self._ask_whether_it_lives()
                if silent_s > SILENT_S:
                    return f"it said nothing for {SILENT_S:g} s"
        return self.problem

    def _ask_whether_it_lives(self) -> float:
        socket_ = cast(socket.socket, self._transport.get_extra_info("socket"))
        acked = acked_bytes(socket_)
        silent_s = self._life.silent_s(monotonic(), acked)
        self.write(bytes((Kind.PINGREQ << 4, 0)))
        self._life.asked(acked + queued_bytes(socket_) + self._transport.get_write_buffer_size())
        return silent_s

    def data_received(self, data: bytes) -> None:
        self._life.heard(monotonic())
        self._partial += data
        buffer, at = bytes(self._partial), 0
        try:
            while at < len(buffer):
                found = frame(buffer, at, MOST_BYTES)
                if found is None or found[1] > len(buffer):
                    break
                self._take(decode(buffer[at], buffer[found[0] : found[1]], V5))
                at = found[1]
        except PacketError as problem:
            self.problem = str(problem)
            self.abort()
        self._partial = bytearray(buffer[at:])

    def _take(self, packet: Packet) -> None:
        match packet:
            case Publish():
                if packet.qos:
                    self.write(encode(Ack(kind=Kind.PUBACK, packet_id=packet.packet_id), V5))
                self._got(packet)
            case Ack():
                self._ids.append(packet.packet_id)
                if self._waiting:
                    packet = self._waiting.popleft()
                    self._waiting_bytes -= len(packet.payload)
                    self.publish(packet)
            case Connack(reason=0) if self._peer not in (None, _name(packet)):
                self.problem = "another broker answers there; start that edge with another --locator"
                self.entered.set()
            case Connack(reason=0):
                self._ids.extend(range(1, packet.properties.get("receive_maximum", 65_535) + 1))
                self._most_bytes = min(MOST_BYTES, packet.properties.get("maximum_packet_size", MOST_BYTES))
                self.open = True
                self.entered.set()
            case Connack():
                self.problem = (
                    f"it refuses this edge (reason {packet.reason:#x}); check user, password and access there"
                )
                self.entered.set()
            case Suback():
                self._given(packet.reasons)
            case _:
                pass

    def _given(self, reasons: list[int]) -> None:
        """What the answer to SUBSCRIBE is; the first two filters of the first are the edge's own."""
        if not self._admitted and any(reason >= REFUSED for reason in reasons[:OWN]):
            self.problem = "it refuses this edge's own topics, $overlay/for/ and $overlay/to/; check access there"
            self.abort()
        self._admitted = True
        if refused := [reason for reason in reasons if reason >= REFUSED]:
            self._refused(refused)


def _name(packet: Connack) -> str | None:
    """Which edge answers, if it is one."""
    return dict(packet.properties.get("user_property", ())).get(NAME)


def _asking(new: Mapping[str, Wish], gone: list[str]) -> list[Packet]:
    """SUBSCRIBE and UNSUBSCRIBE; what is needed holds for all filters of a packet."""
    by_need: dict[tuple[tuple[str, str], ...], list[Subscription]] = {}
    for one, wish in new.items():
        wishes = Subscription(filter=one, qos=min(wish.qos, 1), no_local=True)
        by_need.setdefault(tuple((wish.need or {}).items()), []).append(wishes)
    packets: list[Packet] = [
        Subscribe(packet_id=1, subscriptions=part, properties={"user_property": list(need)} if need else {})
        for need, some in by_need.items()
        for part in _parts(some, lambda one: one.filter)
    ]
    return packets + [Unsubscribe(packet_id=1, filters=part) for part in _parts(gone, lambda one: one)]


def _parts(some: list[Item], name: Callable[[Item], str]) -> Iterator[list[Item]]:
    """As many as fit into a packet, in their order."""
    part: list[Item] = []
    size_bytes = 0
    for one in some:
        one_bytes = len(name(one).encode()) + 3
        if part and (len(part) >= FILTERS_A_PACKET or size_bytes + one_bytes > FILTER_BYTES_A_PACKET):
            yield part
            part, size_bytes = [], 0
        part.append(one)
        size_bytes += one_bytes
    if part:
        yield part
