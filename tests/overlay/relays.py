"""A relay for TCP connections that can be paused, which is what a router that hangs looks like."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress


class Relay:
    """Passes on bytes both ways to wherever it was pointed; while paused it holds them back."""

    def __init__(self):
        self.locator = ""
        self._target = None
        self._goes = asyncio.Event()
        self._goes.set()
        self._tasks = set()

    def before(self, locator):
        """Stand in front of a broker; returns where to reach it from now on."""
        host, _, port = locator.rpartition(":")
        self._target = host, int(port)
        return self.locator

    def pause(self):
        self._goes.clear()

    def resume(self):
        self._goes.set()

    async def accept(self, reader, writer):
        there, back = await asyncio.open_connection(*self._target)
        for pair in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pass_on(*pair))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, reader, writer):
        try:
            with suppress(OSError):
                while data := await reader.read(65_536):
                    await self._goes.wait()
                    writer.write(data)
        finally:
            writer.transport.abort()

    async def close(self):
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def relay():
    one = Relay()
    server = await asyncio.start_server(one.accept, "127.0.0.1", 0)
    one.locator = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield one
    finally:
        server.close()
        await one.close()
