"""Both ends of a stream whose packets get lost between them: one speaks, the other compares what it believes.

Sensors are read one group after the other, all over the interval, so that most updates travel alone. Nothing is lost
until a run begins: by then the models of both ends are the same.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.client import Client
from firelane.datagrams import DatagramClient
from firelane.reproduce.rdds.fires import load_fires, names_of, sensors
from firelane.reproduce.rdds.worker import Results, serve
from firelane.sense.offer import Resync
from firelane.sense.publisher import SensorPublisher
from firelane.sense.subscriber import SensorSubscriber

UDP, SILENT_UDP, TCP, DDS, RELIABLE_DDS = "udp", "udp, nothing asked for", "tcp", "dds", "dds, reliable"
WAYS = (UDP, SILENT_UDP, TCP, DDS, RELIABLE_DDS)
TOPIC = "fire/0"
WARM_ROWS = 60
HEARTBEAT_S = 10.0  # of the fires
DOMAIN = 7
LOOK = 0.9  # of an interval after a reading: so much time an update has
END_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """A run. Times are those of the machine's monotonic clock."""

    way: str
    near: str  # addresses
    far: str
    mqtt_port: int
    sn_port: int
    fires: Path
    begin_at: float
    rows: int
    sensors: int
    groups: int
    seed: int = 1
    delta: float = 1.0
    interval_s: float = 1.0

    @property
    def end_at(self) -> float:
        """When the last reading has been looked at."""
        return self.begin_at + (self.rows + 2) * self.interval_s


class End:
    """What both ends know of the sensors."""

    def __init__(self, run: Crossed) -> None:
        self.run = run
        fires = load_fires(run.fires)
        self.speed = fires.step_s / run.interval_s
        self.sensors = sensors(fires, run.sensors, run.seed, 0)
        self.group: Ints = np.arange(run.sensors) * run.groups // run.sensors
        self.first_row = math.ceil(run.begin_at / run.interval_s)

    def clock(self) -> float:
        """The time of the fires."""
        return time.monotonic() * self.speed

    def at(self, row: int) -> Floats:
        """When each sensor is read, on the machine's clock."""
        return self.run.interval_s * (row + self.group / self.run.groups)

    def carrier(self, here: str, there: str) -> Any:
        """What takes updates past the broker, if they are to go there."""
        if self.run.way not in (DDS, RELIABLE_DDS):
            return None
        from firelane.dds import DdsTransport, Network

        return DdsTransport(DOMAIN, Network(interface=here, peers=(there,)), reliable=self.run.way == RELIABLE_DDS)


async def speak(run: Crossed) -> Results:
    """The publisher's end."""
    end = End(run)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(f"mqtt://{run.near}:{run.mqtt_port}"))
        carrier = end.carrier(run.near, run.far)
        if carrier is not None:
            await stack.enter_async_context(carrier)
        publisher = await stack.enter_async_context(SensorPublisher(client, carrier=carrier, clock=end.clock))
        transport = None if carrier is None else {"dds": {"domain": DOMAIN}}
        stream = await publisher.offer(
            TOPIC,
            names_of(run.sensors),
            precision=run.delta,
            heartbeat_s=HEARTBEAT_S,
            transport=transport,
        )
        stack.push_async_callback(publisher.withdraw, TOPIC)
        row = math.ceil(time.monotonic() / run.interval_s)
        for before in range(row - WARM_ROWS, row):
            stream.sending.observe(float(end.at(before)[0]) * end.speed, end.sensors.read(before))
        stream.lacks(Resync())
        counted = None
        while row < end.first_row + run.rows:
            if row >= end.first_row and counted is None:
                counted = (stream.sending.messages, stream.sending.sent)
            readings, at = end.sensors.read(row), end.at(row)
            for group in range(run.groups):
                some = np.flatnonzero(end.group == group)
                await asyncio.sleep(max(0.0, at[some[0]] - time.monotonic()))
                await stream.observe(readings[some], some, time_s=at[some[0]] * end.speed, apart=True)
            row += 1
        messages, updates = counted or (0, 0)
        await asyncio.sleep(2 * run.interval_s)
        return {"messages": stream.sending.messages - messages, "updates": stream.sending.sent - updates}


class Silent(SensorSubscriber):
    """A subscriber that never asks for what it lacks, once it has begun."""

    silent_at = math.inf

    async def _ask(self) -> None:
        asking = asyncio.create_task(super()._ask())
        try:
            await asyncio.sleep(self.silent_at - time.monotonic())
        finally:
            asking.cancel()


async def listen(run: Crossed) -> Results:
    """The subscriber's end."""
    end = End(run)
    async with AsyncExitStack() as stack:
        carrier = end.carrier(run.far, run.near)
        if carrier is not None:
            await stack.enter_async_context(carrier)
        messenger: Any = Client(f"mqtt://{run.near}:{run.mqtt_port}")
        if run.way in (UDP, SILENT_UDP):
            messenger = DatagramClient(run.near, run.sn_port)
        await messenger.__aenter__()
        stack.push_async_callback(_leave, messenger)
        kind = Silent if run.way == SILENT_UDP else SensorSubscriber
        known = kind(messenger, TOPIC, carrier=carrier, clock=end.clock)
        if isinstance(known, Silent):
            known.silent_at = run.begin_at
        await stack.enter_async_context(known)
        return await _compare(end, known)


async def _leave(messenger: Any) -> None:
    """Goodbyes get lost, too: nobody waits for them for long."""
    try:
        async with asyncio.timeout(END_S):
            await messenger.__aexit__(None, None, None)
    except TimeoutError:
        pass


async def _compare(end: End, known: SensorSubscriber) -> Results:
    run = end.run
    await asyncio.sleep(max(0.0, run.begin_at - time.monotonic()))
    stream = known.streams.get(TOPIC)
    if stream is None or len(stream) != run.sensors or len(stream.missing()):
        return {"ready": False}
    before = (stream.messages, stream.updates, stream.missed)
    squares, largest, within, unsure = 0.0, 0.0, 0, 0
    for row in range(end.first_row, end.first_row + run.rows):
        readings, at = end.sensors.read(row), end.at(row)
        for group in range(run.groups):
            some = np.flatnonzero(end.group == group)
            await asyncio.sleep(max(0.0, at[some[0]] + LOOK * run.interval_s - time.monotonic()))
            error = np.abs(stream.bank.predict(at[some] * end.speed, some) - readings[some])
            squares += float(np.square(error).sum())
            largest = max(largest, float(error.max()))
            within += int(np.count_nonzero(error < run.delta))
            unsure += int(np.count_nonzero(~stream.bank.in_step[some] | stream.suspect[some]))
    count = run.rows * run.sensors
    return {
        "ready": True,
        "rmse": math.sqrt(squares / count),
        "max_error": largest,
        "within": within / count,
        "unsure": unsure / count,
        "messages": stream.messages - before[0],
        "updates": stream.updates - before[1],
        "missed": stream.missed - before[2],
    }


def main() -> None:
    """What the process of either end does."""
    serve(Crossed, speak if sys.argv[1:] == ["speak"] else listen)
