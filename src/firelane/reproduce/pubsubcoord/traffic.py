"""Publishers and subscribers as the paper has them: 64 bytes every 50 ms, timed from sending to arrival."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np

from firelane.arrays import Floats
from firelane.client import Client

SIZE_BYTES = 64
EVERY_S = 0.05
DRAIN_S = 8.0
SENT = struct.Struct("!dQ")  # when, and which


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A topic with one publisher and one subscriber at each of some brokers."""

    topic: str
    source: str  # the broker's address
    targets: Sequence[str]
    properties: tuple[tuple[str, str], ...] = ()  # of the subscriptions


@dataclass(slots=True, kw_only=True)
class Seen:
    """What came of a stream at one subscriber, of what was sent after the warm-up."""

    stream: Stream
    latency_s: list[float] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)
    again: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of all streams."""

    seen: list[Seen]
    published: dict[str, int]  # by topic, after the warm-up
    seconds: float

    @property
    def latency_s(self) -> Floats:
        """Of all messages at all subscribers."""
        return np.array([one for some in self.seen for one in some.latency_s])

    @property
    def lost(self) -> int:
        """Messages that some subscriber never got."""
        return sum(self.published[one.stream.topic] - len(one.numbers) for one in self.seen)

    def summary(self) -> dict[str, Any]:
        """As numbers for a report."""
        found = self.latency_s
        return {
            "samples": len(found),
            "lost": self.lost,
            "again": sum(one.again for one in self.seen),
            "latency_s": summary(found),
        }


def summary(found: Floats) -> dict[str, float | None]:
    """Mean, median, high percentiles and the largest."""
    if not len(found):
        return dict.fromkeys(("mean", "median", "p95", "p99", "max"))
    percentiles = np.percentile(found, (50, 95, 99))
    return dict(
        zip(
            ("mean", "median", "p95", "p99", "max"),
            (float(found.mean()), *map(float, percentiles), float(found.max())),
            strict=True,
        )
    )


class Traffic:
    """`async with Traffic(streams) as traffic:` has everybody connected; `run` lets them publish."""

    def __init__(self, streams: Sequence[Stream], *, qos: int = 1, every_s: float = EVERY_S, seed: int = 1) -> None:
        self._streams, self._qos, self._every_s = streams, qos, every_s
        self._chance = Random(seed)
        self._seen = [Seen(stream=one) for one in streams for _ in one.targets]
        self._from_s = float("inf")
        self._publishers: list[Client] = []
        self._published = {one.topic: 0 for one in streams}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Traffic:
        try:
            targets = [(one, target) for one in self._streams for target in one.targets]
            for seen, (stream, target) in zip(self._seen, targets, strict=True):
                client = await self._stack.enter_async_context(Client(target))
                await client.subscribe(
                    stream.topic, partial(self._got, seen), qos=self._qos,
                    properties=stream.properties,
                )  # fmt: skip
            for stream in self._streams:
                self._publishers.append(await self._stack.enter_async_context(Client(stream.source)))
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._stack.aclose()

    async def run(self, *, warm_s: float, run_s: float, during: AbstractAsyncContextManager[Any]) -> Measured:
        """Publish; what is sent after the warm-up, while the block `during` lasts, counts, and is waited for."""
        began = time.monotonic()
        self._from_s, until_s = began + warm_s, began + warm_s + run_s
        async with asyncio.TaskGroup() as group:
            for stream, client in zip(self._streams, self._publishers, strict=True):
                group.create_task(self._publish(group, stream, client, until_s))
            await asyncio.sleep(warm_s)
            async with during:
                await asyncio.sleep(run_s)
        await self._drained()
        return Measured(seen=self._seen, published=self._published, seconds=run_s)

    async def _publish(self, group: asyncio.TaskGroup, stream: Stream, client: Client, until_s: float) -> None:
        due_s, number = time.monotonic() + self._chance.uniform(0.0, self._every_s), 0
        while due_s < until_s:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            now = time.monotonic()
            number += 1
            if now >= self._from_s:
                self._published[stream.topic] += 1
            payload = SENT.pack(now, number).ljust(SIZE_BYTES, b".")
            group.create_task(client.publish(stream.topic, payload, qos=self._qos))
            due_s += self._every_s

    def _got(self, seen: Seen, _: str, payload: bytes) -> None:
        sent_s, number = SENT.unpack_from(payload)
        if sent_s < self._from_s:
            return
        if number in seen.numbers:
            seen.again += 1
            return
        seen.numbers.add(number)
        seen.latency_s.append(time.monotonic() - sent_s)

    async def _drained(self) -> None:
        give_up = time.monotonic() + DRAIN_S
        while time.monotonic() < give_up:
            if all(len(one.numbers) == self._published[one.stream.topic] for one in self._seen):
                return
            await asyncio.sleep(0.05)
