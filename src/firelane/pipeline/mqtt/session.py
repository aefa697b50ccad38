"""A durable session with a broker: MQTT 5, QoS 1, one thread, nothing acknowledged before it is asked for.

Messages are handed over in the groups in which they came, so one sync and one write acknowledge many. While nobody
reads, the broker finds the socket and its own window full and holds back; only pings go on.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Self, TypeVar

from firelane.errors import FirelaneError
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import (
    V5,
    Ack,
    Connack,
    Connect,
    Disconnect,
    Kind,
    Packet,
    Ping,
    Publish,
    Suback,
    Subscribe,
    Subscription,
)
from firelane.mqtt.reasons import PacketError, Reason, in_words
from firelane.pipeline.mqtt.address import Address

PATIENCE_S = 10.0  # for answers
KEEP_ALIVE_S = 30
LARGEST_BYTES = 16_000_000  # of a packet
READ_BYTES = 1 << 16
ONLY_IF_NEW = 1  # retained messages come with a new subscription, not with every connection
REFUSED = 0x80

Answer = TypeVar("Answer", Connack, Suback, Ack)


class BrokerError(FirelaneError):
    """A broker that cannot be reached, or does not let one in, or hangs up."""

    def __init__(self, address: Address, problem: str) -> None:
        super().__init__(f"{address}: {problem}")


class TakenOverError(BrokerError):
    """Another client of the same name is there now: to come back would only throw it out in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Who one is to the broker, what one wants of it, and for how long it is to keep that for one who is away."""

    client_id: str
    filters: Sequence[str] = ()
    expiry_s: int = 0


class BrokerSession:
    """A connection that has been let in and has subscribed. Any trouble is a BrokerError."""

    def __init__(self, address: Address, wishes: Wishes) -> None:
        self.address = address
        self.resumed = False  # the broker still knew us, and what we had not acknowledged
        self._wishes = wishes
        self._buffer = bytearray()
        self._keep_alive_s = KEEP_ALIVE_S
        self._said_s = self._heard_s = monotonic()
        self._early: list[Publish] = []  # came while an answer was waited for
        try:
            self._socket = _connected(address)
        except OSError as problem:
            raise BrokerError(address, _why(problem)) from None
        try:
            self._enter()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def receive(self, patience_s: float) -> list[Publish]:
        """The messages that have come, or come within this time."""
        if self._early:
            early, self._early = self._early, []
            return early
        self.stay()
        self._fill(patience_s)
        if monotonic() - self._heard_s > 2 * self._keep_alive_s:
            raise BrokerError(self.address, "no sign of life")
        return [packet for packet in self._packets() if isinstance(packet, Publish)]

    def stay(self) -> None:
        """Show the broker that one is still there, if it has not heard anything for a while."""
        if monotonic() - self._said_s > self._keep_alive_s / 2:
            self._send(encode(Ping(Kind.PINGREQ), V5))

    def patient(self) -> None:
        """Forget how long it has been silent: nobody listened."""
        self._heard_s = monotonic()

    def acknowledge(self, messages: Iterable[Publish]) -> None:
        """These are safe; the broker can forget them."""
        ids = [one.packet_id for one in messages if one.qos]
        if ids:
            self._send(b"".join(encode(Ack(kind=Kind.PUBACK, packet_id=one), V5) for one in ids))

    def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Say something with QoS 1; when this returns the broker has it. At most 65 535 messages."""
        packets = [
            Publish(topic=topic, payload=payload, qos=1, packet_id=number)
            for number, (topic, payload) in enumerate(messages, start=1)
        ]
        for packet in packets:  # one after the other: a broker may take only so many at once
            self._send(encode(packet, V5))
            answer = self._answer(Ack)
            if answer.reason >= REFUSED:
                raise BrokerError(self.address, f"refuses a message on {packet.topic} ({in_words(answer.reason)})")

    def close(self) -> None:
        """Hang up; the session stays, with all that was not acknowledged."""
        with suppress(OSError):
            self._socket.sendall(encode(Disconnect(), V5))
        self._socket.close()

    def _enter(self) -> None:
        address, wishes = self.address, self._wishes
        self._send(
            encode(
                Connect(
                    client_id=wishes.client_id,
                    clean_start=not wishes.expiry_s,
                    keep_alive_s=KEEP_ALIVE_S,
                    user=address.user,
                    password=None if address.password is None else address.password.encode(),
                    properties={"session_expiry_interval": wishes.expiry_s, "maximum_packet_size": LARGEST_BYTES},
                ),
                V5,
            )
        )
        answer = self._answer(Connack)
        if answer.reason:
            raise BrokerError(address, f"does not let {wishes.client_id} in ({in_words(answer.reason)})")
        self.resumed = answer.session_present
        self._keep_alive_s = answer.properties.get("server_keep_alive", KEEP_ALIVE_S) or KEEP_ALIVE_S
        if wishes.filters:
            self._subscribe(wishes.filters)

    def _subscribe(self, filters: Sequence[str]) -> None:
        wanted = [Subscription(filter=one, qos=1, retain_handling=ONLY_IF_NEW) for one in filters]
        self._send(encode(Subscribe(packet_id=1, subscriptions=wanted), V5))
        for one, granted in zip(filters, self._answer(Suback).reasons, strict=True):
            if granted >= REFUSED:
                raise BrokerError(self.address, f"refuses the subscription to {one} ({in_words(granted)})")
            if granted == 0:
                raise BrokerError(self.address, f"grants {one} only with QoS 0, which may lose messages")

    def _answer(self, kind: type[Answer]) -> Answer:
        """The next packet of this kind; messages that come before it are kept."""
        deadline_s = monotonic() + PATIENCE_S
        while (left_s := deadline_s - monotonic()) > 0:
            self._fill(left_s)
            packets = self._packets()
            self._early += [one for one in packets if isinstance(one, Publish)]
            for one in packets:
                if isinstance(one, kind):
                    return one
        raise BrokerError(self.address, "no answer")

    def _packets(self) -> list[Packet]:
        """What has come whole."""
        buffer, at, found = self._buffer, 0, []
        try:
            while (place := frame(buffer, at, LARGEST_BYTES)) is not None and place[1] <= len(buffer):
                found.append(decode(buffer[at], bytes(buffer[place[0] : place[1]]), V5))
                at = place[1]
        except PacketError as problem:
            raise BrokerError(self.address, f"does not speak MQTT 5: {problem}") from None
        del buffer[:at]
        for packet in found:
            if isinstance(packet, Disconnect):
                kind = TakenOverError if packet.reason == Reason.SESSION_TAKEN_OVER else BrokerError
                raise kind(self.address, f"hung up on {self._wishes.client_id} ({in_words(packet.reason)})")
        return found

    def _fill(self, patience_s: float) -> None:
        try:
            self._socket.settimeout(patience_s)
            arrived = self._socket.recv(READ_BYTES)
        except TimeoutError:
            return
        except OSError as problem:
            raise BrokerError(self.address, _why(problem)) from None
        if not arrived:
            raise BrokerError(self.address, "hung up")
        self._buffer += arrived
        self._heard_s = monotonic()

    def _send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(PATIENCE_S)
            self._socket.sendall(data)
        except OSError as problem:
            raise BrokerError(self.address, _why(problem)) from None
        self._said_s = monotonic()


def _connected(address: Address) -> socket.socket:
    opened = socket.create_connection((address.host, address.port), timeout=PATIENCE_S)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.tls:
        return opened
    return ssl.create_default_context().wrap_socket(opened, server_hostname=address.host)


def _why(problem: OSError) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer"
    return (problem.strerror or str(problem)).lower()
