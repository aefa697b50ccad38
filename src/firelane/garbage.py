"""Python's search for garbage, in a process that serves: only when there is much more in memory than there was.

While Python looks for objects that only hold each other, nothing else runs, and by itself it looks again and again at
all that lasts: 100 to 200 ms with 10 000 subscriptions, in the middle of the traffic. An exchange hardly makes such
objects; all others go as soon as nobody holds them, with or without a search. So it is left until memory has doubled,
counted in small blocks and in all that the process takes, which bounds what may gather, whatever makes it.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

GROWN = 2.0  # times what was in use after the last search, or the least since
SPARE_BLOCKS = 500_000  # more than that: some 50 MB
SPARE_BYTES = 256_000_000
CHECK_EVERY_S = 1.0


class Garbage:
    """Knows how much memory may be in use before the next search."""

    def __init__(self) -> None:
        self._most = _allowed(_used())

    def search_if_grown(self) -> bool:
        """Search if it is time to; whether it was."""
        used = _used()
        if all(now <= most for now, most in zip(used, self._most, strict=True)):
            self._most = tuple(map(min, self._most, _allowed(used)))
            return False
        gc.collect()
        self._most = _allowed(_used())
        return True


def memory_bytes() -> int:
    """What this process takes of the machine's memory."""
    try:
        resident = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):  # not Linux: the most it ever took
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return resident * resource.getpagesize()


@asynccontextmanager
async def searched_rarely() -> AsyncIterator[None]:
    """Until the block ends garbage is searched for rarely, and never among what was there when it began."""
    gc.freeze()
    gc.disable()
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_checking())
            try:
                yield
            finally:
                task.cancel()
    finally:
        gc.enable()
        gc.unfreeze()


async def _checking() -> None:
    garbage = Garbage()
    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        garbage.search_if_grown()


def _used() -> tuple[float, ...]:
    """Blocks of up to 512 bytes, of which Python knows, and all of it."""
    return sys.getallocatedblocks(), memory_bytes()


def _allowed(used: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(GROWN * now + spare for now, spare in zip(used, (SPARE_BLOCKS, SPARE_BYTES), strict=True))
