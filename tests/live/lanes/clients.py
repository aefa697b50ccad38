"""The connections of a load: publishers that send without waiting, subscribers that note what they get and when."""

from __future__ import annotations

import socket
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Self

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Connack, Connect, Disconnect, Kind, Packet, Suback, Subscribe, Subscription
from live.lanes.schedule import STAMP, Packets

PATIENCE_S = 10.0
MOST_BYTES = 10_000_000
READ_BYTES = 1 << 18


class LoadError(Exception):
    """A broker refused a client, hung up, or delivered what nobody sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a broker is reached, and how to be where it can be reached from while a socket is made."""

    port: int
    host: str = "127.0.0.1"
    inside: Callable[[], AbstractContextManager[object]] = nullcontext

    def connected(self) -> socket.socket:
        with self.inside():
            link = socket.create_connection((self.host, self.port), timeout=PATIENCE_S)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link


class Client:
    """A connection that has introduced itself."""

    def __init__(self, place: Place, client_id: str) -> None:
        self.name = client_id
        self.link = place.connected()
        self.buffer = bytearray()
        self.ask(Connect(client_id=client_id, version=V5), Connack)

    def subscribe(self, filters: list[str]) -> None:
        wanted = [Subscription(filter=one) for one in filters]
        if wanted:
            self.ask(Subscribe(packet_id=1, subscriptions=wanted), Suback)

    def ask(self, packet: Packet, answer: type[Connack | Suback | Ack]) -> None:
        """Send a packet and read until its answer, which must be consent."""
        self.link.sendall(encode(packet, V5))
        while (place := frame(self.buffer, 0, MOST_BYTES)) is None or place[1] > len(self.buffer):
            self._fill()
        got = decode(self.buffer[0], bytes(self.buffer[place[0] : place[1]]), V5)
        del self.buffer[: place[1]]
        reasons = got.reasons if isinstance(got, Suback) else [getattr(got, "reason", 0)]
        if not isinstance(got, answer) or max(reasons) >= 0x80:
            self.link.close()
            raise LoadError(f"{self.name} got {got} for its {type(packet).__name__}")

    def _fill(self) -> None:
        arrived = self.link.recv(READ_BYTES)
        if not arrived:
            self.link.close()
            raise LoadError(f"the broker hung up on {self.name}")
        self.buffer += arrived

    def ready(self) -> None:
        """Nothing happens any more unless it can happen at once."""
        self.link.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        if self.link.fileno() < 0:
            return  # it has left
        self.link.setblocking(True)
        self.link.settimeout(PATIENCE_S)
        with suppress(OSError):  # it may have hung up already
            self.link.sendall(encode(Disconnect(), V5))
        self.link.close()


class Sending(Client):
    """A publisher: what its socket does not take waits here."""

    def __init__(self, place: Place, client_id: str) -> None:
        super().__init__(place, client_id)
        self.unsent = b""

    def send(self, packet: bytes) -> None:
        if self.unsent:
            self.unsent += packet
            return
        try:
            taken = self.link.send(packet)
        except BlockingIOError:
            taken = 0
        self.unsent = packet[taken:]

    def resume(self) -> None:
        waiting, self.unsent = self.unsent, b""
        self.send(waiting)

    def read(self) -> None:
        """A broker has nothing to say to a publisher of QoS 0, save goodbye."""
        arrived = self.link.recv(READ_BYTES)
        raise LoadError(f"the broker said {arrived[:20]!r} to {self.name}")


class Receiving(Client):
    """A subscriber: every message is noted with its number and time."""

    def __init__(self, place: Place, client_id: str, filters: list[str], packets: Packets) -> None:
        super().__init__(place, client_id)
        self._packets = packets
        self.publication = array("q")
        self.received_ns = array("q")
        self.subscribe(filters)

    def read(self) -> None:
        try:
            self._fill()
        except BlockingIOError:
            return
        now = perf_counter_ns()
        buffer, at = self.buffer, 0
        while (place := frame(buffer, at, MOST_BYTES)) is not None and place[1] <= len(buffer):
            start, end = place
            self._take(buffer, at, start, end)
            self.received_ns.append(now)
            at = end
        del buffer[:at]

    def _take(self, buffer: bytearray, first: int, start: int, end: int) -> None:
        if buffer[first] >> 4 != Kind.PUBLISH or end - start < STAMP.size:
            raise LoadError(f"{self.name} got {bytes(buffer[first:end])[:40]!r} amid the messages")
        run, number = STAMP.unpack_from(buffer, end - STAMP.size)
        if run != self._packets.run or not self._packets.fits(buffer, start, end, number):
            raise LoadError(f"{self.name} got a message that nobody sent: {bytes(buffer[first:end])[:40]!r}")
        self.publication.append(number)
