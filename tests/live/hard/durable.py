"""A client that does its part: it keeps its side of the session when a connection or the broker is lost.

It comes back until it is told to leave, sends again what was not acknowledged, under the old packet identifiers, and
remembers which QoS 2 messages it has, so whatever then is lost or comes twice is the broker's doing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Connack, Connect, Kind, Packet, Publish, Suback, Subscribe, Subscription

AGAIN_S = 0.05
WINDOW = 20
MOST_BYTES = 1_000_000
_EXPIRY = {"session_expiry_interval": 3600}


class Durable:
    """Common to publishers and subscribers: the connection."""

    def __init__(self, port: int, client_id: str, version: int) -> None:
        self.port = port
        self.client_id = client_id
        self.version = version
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._buffer = bytearray()

    def come(self) -> None:
        """Connect, and come back whenever the connection is lost."""
        self._task = asyncio.create_task(self._stay())

    async def leave(self) -> None:
        """Hang up without a word."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _stay(self) -> None:
        while True:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._one_connection()
            await asyncio.sleep(AGAIN_S)

    async def _one_connection(self) -> None:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._buffer.clear()
        try:
            properties = _EXPIRY if self.version == V5 else {}
            self.send(Connect(client_id=self.client_id, version=self.version, clean_start=False, properties=properties))
            while data := await reader.read(65_536):
                self._buffer += data
                for packet in self._packets():
                    self.take(packet)
        finally:
            writer, self._writer = self._writer, None
            writer.close()

    def _packets(self) -> Iterator[Packet]:
        at = 0
        while (place := frame(self._buffer, at, MOST_BYTES)) is not None and place[1] <= len(self._buffer):
            yield decode(self._buffer[at], bytes(self._buffer[place[0] : place[1]]), self.version)
            at = place[1]
        del self._buffer[:at]

    def send(self, packet: Packet) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(packet, self.version))

    def take(self, packet: Packet) -> None:
        raise NotImplementedError


class Publisher(Durable):
    """Publishes numbered messages as fast as they are acknowledged, until told to stop."""

    def __init__(self, port: int, client_id: str, version: int, *, topic: str, qos: int) -> None:
        super().__init__(port, client_id, version)
        self.topic = topic
        self.qos = qos
        self.going_on = True
        self.sent = 0
        self.accepted: set[bytes] = set()  # PUBACK or PUBREC was seen
        self.open: dict[int, Publish | Ack] = {}  # by packet identifier, oldest first

    def take(self, packet: Packet) -> None:
        match packet:
            case Connack():
                assert packet.reason == 0
                self._send_again(packet.session_present)
            case Ack(kind=Kind.PUBACK):
                assert packet.reason < 0x80
                self.accepted.add(self.open.pop(packet.packet_id).payload)
            case Ack(kind=Kind.PUBREC):
                assert packet.reason < 0x80
                self._release(packet.packet_id)
            case Ack(kind=Kind.PUBCOMP):
                del self.open[packet.packet_id]
        while self.going_on and len(self.open) < WINDOW:
            self._publish()

    def _send_again(self, session_present: bool) -> None:
        for packet_id, packet in list(self.open.items()):
            if isinstance(packet, Publish):
                self.send(replace(packet, duplicate=session_present))
            elif session_present:
                self.send(packet)
            else:  # accepted, by a broker that no longer knows
                del self.open[packet_id]

    def _release(self, packet_id: int) -> None:
        packet = self.open[packet_id]
        if isinstance(packet, Publish):
            self.accepted.add(packet.payload)
            self.open[packet_id] = Ack(kind=Kind.PUBREL, packet_id=packet_id)
        self.send(self.open[packet_id])

    def _publish(self) -> None:
        self.sent += 1
        packet_id = (self.sent - 1) % 65_535 + 1
        assert packet_id not in self.open
        payload = b"%s %d %d" % (self.client_id.encode(), self.qos, self.sent)
        packet = Publish(topic=self.topic, payload=payload, qos=self.qos, packet_id=packet_id)
        self.open[packet_id] = packet
        self.send(packet)


class Subscriber(Durable):
    """Takes everything under a filter; what comes twice under a QoS 2 identifier is taken once."""

    def __init__(self, port: int, client_id: str, version: int, *, topic_filter: str, qos: int) -> None:
        super().__init__(port, client_id, version)
        self.topic_filter = topic_filter
        self.qos = qos
        self.subscribed = asyncio.Event()
        self.received: list[bytes] = []
        self.seen: set[bytes] = set()
        self._held: set[int] = set()  # QoS 2 identifiers taken and not released

    def take(self, packet: Packet) -> None:
        match packet:
            case Connack(session_present=False):
                assert packet.reason == 0
                self._held.clear()
                wanted = Subscription(filter=self.topic_filter, qos=self.qos)
                self.send(Subscribe(packet_id=1, subscriptions=[wanted]))
            case Suback():
                assert packet.reasons == [self.qos]
                self.subscribed.set()
            case Publish():
                self._message(packet)
            case Ack(kind=Kind.PUBREL):
                self._held.discard(packet.packet_id)
                self.send(Ack(kind=Kind.PUBCOMP, packet_id=packet.packet_id))

    def _message(self, packet: Publish) -> None:
        if packet.qos < 2 or packet.packet_id not in self._held:
            self.received.append(packet.payload)
            self.seen.add(packet.payload)
        if packet.qos == 1:
            self.send(Ack(kind=Kind.PUBACK, packet_id=packet.packet_id))
        elif packet.qos == 2:
            self._held.add(packet.packet_id)
            self.send(Ack(kind=Kind.PUBREC, packet_id=packet.packet_id))
