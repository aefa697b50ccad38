"""A client for scripts: one connection, one packet at a time, free to misbehave."""

from __future__ import annotations

import itertools
import socket
import time
from contextlib import suppress

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import (
    V5,
    Ack,
    Auth,
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
    Unsubscribe,
)
from firelane.mqtt.reasons import Reason

PATIENCE_S = 5.0  # for what must come
HASTE_S = 1.0  # for the same from a broker that is quick or never does it
QUIET_S = 0.1  # for what must not
MOST_BYTES = 268_435_460
_KINDS = {Connack: Kind.CONNACK, Publish: Kind.PUBLISH, Disconnect: Kind.DISCONNECT, Auth: Kind.AUTH}
_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """A name that no other test uses."""
    return f"{prefix}{next(_numbers)}"


def kind_of(packet: Packet) -> Kind:
    return _KINDS.get(type(packet)) or packet.kind


class Wire:
    """A connection to a broker; packets that come out of turn wait until they are asked for."""

    def __init__(self, port: int, version: int = V5, *, strict: bool = True) -> None:
        self.version = version
        self.strict = strict  # must the broker say why it hangs up, and choose the reason that fits best?
        self.patience_s = PATIENCE_S if strict else HASTE_S
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.joined = False  # has a CONNECT been accepted?
        self.largest_bytes = 0  # of the packets received
        self._buffer = bytearray()
        self.waiting: list[Packet] = []
        self._packet_ids = itertools.count(1)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Hang up without a word."""
        self.socket.close()

    def send(self, packet: Packet) -> None:
        self.send_raw(encode(packet, self.version))

    def send_raw(self, raw: bytes) -> None:
        with suppress(ConnectionError):  # if the broker has hung up, whoever reads next will see it
            self.socket.sendall(raw)

    def receive(self) -> Packet | None:
        """The next packet, None when the broker has hung up, TimeoutError when neither comes."""
        return self.waiting.pop(0) if self.waiting else self._read(time.monotonic() + self.patience_s)

    def _read(self, deadline: float) -> Packet | None:
        while (place := frame(self._buffer, 0, MOST_BYTES)) is None or place[1] > len(self._buffer):
            if not self._fill(deadline):
                return None
        start, end = place
        first, body = self._buffer[0], bytes(self._buffer[start:end])
        del self._buffer[:end]
        self.largest_bytes = max(self.largest_bytes, end)
        return decode(first, body, self.version)

    def _fill(self, deadline: float) -> bool:
        self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            arrived = self.socket.recv(65_536)
        except ConnectionError:
            return False
        self._buffer += arrived
        return bool(arrived)

    def expect(self, kind: Kind) -> Packet:
        """The next packet of a kind; others wait."""
        for place, packet in enumerate(self.waiting):
            if kind_of(packet) is kind:
                return self.waiting.pop(place)
        deadline = time.monotonic() + self.patience_s
        try:
            while (packet := self._read(deadline)) is not None:
                if kind_of(packet) is kind:
                    return packet
                self.waiting.append(packet)
        except TimeoutError:
            raise TimeoutError(f"no {kind.name} came; there is {self.waiting}") from None
        raise AssertionError(f"the broker hung up before a {kind.name}; there is {self.waiting}")

    def expect_nothing(self, seconds: float = QUIET_S) -> None:
        """No packet comes for a while, although the broker is there and answers."""
        time.sleep(seconds)
        self.ping()
        assert not self.waiting, f"nothing was expected, and there is {self.waiting}"

    def expect_closed(self, *reasons: int) -> None:
        """The broker hangs up; in MQTT 5 it says one of these reasons first."""
        if not self.strict:
            self.send(Ping(Kind.PINGREQ))  # who is still there answers, and we need not wait
        while isinstance(packet := self.receive(), Publish):
            pass  # it was under way
        if reasons and self.version == V5 and (packet is not None or self.strict):
            told_by = Disconnect if self.joined else Connack
            assert isinstance(packet, told_by), f"{told_by.__name__} was expected, and there is {packet}"
            allowed = reasons if self.strict else (*reasons, Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)
            assert packet.reason in allowed, f"the reason is 0x{packet.reason:02X}"
            packet = self.receive()
        assert packet is None, f"the connection should be closed, and there is {packet}"

    def connect(self, client_id: str | None = None, **fields: object) -> Connack:
        client_id = unique("c") if client_id is None else client_id
        self.send(Connect(client_id=client_id, version=self.version, **fields))
        answer = self.expect(Kind.CONNACK)
        self.joined = answer.reason == 0
        return answer

    def subscribe(self, *filters: str | Subscription, qos: int = 0, packet_id: int = 0, **properties: object) -> Suback:
        wanted = [Subscription(filter=one, qos=qos) if isinstance(one, str) else one for one in filters]
        packet_id = packet_id or next(self._packet_ids)
        self.send(Subscribe(packet_id=packet_id, subscriptions=wanted, properties=properties))
        return self.expect(Kind.SUBACK)

    def unsubscribe(self, *filters: str, packet_id: int = 0) -> Suback:
        self.send(Unsubscribe(packet_id=packet_id or next(self._packet_ids), filters=list(filters)))
        return self.expect(Kind.UNSUBACK)

    def publish(self, topic: str, payload: bytes = b"", *, qos: int = 0, **fields: object) -> Ack | None:
        """Send a message and see it through; what it was answered with, PUBACK or PUBREC."""
        packet_id = next(self._packet_ids) if qos else 0
        self.send(Publish(topic=topic, payload=payload, qos=qos, packet_id=packet_id, **fields))
        if qos == 0:
            return None
        answer = self.expect(Kind.PUBACK if qos == 1 else Kind.PUBREC)
        if qos == 2 and answer.reason < 0x80:
            self.send(Ack(kind=Kind.PUBREL, packet_id=packet_id))
            self.expect(Kind.PUBCOMP)
        return answer

    def take(self) -> Publish:
        """The next message, acknowledged as its QoS asks."""
        message = self.expect(Kind.PUBLISH)
        if message.qos:
            self.send(Ack(kind=Kind.PUBACK if message.qos == 1 else Kind.PUBREC, packet_id=message.packet_id))
        if message.qos == 2:
            self.expect(Kind.PUBREL)
            self.send(Ack(kind=Kind.PUBCOMP, packet_id=message.packet_id))
        return message

    def take_all(self, seconds: float = QUIET_S) -> list[Publish]:
        """The messages that come within a while."""
        time.sleep(seconds)
        self.ping()
        return [self.take() for packet in list(self.waiting) if isinstance(packet, Publish)]

    def ping(self) -> None:
        self.send(Ping(Kind.PINGREQ))
        self.expect(Kind.PINGRESP)

    def disconnect(self, reason: int = 0, **properties: object) -> None:
        """Take leave, and wait until the broker has hung up."""
        self.send(Disconnect(reason=reason, properties=properties))
        while self.receive() is not None:
            pass
        self.drop()
