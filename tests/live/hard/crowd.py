"""Many clients at once, each a connection and little more."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, Ack, Connect, Kind, Packet, Publish, Subscribe, Subscription

AT_ONCE = 200
MOST_BYTES = 1_000_000
_ANSWERS = {Kind.PUBREC: Kind.PUBREL, Kind.PUBREL: Kind.PUBCOMP}


class Member:
    """One client of a crowd."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int = V3) -> None:
        self.version = version
        self.writer = writer
        self._reader = reader
        self._buffer = bytearray()

    def send(self, packet: Packet) -> None:
        if not self.writer.is_closing():
            self.writer.write(encode(packet, self.version))

    async def receive(self) -> Packet:
        while (place := frame(self._buffer, 0, MOST_BYTES)) is None or place[1] > len(self._buffer):
            if not (data := await self._reader.read(65_536)):
                raise ConnectionError("the broker hung up")
            self._buffer += data
        packet = decode(self._buffer[0], bytes(self._buffer[place[0] : place[1]]), self.version)
        del self._buffer[: place[1]]
        return packet

    async def connect(self, client_id: str, **fields: object) -> None:
        self.send(Connect(client_id=client_id, version=self.version, **fields))
        assert (await self.receive()).reason == 0

    async def subscribe(self, topic_filter: str, qos: int = 0) -> None:
        self.send(Subscribe(packet_id=1, subscriptions=[Subscription(filter=topic_filter, qos=qos)]))
        await self.receive()

    async def take(self, count: int) -> list[Packet]:
        return [await self.receive() for _ in range(count)]

    async def behave(self) -> None:
        """Read, and answer as one should, until the connection ends."""
        while True:
            packet = await self.receive()
            if isinstance(packet, Publish) and packet.qos:
                kind = Kind.PUBACK if packet.qos == 1 else Kind.PUBREC
                self.send(Ack(kind=kind, packet_id=packet.packet_id))
            elif isinstance(packet, Ack) and packet.kind in _ANSWERS:
                self.send(Ack(kind=_ANSWERS[packet.kind], packet_id=packet.packet_id))


async def opened(port: int, version: int = V3) -> Member:
    """A connection on which nothing has been said."""
    return Member(*await asyncio.open_connection("127.0.0.1", port), version)


@asynccontextmanager
async def crowd(port: int, count: int):
    """So many clients, connected."""
    gate, members = asyncio.Semaphore(AT_ONCE), []

    async def join(number: int) -> None:
        async with gate:
            members.append(member := await opened(port))
            await member.connect(f"member{number}")

    try:
        await asyncio.gather(*(join(number) for number in range(count)))
        yield members
    finally:
        for member in members:
            member.writer.close()
