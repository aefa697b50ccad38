"""Python's search for garbage, in a process that serves: only when there is much more in memory than there was.

While Python looks for objects that only hold each other, nothing else runs, and by itself it looks again and again at
all that lasts: 100 to 200 ms with 10 000 subscriptions, in the middle of the traffic. An exchange hardly makes such
objects; all others go as soon as nobody holds them, with or without a search. So it is left until memory has doubled,
which bounds what may gather, whatever makes it.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

GROWN = 2.0  # times the blocks of memory that were in use after the last search
SPARE_BLOCKS = 500_000  # more than that: some 50 MB
CHECK_EVERY_S = 1.0


class Garbage:
    """Knows how much memory was in use after the last search."""

    def __init__(self) -> None:
        self.most_blocks = _most_blocks()

    def search_if_grown(self) -> bool:
        """Search if it is time to; whether it was."""
        if sys.getallocatedblocks() <= self.most_blocks:
            return False
        gc.collect()
        self.most_blocks = _most_blocks()
        return True


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


def _most_blocks() -> int:
    return int(GROWN * sys.getallocatedblocks()) + SPARE_BLOCKS
