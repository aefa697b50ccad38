"""The firefighters that are not measured: one process with a connection and a publisher for each of them.

They all have the same device and as many sensors as the measured one. So where the load is controlled, they do as it
does: their precision is the one that its messages carry.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from firelane.client import Client
from firelane.reproduce.rdds.fires import load_fires
from firelane.reproduce.rdds.play import DEVICE, Firefighter, Setting, clock_of
from firelane.reproduce.rdds.worker import Results, serve
from firelane.sense.publisher import SensorPublisher
from firelane.sense.updates import UpdateError
from firelane.sense.wire import decode

LOOKS = 8  # of each publisher, from sample to sample
LINGER_S = 0.6  # so that nobody is gone before the measured device has its last message


async def play(setting: Setting) -> Results:
    """Play all firefighters but the measured one."""
    fires = load_fires(setting.fires)
    clock = clock_of(setting, fires)
    everybody = [Firefighter(setting, fires, number) for number in range(1, setting.participants)]
    look_every_s = min(1.0, setting.period_s / LOOKS)
    used_s = time.process_time()
    publishers: list[SensorPublisher] = []
    async with AsyncExitStack() as stack:
        for one in everybody:
            client = await stack.enter_async_context(Client(setting.broker, client_id=one.topic))
            publisher = await stack.enter_async_context(SensorPublisher(client, look_every_s=look_every_s, clock=clock))
            await one.offer(publisher)
            stack.push_async_callback(one.withdraw, publisher)
            publishers.append(publisher)
        ready_at = time.monotonic()
        if setting.target is not None and everybody:
            await _follow(stack, setting, publishers)
        async with asyncio.TaskGroup() as group:
            for one in everybody:
                group.create_task(one.play())
                group.create_task(one.join())
        await asyncio.sleep(LINGER_S)
        return {
            "ready_before_s": setting.begin_at - ready_at,
            "readings": sum(one.total("readings") for one in everybody),
            "sent": sum(one.total("sent") for one in everybody),
            "skipped": sum(one.skipped for one in everybody),
            "processor_s": time.process_time() - used_s,
        }


async def _follow(stack: AsyncExitStack, setting: Setting, publishers: list[SensorPublisher]) -> None:
    """Take over the precision of the measured device whenever it changes."""

    def got(topic: str, payload: bytes) -> None:
        try:
            share = decode(payload).delta / setting.delta
        except UpdateError:
            return
        for publisher in publishers:
            for stream in publisher.streams.values():
                stream.gamma_share = share

    watcher: Any = await stack.enter_async_context(Client(setting.broker, client_id="watcher"))
    await watcher.subscribe(f"fire/{DEVICE}", got)


def main() -> None:
    """What the process does."""
    serve(Setting, play)
