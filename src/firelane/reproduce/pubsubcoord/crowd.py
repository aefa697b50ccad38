"""Thousands of subscribers that join at once: plain MQTT connections, as small as can be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from firelane.errors import FirelaneError
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Kind, Subscribe, Subscription
from firelane.served import HOST

AT_ONCE = 100  # connections that are being made
ANSWER_S = 240.0  # for all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A subscriber to be: its edge, by name and port, and its topic."""

    edge: str
    port: int
    topic: str


@dataclass(slots=True)
class Joined:
    """When it asked, and when it was answered."""

    joining: Joining
    asked_s: float = 0.0
    answered_s: float = 0.0
    _line: _Line | None = field(default=None, repr=False)

    def leave(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.close()


class _Line(asyncio.Protocol):
    """CONNECT and SUBSCRIBE in one breath; what comes after SUBACK is not looked at."""

    def __init__(self, joined: Joined, hello: bytes) -> None:
        self._joined, self._hello = joined, hello
        self._said = bytearray()
        self.answered = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._joined.asked_s = time.monotonic()
        self._transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        if self.answered.done():
            return
        self._said += data
        while len(self._said) > 1 and len(self._said) >= 2 + self._said[1]:  # answers are shorter than 128 bytes
            kind, length = self._said[0] >> 4, self._said[1]
            if kind == Kind.SUBACK:
                self._joined.answered_s = time.monotonic()
                self.answered.set_result(self._said[1 + length] < 0x80)
                return
            del self._said[: 2 + length]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_result(False)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def join(subscribers: Sequence[Joining], begin: str) -> list[Joined]:
    """All of them, as fast as can be; client ids begin with `begin`."""
    found = [Joined(one) for one in subscribers]
    gate = asyncio.Semaphore(AT_ONCE)
    try:
        async with asyncio.timeout(ANSWER_S), asyncio.TaskGroup() as group:
            for number, one in enumerate(found):
                group.create_task(_join(one, f"{begin}-{number}", gate))
    except TimeoutError:
        late = sum(not one.answered_s for one in found)
        raise FirelaneError(f"{late} of {len(found)} subscribers had no answer after {ANSWER_S:g} s") from None
    return found


async def _join(joined: Joined, client_id: str, gate: asyncio.Semaphore) -> None:
    hello = encode(Connect(client_id=client_id, version=V5, keep_alive_s=0), V5)
    wish = Subscription(filter=joined.joining.topic, qos=0)
    hello += encode(Subscribe(packet_id=1, subscriptions=[wish]), V5)
    async with gate:
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(lambda: _Line(joined, hello), HOST, joined.joining.port)
        joined._line = line
        if not await line.answered:
            raise FirelaneError(f"an edge did not take the subscriber {client_id}; is the limit of open files too low?")
