"""A recorded trace published as if it were read now, and streams watched: what `sense publish` and `sense watch` do."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from firelane.arrays import Floats
from firelane.client import PORTS, Client, address
from firelane.datagrams.client import PORT, DatagramClient
from firelane.sense.bank import AUTO
from firelane.sense.load import ProcessorLoad
from firelane.sense.precision import PERIOD_S, Control, PrecisionController
from firelane.sense.publisher import PublishedStream, SensorPublisher
from firelane.sense.series import Exciter, save_series
from firelane.sense.subscriber import SensorSubscriber
from firelane.sense.trace import Trace

LOOK_EVERY_S = 0.5
GAMMA_MAX = 4.0
SN = "mqtt-sn://"


def connection(broker: str, tell: Callable[[str], None]) -> Client | DatagramClient:
    """A client for an address: over TCP (mqtt://), TLS (mqtts://) or UDP (mqtt-sn://)."""
    if broker.startswith(SN):
        host, port, _ = address(broker, {SN.removesuffix("://"): PORT})
        return DatagramClient(host, port, tell=tell)
    address(broker, PORTS | {SN.removesuffix("://"): PORT})  # so that what is none is told of all kinds
    return Client(broker, tell=tell)


async def publish_trace(
    trace: Trace,
    *,
    broker: str,
    topic: str,
    precision: float,
    model: str = AUTO,
    speed: float = 1.0,
    load: float | None = None,
    record: str | None = None,
    period_s: float = PERIOD_S,
    progress: Callable[[int], None] = lambda done: None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Publish a trace, `speed` times as fast as it was recorded.

    `load` keeps the load of this process by its precision; `record` changes that on purpose instead, and writes down
    how the load answers.
    """
    control: Control | None = None
    exciter = Exciter(gamma_max=GAMMA_MAX, period_s=period_s) if record is not None else None
    if exciter is not None:
        control = exciter
    elif load is not None:
        control = PrecisionController(target=load, gamma_max=GAMMA_MAX, period_s=period_s)
    async with AsyncExitStack() as stack:
        client = connection(broker, tell)
        await stack.enter_async_context(client)
        publisher = await stack.enter_async_context(
            SensorPublisher(client, control=control, load=ProcessorLoad(now_s=time.time()), tell=tell)
        )
        stream = await publisher.offer(topic, trace.names, precision=precision, model=model)
        try:
            await _play(trace.times_s / speed, trace.values, stream, progress)
        finally:
            if client.connected:
                await publisher.withdraw(topic)
        if exciter is not None and record is not None:
            save_series(exciter.series(), record)
        return summary(stream, dropped=client.dropped)


async def _play(times_s: Floats, values: Floats, stream: PublishedStream, progress: Callable[[int], None]) -> None:
    start = time.time() - times_s[0]
    for time_s, readings in zip(times_s.tolist(), values, strict=True):
        await asyncio.sleep(max(0.0, start + time_s - time.time()))
        await stream.observe(readings, time_s=start + time_s)
        progress(1)


def summary(stream: PublishedStream, *, dropped: int) -> dict[str, Any]:
    """What `--json` prints of a published stream."""
    sending = stream.sending
    return {
        "readings": sending.readings,
        "sent": sending.sent,
        "suppressed": 1 - sending.sent / max(1, sending.readings),
        "messages": sending.messages,
        "bytes": sending.bytes,
        "dropped": dropped,
        "delta": stream.delta,
    }


async def watch_streams(
    topic_filter: str,
    *,
    broker: str,
    tolerance: float | None,
    seconds: float | None,
    show: Callable[[SensorSubscriber, float], None],
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Follow streams for so long, or until interrupted, and show them now and then."""
    client = connection(broker, tell)
    async with (
        client,
        SensorSubscriber(client, topic_filter, tolerance=tolerance, tell=tell) as sensors,
    ):
        start = time.monotonic()
        while seconds is None or time.monotonic() < start + seconds:
            await asyncio.sleep(LOOK_EVERY_S if seconds is None else min(LOOK_EVERY_S, seconds))
            show(sensors, time.monotonic())
        return {"streams": [_followed(sensors, topic) for topic in sorted(sensors.streams)]}


def _followed(sensors: SensorSubscriber, topic: str) -> dict[str, Any]:
    stream = sensors.streams[topic]
    now = stream.read(time.monotonic())
    known = [value if math.isfinite(value) else None for value in now.value.tolist()]
    return {
        "topic": topic,
        "delta": stream.delta if math.isfinite(stream.delta) else None,
        "messages": stream.messages,
        "updates": stream.updates,
        "missed": stream.missed,
        "refused": stream.refused,
        "incompatible": stream.incompatible or None,
        "lost": int(now.lost.sum()),
        "values": dict(zip(stream.names, known, strict=True)),
    }
