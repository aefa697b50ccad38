"""Clients that cost the machine little, so that the broker is what is measured.

A publisher sends slices of packets encoded before; a subscriber counts what it gets by its size, and reads the
stamps of a whole block at once to see that no message is missing, double or out of order.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from firelane.errors import FirelaneError
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.packets import V3, Publish

from . import wire

BUFFER_BYTES = 1 << 20
PUBACK = 0x40
PATIENCE_S = 10
HOST = "127.0.0.1"


class DeliveryError(FirelaneError):
    """A broker lost, doubled or disordered a message, or fell silent: there is no rate to report."""


def unconnected() -> socket.socket:
    """A socket that sends at once and waits so long for an answer; Python's own timeouts would cost a call each."""
    link = socket.socket()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PATIENCE_S, 0))
    return link


def connected(port: int, packet: bytes) -> socket.socket:
    """A connection whose CONNECT was answered."""
    link = unconnected()
    try:
        link.connect((HOST, port))
        link.sendall(packet)
        expect(link, wire.CONNACK)
    except (OSError, DeliveryError):
        link.close()
        raise
    return link


def expect(link: socket.socket, answer: bytes) -> None:
    """The broker's consent, to the byte."""
    got = b""
    while len(got) < len(answer):
        try:
            part = link.recv(len(answer) - len(got))
        except BlockingIOError:
            raise DeliveryError(f"the broker did not answer a client within {PATIENCE_S} s") from None
        if not part:
            raise DeliveryError("the broker closed the connection of a client that had just come")
        got += part
    if got != answer:
        raise DeliveryError(f"the broker refused a client: {got.hex(' ')} instead of {answer.hex(' ')}")


class Publisher:
    """Sends the packets of its ring; with QoS 1 it counts what comes back for them."""

    def __init__(self, port: int, number: int, topic: str, *, qos: int = 0, ring: int) -> None:
        self.number = number
        self.qos = qos
        self.sent = 0
        self.acknowledged = 0
        packets = wire.ring(number, topic, qos, ring)
        self._ring = memoryview(packets)
        self._size = len(packets) // ring
        self._sent_bytes = 0
        self._acknowledged_bytes = 0
        self.link = connected(port, wire.connect(f"publisher-{number}"))
        self.link.setblocking(False)

    def send(self, count: int) -> None:
        """So many more messages; what the socket does not take now goes with the next call."""
        self.sent += count
        while (left := self.sent * self._size - self._sent_bytes) > 0:
            start = self._sent_bytes % len(self._ring)
            try:
                self._sent_bytes += self.link.send(self._ring[start : start + left])
            except BlockingIOError:
                return

    def read(self) -> None:
        """PUBACKs, of four bytes each."""
        data = self.link.recv(BUFFER_BYTES)
        if not data:
            raise DeliveryError(f"the broker closed the connection of publisher {self.number}")
        if data[-self._acknowledged_bytes % 4 :: 4].strip(bytes((PUBACK,))):
            raise DeliveryError(f"publisher {self.number} got something else than PUBACKs: {data[:16]!r}...")
        self._acknowledged_bytes += len(data)
        self.acknowledged = self._acknowledged_bytes // 4


class Subscriber:
    """Takes everything that matches a filter and sees that it is complete; with QoS 1 in a durable session, unless it
    is not to be."""

    def __init__(
        self,
        port: int,
        name: str,
        topic_filter: str,
        *,
        qos: int = 0,
        publishers: int,
        ring: int,
        durable: bool = True,
    ) -> None:
        self.name = name
        self.received_from = np.zeros(publishers, np.int64)
        self.read_ns = 0
        self._qos = qos
        self._ring = ring
        self._buffer = bytearray(BUFFER_BYTES)
        self._filled = 0
        self._size = 0
        self._layout: np.dtype[Any]
        self._first = 0
        self._unsent = b""
        self._last = b""
        self.link = connected(port, wire.connect(name, clean=qos == 0 or not durable))
        self.link.sendall(wire.subscribe(topic_filter, qos))
        expect(self.link, wire.suback(qos))
        self.link.setblocking(False)

    @property
    def received(self) -> int:
        """Messages so far."""
        return int(self.received_from.sum())

    def read(self) -> None:
        """What has arrived; the part of a packet at its end waits for the rest."""
        count = self.link.recv_into(memoryview(self._buffer)[self._filled :])
        self.read_ns = perf_counter_ns()
        if not count:
            raise DeliveryError(f"the broker closed the connection of {self.name}")
        self._filled += count
        if not self._size:
            self._learn()
        whole = self._filled // self._size if self._size else 0
        if whole:
            self.take(np.frombuffer(self._buffer, self._layout, whole))
            self._last = bytes(self._buffer[(whole - 1) * self._size : whole * self._size])
            self._buffer[: self._filled - whole * self._size] = self._buffer[whole * self._size : self._filled]
            self._filled -= whole * self._size

    def take(self, records: npt.NDArray[Any]) -> None:
        """A block of messages: count, check, acknowledge."""
        if (records["first"] != self._first).any():
            raise DeliveryError(f"{self.name} got a packet of another kind or size amid the messages")
        publishers, sequences = records["publisher"], records["sequence"]
        counts = np.bincount(publishers, minlength=len(self.received_from))
        if len(counts) > len(self.received_from):
            raise DeliveryError(f"{self.name} got a message of publisher {len(counts) - 1}, whom nobody knows")
        for publisher in np.flatnonzero(counts):
            theirs = sequences if counts[publisher] == len(records) else sequences[publishers == publisher]
            self._check(int(publisher), theirs)
        self.received_from += counts
        if self._qos:
            self._unsent += wire.pubacks(records["packet_id"])
            self.send()

    def send(self) -> None:
        """The acknowledgements that the socket has not taken yet."""
        if self._unsent:
            with suppress(BlockingIOError):
                self._unsent = self._unsent[self.link.send(self._unsent) :]

    def finish(self) -> None:
        """Nothing half received, and the last message is one."""
        if self._filled:
            raise DeliveryError(f"{self.name} has {self._filled} bytes left over")
        self._verify(self._last)

    def _check(self, publisher: int, sequences: npt.NDArray[Any]) -> None:
        expected = (self.received_from[publisher] + np.arange(len(sequences))) % self._ring
        if not np.array_equal(sequences, expected):
            at = int(np.flatnonzero(sequences != expected)[0])
            raise DeliveryError(
                f"{self.name} expected message {expected[at]} of publisher {publisher} and got {sequences[at]}: "
                "the broker lost, doubled or disordered one"
            )

    def _learn(self) -> None:
        """The size of the messages from the first one."""
        body = frame(self._buffer[: self._filled], 0, BUFFER_BYTES)
        if body is not None and body[1] <= self._filled:
            self._verify(bytes(self._buffer[: body[1]]))
            self._size, self._first, self._layout = body[1], self._buffer[0], wire.layout(body[1])

    def _verify(self, packet: bytes) -> None:
        body = frame(packet, 0, BUFFER_BYTES)
        assert body is not None
        message = decode(packet[0], packet[body[0] :], V3)
        if not isinstance(message, Publish) or message.qos != self._qos or len(message.payload) != wire.PAYLOAD_BYTES:
            raise DeliveryError(f"{self.name} got {message} where a message of QoS {self._qos} was due")
