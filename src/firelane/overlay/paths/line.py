"""One connection of an edge to a router, as an MQTT 5 client, as long as it lasts.

A router that does not answer for some seconds is taken for dead, also if it is only paused. What cannot be written soon
is not written at all.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from time import monotonic
from typing import cast

from firelane.exchange.clients.neighbours import NAME
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Connack, Disconnect, Kind, Packet, Publish, Suback, Subscribe
from firelane.mqtt.properties import MOST_REPEATED
from firelane.mqtt.reasons import PacketError, Reason, in_words
from firelane.overlay.paths.life import Life, acked_bytes, queued_bytes

PING_EVERY_S = 0.5
SILENT_S = 2.0  # and it is taken for dead
MOMENT_S = 0.01  # later than that, so that it is over
MOST_UNSENT_BYTES = 4_000_000
MOST_TOGETHER_BYTES = 65_536  # of what is said in one turn of the event loop, in one system call
MOST_BYTES = 16_000_000  # of a packet
REFUSED = 0x80  # and above
LAST_ID = 65_535
FIRST_ID = 2  # of messages: 1 is that of SUBSCRIBE and UNSUBSCRIBE


class Sent(Enum):
    """What became of a message for a router."""

    YES = "sent"
    NO_PATH = "no path"
    FULL = "path full"
    TOO_LARGE = "too large"  # for this router, and it stays so


class Line(asyncio.Protocol):
    """One connection, as long as it lasts."""

    def __init__(
        self,
        got: Callable[[Publish], None],
        refused: Callable[[list[int]], None],
        peer: str | None = None,
        *,
        not_taken: Callable[[int], None] = lambda reason: None,
    ) -> None:
        self._not_taken = not_taken
        self._got, self._refused, self._peer = got, refused, peer
        self._partial = bytearray()
        self._whole_bytes = 0  # of the packet that is not yet here, if that is known
        self._life = Life(monotonic())
        self._most_bytes = MOST_BYTES  # of a packet that the router takes
        self._admitted = False
        self.unanswered = 0  # of SUBSCRIBE
        self._ids: deque[int] = deque()
        self._waiting: deque[tuple[Publish, int]] = deque()  # of QoS 1, for an identifier, and their bytes
        self._waiting_bytes = 0
        self._said: list[bytes] = []  # this turn, and not yet written
        self._said_bytes = 0
        self.entered = asyncio.Event()
        self.ended = asyncio.Event()
        self.open = False
        self.problem = ""
        self.answer: int | None = None  # to CONNECT: what CONNACK said
        self.taken_over = False  # by another edge of this name
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a socket."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits for it need not wait any longer."""
        self.problem = self.problem or "the connection was lost"
        self.entered.set()
        self.ended.set()

    @property
    def unsent_bytes(self) -> int:
        """What was said and is not yet with the kernel."""
        return self._transport.get_write_buffer_size() + self._said_bytes + self._waiting_bytes

    def write(self, data: bytes) -> None:
        """Say something; what is said in one turn goes out together, or each message would cost every broker on its
        way a system call and a wake-up of its own."""
        if not self._said:
            asyncio.get_running_loop().call_soon(self._flush)
        self._said.append(data)
        self._said_bytes += len(data)
        if self._said_bytes > MOST_TOGETHER_BYTES:
            self._flush()

    def _flush(self) -> None:
        said, self._said, self._said_bytes = self._said, [], 0
        if said and not self._transport.is_closing():
            self._transport.write(said[0] if len(said) == 1 else b"".join(said))

    def ask(self, packets: Iterable[Packet]) -> None:
        """Say these packets, whose answers are looked at as they come."""
        for one in packets:
            self.unanswered += isinstance(one, Subscribe)
            self.write(encode(one, V5))

    def publish(self, packet: Publish) -> Sent:
        """Publish a message; one of QoS 1 may have to wait for an identifier, if it is not too large anyway."""
        if len(packet.properties.get("user_property", ())) > MOST_REPEATED:  # with the overlay's own
            return Sent.TOO_LARGE
        if self.unsent_bytes > MOST_UNSENT_BYTES:
            return Sent.FULL
        if packet.qos and not self._ids:
            size_bytes = len(encode(packet, V5))  # with whatever identifier
            if size_bytes > self._most_bytes:
                return Sent.TOO_LARGE
            self._waiting.append((packet, size_bytes))
            self._waiting_bytes += size_bytes
            return Sent.YES
        return self._send(packet)

    def _send(self, packet: Publish) -> Sent:
        if packet.qos:
            packet.packet_id = self._ids.popleft()
        data = encode(packet, V5)
        if len(data) <= self._most_bytes:
            self.write(data)
            return Sent.YES
        if packet.qos:
            self._ids.appendleft(packet.packet_id)
        return Sent.TOO_LARGE

    def abort(self) -> None:
        """Hang up at once."""
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
        self._flush()  # so that the question is in one of the places that are counted
        self._life.asked(acked + queued_bytes(socket_) + self._transport.get_write_buffer_size())
        return silent_s

    def data_received(self, data: bytes) -> None:
        """Take whole packets."""
        self._life.heard(monotonic())
        self._partial += data
        if len(self._partial) < self._whole_bytes:
            return  # of a large packet: it is looked at once, not at every piece
        buffer, at = bytes(self._partial), 0
        self._whole_bytes = 0
        try:
            while at < len(buffer):
                found = frame(buffer, at, MOST_BYTES)
                if found is None:
                    break
                if found[1] > len(buffer):
                    self._whole_bytes = found[1] - at
                    break
                self._take(decode(buffer[at], buffer[found[0] : found[1]], V5))
                at = found[1]
        except PacketError as problem:
            self.problem = str(problem)
            self.abort()
        self._partial = bytearray(buffer[at:])

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, Connack):
            self.answer = packet.reason
        match packet:
            case Publish():
                if packet.qos:
                    self.write(encode(Ack(kind=Kind.PUBACK, packet_id=packet.packet_id), V5))
                self._got(packet)
            case Ack():
                self._ids.append(packet.packet_id)
                if packet.reason >= REFUSED:
                    self._not_taken(packet.reason)
                if self._waiting:
                    waiting, size_bytes = self._waiting.popleft()
                    self._waiting_bytes -= size_bytes
                    self._send(waiting)
            case Connack(reason=0) if self._peer not in (None, _name(packet)):
                self.problem = "another broker answers there; start that edge with another --locator"
                self.entered.set()
            case Connack(reason=0):
                self._ids.extend(
                    range(FIRST_ID, min(packet.properties.get("receive_maximum", LAST_ID) + FIRST_ID, LAST_ID + 1))
                )
                self._most_bytes = min(MOST_BYTES, packet.properties.get("maximum_packet_size", MOST_BYTES))
                self.open = True
                self.entered.set()
            case Connack():
                self.problem = f"it refuses this edge: {in_words(packet.reason)}"
                self.entered.set()
            case Suback():
                self.unanswered -= 1
                self._given(packet.reasons)
            case Disconnect():
                self.taken_over = packet.reason == Reason.SESSION_TAKEN_OVER
                self.problem = f"it ended the connection: {in_words(packet.reason)}"
                self.abort()
            case _:
                pass

    def _given(self, reasons: list[int]) -> None:
        """What the answer to SUBSCRIBE is; the first is for the edge's own topics."""
        if not self._admitted and any(reason >= REFUSED for reason in reasons):
            self.problem = "it refuses this edge's own topics, $overlay/for/ and $overlay/to/; check access there"
            self.abort()
        self._admitted = True
        if refused := [reason for reason in reasons if reason >= REFUSED]:
            self._refused(refused)


def _name(packet: Connack) -> str | None:
    """Which edge answers, if it is one."""
    return dict(packet.properties.get("user_property", ())).get(NAME)
