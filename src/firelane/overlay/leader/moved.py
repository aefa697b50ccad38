"""What a leader has moved last, and why: remembered here, and written to the registry for people to see."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from firelane.overlay.registry import Batch, Registry, RegistryError
from firelane.overlay.registry.last_moves import MOST_BATCHES

AGAIN_S = 1.0


class Moved:
    """Batches of moves are written apart from assignments, which never wait for that."""

    def __init__(self, registry: Registry) -> None:
        self.batches: deque[Batch] = deque(maxlen=MOST_BATCHES)
        self._registry = registry
        self._unwritten: deque[Batch] = deque(maxlen=MOST_BATCHES)
        self._woken = asyncio.Event()

    def add(self, batch: Batch) -> None:
        """The last one."""
        self.batches.append(batch)
        self._unwritten.append(batch)
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled; what cannot be written is tried again."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            batches = list(self._unwritten)
            try:
                await self._registry.add_moves(batches)
            except RegistryError:
                await asyncio.sleep(AGAIN_S)
                self._woken.set()
            else:
                self._unwritten = deque((one for one in self._unwritten if one not in batches), MOST_BATCHES)


def moves_as_data(batches: Iterable[Batch]) -> list[dict[str, Any]]:
    """As plain data, the newest first."""
    return [
        {
            "time": datetime.fromtimestamp(one.at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "leader": one.leader,
            "topics": one.topics,
            "moves": [{"topic": move.topic, "from": move.left, "to": move.to} for move in one.moves],
            "why": list(one.why),
        }
        for one in reversed(list(batches))
    ]
