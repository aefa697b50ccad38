"""A client's end of a connection to a broker that is driven by hand."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from firelane.exchange.clients.connection import Connection
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import (
    Ack,
    Connack,
    Connect,
    Disconnect,
    Kind,
    Packet,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
)

if TYPE_CHECKING:
    from desk import Desk

MOST_BYTES = 268_435_460


class Line:
    """A client's end of a connection. `got` are the packets that came and were not yet looked at."""

    def __init__(self, desk: Desk, version: int) -> None:
        self.desk = desk
        self.version = version
        self.connection = Connection("127.0.0.1", desk.now, driver=self)
        self.connack: Connack | None = None
        self.got: list[Packet] = []
        self.closed = False
        self.bytes = b""  # all that ever came
        self._buffer = b""
        self._packet_ids = itertools.count(1)
        desk.broker.opened(self.connection)

    # ---- what the client does

    def send(self, *packets: Packet) -> None:
        self.send_raw(b"".join(encode(one, self.version) for one in packets))

    def send_raw(self, raw: bytes) -> None:
        assert not self.closed, "the connection is closed"
        self.desk.broker.received(self.connection, raw, self.desk.now)
        self.desk.settle()

    def connect(self, client_id: str, **fields: object) -> Connack | None:
        self.send(Connect(client_id=client_id, version=self.version, **fields))
        self.connack = self.take(Connack)
        return self.connack

    def subscribe(self, *filters: str | Subscription, qos: int = 0, **properties: object) -> Suback | None:
        wanted = [Subscription(filter=one, qos=qos) if isinstance(one, str) else one for one in filters]
        self.send(Subscribe(packet_id=next(self._packet_ids), subscriptions=wanted, properties=properties))
        return self.take(Suback)

    def unsubscribe(self, *filters: str) -> Suback | None:
        self.send(Unsubscribe(packet_id=next(self._packet_ids), filters=list(filters)))
        return self.take(Suback)

    def publish(self, topic: str, payload: bytes = b"", *, qos: int = 0, packet_id: int = 0, **fields: object) -> int:
        """Send a message and return its packet identifier; what it is answered with is in `got`."""
        packet_id = packet_id or (next(self._packet_ids) if qos else 0)
        self.send(Publish(topic=topic, payload=payload, qos=qos, packet_id=packet_id, **fields))
        return packet_id

    def ack(self, kind: Kind, packet_id: int, reason: int = 0) -> None:
        self.send(Ack(kind=kind, packet_id=packet_id, reason=reason))

    def leave(self, reason: int = 0, **properties: object) -> None:
        """Take leave as MQTT wants it."""
        self.send(Disconnect(reason=reason, properties=properties))

    def drop(self) -> None:
        """Be lost without a word."""
        if not self.closed:
            self.closed = True
            self.desk.broker.closed(self.connection, self.desk.now)
            self.desk.settle()

    def full(self, full: bool = True) -> None:
        """The socket takes no more, or takes more again."""
        self.desk.broker.writable(self.connection, not full, self.desk.now)
        self.desk.settle()

    # ---- what the client sees

    def arrive(self, data: bytes) -> None:
        """Bytes from the broker."""
        self.bytes += data
        self._buffer += data
        while (place := frame(self._buffer, 0, MOST_BYTES)) is not None and place[1] <= len(self._buffer):
            start, end = place
            self.got.append(decode(self._buffer[0], self._buffer[start:end], self.connection.version))
            self._buffer = self._buffer[end:]

    def take(self, kind: type) -> Packet | None:
        """The first packet of a type, or None."""
        found = next((one for one in self.got if isinstance(one, kind)), None)
        if found is not None:
            self.got.remove(found)
        return found

    def take_all(self) -> list[Packet]:
        """Everything that came."""
        came, self.got = self.got, []
        return came

    def messages(self) -> list[Publish]:
        """The messages that came."""
        came = [one for one in self.got if isinstance(one, Publish)]
        self.got = [one for one in self.got if not isinstance(one, Publish)]
        return came

    def payloads(self) -> list[bytes]:
        """What the messages said."""
        return [one.payload for one in self.messages()]

    def acks(self) -> list[tuple[Kind, int]]:
        """The acknowledgements that came, with their packet identifiers."""
        came = [one for one in self.got if isinstance(one, Ack)]
        self.got = [one for one in self.got if not isinstance(one, Ack)]
        return [(one.kind, one.packet_id) for one in came]

    def take_in(self) -> list[bytes]:
        """Acknowledge messages as a good client does until no more come; what they said."""
        said = []
        while any(isinstance(one, Publish | Ack) for one in self.got):
            for one in self.take_all():
                if isinstance(one, Publish):
                    said.append(one.payload)
                    if one.qos:
                        self.ack(Kind.PUBACK if one.qos == 1 else Kind.PUBREC, one.packet_id)
                elif isinstance(one, Ack) and one.kind is Kind.PUBREL:
                    self.ack(Kind.PUBCOMP, one.packet_id)
        return said
