"""Serves an app over HTTP inside a running event loop: uvicorn without its signals, its log and its patience."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from firelane.errors import ServeError

ANSWERED_AT_ONCE = 100  # connections; beyond it requests are answered with 503
MOST_CONNECTIONS = 500  # beyond it they are closed
REQUEST_WITHIN_S = 20.0  # of the answer before
KEEP_ALIVE_S = 5
CLOSE_WITHIN_S = 0.5
MOST_HEADER_BYTES = 16_384


class HttpConnection(H11Protocol):
    """A connection that must not be slow to ask: one that never gets to its request would be kept for ever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._await_request()

    def on_response_complete(self) -> None:
        """The next request may come."""
        super().on_response_complete()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        self._stop_waiting()

    def _await_request(self) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self._deadline = self.loop.call_later(REQUEST_WITHIN_S, self._close_if_asked_nothing)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _close_if_asked_nothing(self) -> None:
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self.transport.abort()


@asynccontextmanager
async def serving(app: ASGIApp, host: str, port: int) -> AsyncIterator[str]:
    """Serve an app at an address, whose URL is given; port 0 is any free one."""
    config = uvicorn.Config(
        app,
        http=HttpConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # bugs are told with their traceback; what strangers send is not
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        limit_concurrency=ANSWERED_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    server.servers = [await _listen(server, host, port)]
    shown = f"[{host}]" if ":" in host else host
    async with asyncio.TaskGroup() as group:
        group.create_task(server.main_loop())
        try:
            yield f"http://{shown}:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            await _close(server)


async def _listen(server: uvicorn.Server, host: str, port: int) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(
            lambda: HttpConnection(server.config, server.server_state, {}, loop), host, port
        )
    except (OSError, OverflowError) as problem:
        raise ServeError.listening(host, port, problem, "choose another --http-port") from None


async def _close(server: uvicorn.Server) -> None:
    """Let answers that are under way come to their end, but not for long."""

    def insist() -> None:
        server.force_exit = True
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # requests that are cut off are no bugs
        for task in server.server_state.tasks:
            task.cancel()
        for connection in list(server.server_state.connections):
            connection.transport.abort()

    insisting = asyncio.get_running_loop().call_later(CLOSE_WITHIN_S, insist)
    await server.shutdown()
    insisting.cancel()
