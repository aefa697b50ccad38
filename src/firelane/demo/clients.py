"""The clients of one broker: its publishers and subscribers as real MQTT 5 connections, and what they noted."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

from firelane.demo.arrivals import Arrivals
from firelane.demo.fire import Fire, Phase
from firelane.errors import FirelaneError
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.fields import string, variable
from firelane.mqtt.packets import V5, Connack, Connect, Disconnect, Kind, Packet, Suback, Subscribe, Subscription
from firelane.served import HOST

ANSWER_S = 30.0
MOST_BYTES = 1_000_000
NUMBER = struct.Struct(">I")  # at the start of every payload
LENGTH = struct.Struct(">H")  # of a topic
PUBLISH = bytes((Kind.PUBLISH << 4,))
NO_PROPERTIES = b"\0"


class Client(asyncio.Protocol):
    """A connection. `got` is called with buffer, start and end of every PUBLISH's body."""

    def __init__(self, client_id: str, got: Callable[[bytearray, int, int], None] | None = None) -> None:
        self.client_id = client_id
        self.lost = False
        self._got = got
        self._buffer = bytearray()
        self._answers: asyncio.Queue[Packet | None] = asyncio.Queue()
        self._packet_ids = count(1)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A socket, on which everything is written at once."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits for an answer will not get one."""
        self.lost = True
        self._answers.put_nowait(None)

    def data_received(self, data: bytes) -> None:
        """Take whole packets."""
        buffer, at = self._buffer, 0
        buffer += data
        while (place := frame(buffer, at, MOST_BYTES)) is not None and place[1] <= len(buffer):
            start, end = place
            if buffer[at] >> 4 == Kind.PUBLISH and self._got is not None:
                self._got(buffer, start, end)
            else:
                self._answers.put_nowait(decode(buffer[at], bytes(buffer[start:end]), V5))
            at = end
        del buffer[:at]

    def write(self, packet: bytes) -> None:
        """Send these bytes, as long as there is somebody to send them to."""
        assert self._transport is not None
        if not self.lost:
            self._transport.write(packet)

    async def introduce(self) -> None:
        """CONNECT, and wait to be let in."""
        self.write(encode(Connect(client_id=self.client_id), V5))
        await self._consent(Connack)

    async def subscribe(self, filters: list[str], weight: float | None = None) -> None:
        """Ask for these, and say what they are worth; the same again says what they are worth now."""
        properties = {} if weight is None else {"user_property": [("weight", f"{weight:g}")]}
        wanted = [Subscription(filter=one) for one in filters]
        self.write(encode(Subscribe(packet_id=next(self._packet_ids), subscriptions=wanted, properties=properties), V5))
        await self._consent(Suback)

    def leave(self) -> None:
        """Say goodbye and hang up."""
        self.write(encode(Disconnect(), V5))
        assert self._transport is not None
        self._transport.close()

    async def _consent(self, kind: type[Connack | Suback]) -> None:
        answer = None
        with suppress(TimeoutError):
            answer = await asyncio.wait_for(self._answers.get(), ANSWER_S)
        reasons = answer.reasons if isinstance(answer, Suback) else [getattr(answer, "reason", 0)]
        if not isinstance(answer, kind) or max(reasons) >= 0x80:
            raise FirelaneError(f"an exchange of the demo refused {self.client_id}: {answer or 'no answer'}")


class Clients:
    """All clients of one broker; `arrivals` is what came of what they sent."""

    def __init__(self, fire: Fire, clock: Callable[[], float]) -> None:
        self.arrivals = Arrivals(fire)
        self._clock = clock
        self._fire = fire
        self._heads = [string(name) + NO_PROPERTIES for name in fire.routes.topics]
        self._topic = fire.topic.tolist()
        self._size = fire.size_bytes.tolist()
        scenario = fire.routes.scenario
        publishers = {name: Client(name) for name in scenario.publishers}
        sends = {topic: publishers[name] for name, one in scenario.publishers.items() for topic in one.publishes}
        self._publisher = [sends[topic] for topic in fire.routes.topics]
        self._subscribers = [Client(name, self._noting(number)) for number, name in enumerate(fire.routes.subscribers)]
        self.all = [*self._subscribers, *publishers.values()]

    async def settle_in(self) -> None:
        """Everybody is let in and asks for what the scenario says."""
        for one in self.all:
            await one.introduce()
        scenario = self._fire.routes.scenario
        for one in self._subscribers:
            await one.subscribe(list(scenario.subscribers[one.client_id].subscribes))

    def publish(self, number: int) -> None:
        """Send a publication now."""
        topic, size = self._topic[number], self._size[number]
        head = self._heads[topic]
        payload = NUMBER.pack(number) + bytes(size - NUMBER.size)
        self.arrivals.sent(number, self._clock())
        self._publisher[topic].write(PUBLISH + variable(len(head) + size) + head + payload)

    def check(self) -> None:
        """Everybody must still be there, or the comparison is void."""
        for one in self.all:
            if one.lost:
                raise FirelaneError(f"{one.client_id} lost its exchange, so there is nothing to compare; run it again")

    async def turn_to(self, phase: Phase, before: Phase) -> None:
        """Every subscriber says what its subscriptions are worth from now on, where that is something else."""
        network = self._fire.routes
        said: dict[tuple[int, float], list[str]] = {}
        rows = zip(network.subscription_subscriber.tolist(), network.filters, phase.needs, before.needs, strict=True)
        for subscriber, wanted, now, earlier in rows:
            if now != earlier:
                said.setdefault((subscriber, now.weight), []).append(wanted)
        for (subscriber, weight), filters in said.items():
            await self._subscribers[subscriber].subscribe(filters, weight)

    def _noting(self, subscriber: int) -> Callable[[bytearray, int, int], None]:
        """Takes a PUBLISH for one subscriber, which must be as it was sent."""
        heads, topic, size = self._heads, self._topic, self._size

        def note(buffer: bytearray, start: int, end: int) -> None:
            (length,) = LENGTH.unpack_from(buffer, start)
            (number,) = NUMBER.unpack_from(buffer, start + LENGTH.size + length + len(NO_PROPERTIES))
            head = heads[topic[number]]
            if not buffer.startswith(head, start) or end - start != len(head) + size[number]:
                raise FirelaneError(f"publication {number} did not arrive as it was sent")
            self.arrivals.received(number, subscriber, self._clock())

        return note


@asynccontextmanager
async def connected(fire: Fire, port: int, clock: Callable[[], float]) -> AsyncIterator[Clients]:
    """Everybody connected to the broker at this port, with their subscriptions, until the block ends."""
    clients = Clients(fire, clock)
    loop = asyncio.get_running_loop()
    there: list[Client] = []
    try:
        for one in clients.all:
            await loop.create_connection(lambda one=one: one, HOST, port)  # type: ignore[misc]
            there.append(one)
        await clients.settle_in()
        yield clients
    finally:
        for one in there:
            one.leave()
