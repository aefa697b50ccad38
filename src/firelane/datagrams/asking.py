"""A socket over which questions are asked until they are answered (MQTT-SN 1.2, section 6.13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from firelane.mqtt.reasons import PacketError
from firelane.mqtt.sn.decode import decode
from firelane.mqtt.sn.encode import encode
from firelane.mqtt.sn.messages import Kind, Message, Publish, Subscribe

Key = tuple[Kind, int]  # of an answer: its kind and message id


class UnansweredError(ConnectionError):
    """Nobody answers."""


class Asking(asyncio.DatagramProtocol):
    """Sends messages and hands on those that come; remembers who waits for which answer."""

    def __init__(self, take: Callable[[Message], None], *, retry_s: float, retries: int) -> None:
        self._take = take
        self._retry_s, self._retries = retry_s, retries
        self._answers: dict[Key, asyncio.Future[Any]] = {}
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Whatever is no message is nothing."""
        with suppress(PacketError):
            self._take(decode(data))

    def error_received(self, exc: Exception) -> None:
        """A datagram was lost, which is nothing new."""

    def send(self, message: Message) -> None:
        """Send a message once."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(encode(message))

    async def ask(self, message: Message, key: Key, *, tries: int | None = None) -> Any:
        """Send a message until it is answered; UnansweredError if it is not."""
        future = self._answers[key] = asyncio.get_running_loop().create_future()
        try:
            for _ in range(self._retries + 1 if tries is None else tries):
                self.send(message)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._retry_s):
                        return await asyncio.shield(future)
                if isinstance(message, Publish | Subscribe):
                    message = replace(message, duplicate=message.qos > 0)
        finally:
            del self._answers[key]
        raise UnansweredError

    def answered(self, key: Key, message: Message) -> None:
        """An answer came."""
        future = self._answers.get(key)
        if future is not None and not future.done():
            future.set_result(message)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
