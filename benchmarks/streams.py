"""What sensors cost an exchange and their publisher, with every reading sent and with models: processor time and bytes.

Ten publishers of a hundred thermometers each in generated fires, five subscribers who follow all of them, real
connections, the exchange in a process of its own. The same readings go out as a message each (as sensors do that know
of no models), as a message for each that is half a degree from the one sent last, and as streams of ours.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

import numpy as np

from firelane.arrays import Floats
from firelane.bench import Measure, main
from firelane.client import Client
from firelane.scenario.model import Scenario
from firelane.sense import Fire, SensorPublisher, SensorSubscriber, fire_trace
from firelane.served import Exchange, served

PUBLISHERS, SENSORS, SUBSCRIBERS = 10, 100, 5
STEPS, QUICK_STEPS = 200, 20
EVERY, CACHED, OURS = "every reading", "last value, a message each", "streams"
DRAIN_S = 30.0
LINGER_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one reading, in the mean."""

    exchange_s: float
    publisher_s: float
    bytes: float
    sent: float


def measures(*, quick: bool = False) -> list[Measure]:
    """Cost per reading of an exchange and of a publisher, and bytes to the exchange."""
    steps = QUICK_STEPS if quick else STEPS
    traces = fires(steps)
    costs = {}
    for way in (EVERY, CACHED, OURS):
        with served(Scenario(name="bench")) as exchange:
            costs[way] = asyncio.run(run(way, traces, exchange))
    peers = (EVERY, CACHED)

    def measure(name: str, unit: str, value: str) -> Measure:
        numbers = {way: float(getattr(cost, value)) for way, cost in costs.items()}
        return Measure(name=name, unit=unit, ours=numbers[OURS], peers={one: numbers[one] for one in peers})

    return [
        measure("streams, processor time of the exchange for a reading", "s", "exchange_s"),
        measure("streams, processor time of its publisher and five subscribers", "s", "publisher_s"),
        measure("streams, payload of a reading", "B", "bytes"),
        measure("streams, share of readings that are sent", "", "sent"),
    ]


def fires(steps: int) -> list[Floats]:
    """Readings of every publisher, steps x sensors, from the ten minutes in which its fire grows."""
    made = []
    for seed in range(PUBLISHERS):
        trace = fire_trace(Fire(rooms=25, sensors=4, seed=seed))
        rows = np.linspace(0, len(trace.times_s) - 1, len(trace.times_s), dtype=np.int64)[:steps]
        made.append(trace.values[rows])
    return made


async def run(way: str, traces: list[Floats], exchange: Exchange) -> Cost:
    """Send all readings, a step after the other, as fast as they are taken."""
    url = f"mqtt://127.0.0.1:{exchange.mqtt_port}"
    got = 0

    def note(topic: str, payload: bytes) -> None:
        nonlocal got
        got += 1

    async with AsyncExitStack() as stack:
        out = [await stack.enter_async_context(Client(url)) for _ in traces]
        for _ in range(SUBSCRIBERS):
            into = await stack.enter_async_context(Client(url))
            if way == EVERY:
                await into.subscribe("house/#", note)
            else:
                await stack.enter_async_context(
                    SensorSubscriber(into, "house/#", on_update=lambda stream, updates: note("", b""))
                )
        sensors = [f"T{number}" for number in range(SENSORS)]
        streams = []
        for number, client in enumerate(out):
            if way != EVERY:
                publisher = await stack.enter_async_context(SensorPublisher(client))
                model = "last-value" if way == CACHED else "auto"
                streams.append(await publisher.offer(f"house/{number}", sensors, precision=0.5, model=model))
        await asyncio.sleep(LINGER_S)
        before_s, ours_s = exchange.processor_s() or 0.0, time.process_time()
        sent = size = 0
        for step in range(len(traces[0])):
            for number, trace in enumerate(traces):
                if way == EVERY:
                    for sensor, value in enumerate(trace[step].tolist()):
                        payload = f"{value:.2f}".encode()
                        await out[number].publish(f"house/{number}/{sensor}", payload)
                        sent, size = sent + 1, size + len(payload)
                else:
                    sent += await streams[number].observe(trace[step], time_s=float(step), apart=way == CACHED)
            await asyncio.sleep(0)
        deadline = time.monotonic() + DRAIN_S
        while got < SUBSCRIBERS * sent and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        spent_s = (exchange.processor_s() or 0.0) - before_s
        readings = len(traces) * traces[0].size
        updates = sum(one.sending.sent for one in streams) if streams else sent
        size = sum(one.sending.bytes for one in streams) if streams else size
        return Cost(
            exchange_s=spent_s / readings,
            publisher_s=(time.process_time() - ours_s) / readings,
            bytes=size / readings,
            sent=updates / readings,
        )


if __name__ == "__main__":
    main(measures)
