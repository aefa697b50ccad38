"""kazoo's client, with watches that may go off more than once and answers that go to an event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Watch
from kazoo.retry import KazooRetry

from firelane.overlay.paths.dialling import dialled
from firelane.overlay.registry.tree import Heard

RECONNECT_S = 0.1  # at first; at most LONGEST_RECONNECT_S
LONGEST_RECONNECT_S = 0.5
CONNECT_S = 2.0  # before another server is tried

_log = logging.getLogger("firelane.zookeeper")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # what kazoo has to say at every attempt is told by the state


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with connections that are soon there again after a network was cut."""

    def create_connection(self, address: tuple[str, int], timeout: float, **_: object) -> socket.socket:
        """Called in a thread of kazoo's; the rest is for encryption, which is not asked for."""
        return asyncio.run(dialled(*address, within_s=min(timeout, CONNECT_S)))


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, with watches that may go off more than once."""

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        self.client.heard(event.path)


class Client(KazooClient):  # type: ignore[misc]
    """A client that connects again for ever; `heard` is called in its thread."""

    def __init__(self, hosts: str, session_s: float, heard: Heard) -> None:
        retry = KazooRetry(max_tries=-1, delay=RECONNECT_S, backoff=2, max_delay=LONGEST_RECONNECT_S)
        super().__init__(hosts=hosts, timeout=session_s, connection_retry=retry, handler=_Handler(), logger=_log)
        self.heard = heard
        self._connection = _Connection(self, self._conn_retry.copy(), logger=_log)

    def end(self) -> None:
        """Blocks until the session is closed, or cannot be."""
        self.stop()
        self.close()

    def give_up(self) -> None:
        """What a connection that has failed still holds is let go."""
        with suppress(Exception):
            self.end()


class Answer:
    """What kazoo gives an answer to, in its thread; it ends in a future of the event loop."""

    __slots__ = ("_future", "_hand_over", "_told")

    def __init__(
        self,
        future: asyncio.Future[Any],
        hand_over: Callable[[Callable[[], None]], None],
        told: Callable[[Exception], Exception],
    ) -> None:
        self._future = future
        self._hand_over = hand_over
        self._told = told

    def set(self, value: Any) -> None:
        """It was done."""
        self._hand_over(partial(self._end, value, None))

    def set_exception(self, problem: Exception) -> None:
        """It was not."""
        self._hand_over(partial(self._end, None, problem))

    def _end(self, value: Any, problem: Exception | None) -> None:
        if self._future.done():
            return
        if problem is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(self._told(problem))
