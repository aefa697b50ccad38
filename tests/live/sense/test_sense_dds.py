"""Updates that go past the broker by DDS, while the broker negotiates; and what is lost there."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from firelane.client import Client
from firelane.dds import DdsTransport
from firelane.sense import SensorPublisher, SensorSubscriber
from live.brokers import firelane

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

TOPIC = "building/3/temperature"
NAMES = [f"T{number}" for number in range(300)]
PATIENCE_S = 30.0


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def until(done) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not done():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("reliable", [False, True])
async def test_the_broker_negotiates_and_updates_go_past_it(tmp_path, reliable):
    with firelane(tmp_path) as broker:
        url = f"mqtt://127.0.0.1:{broker.port}"
        async with (
            Client(url) as out,
            Client(url) as into,
            Client(url) as ear,
            DdsTransport(41, reliable=reliable) as here,
            DdsTransport(41, reliable=reliable) as there,
            SensorPublisher(out, carrier=here) as publisher,
            SensorSubscriber(into, TOPIC, tolerance=2.0, carrier=there) as known,
        ):
            overheard = []
            await ear.subscribe(TOPIC, lambda topic, payload: overheard.append(payload))
            stream = await publisher.offer(
                TOPIC, NAMES, precision=0.5, heartbeat_s=1.0, transport={"dds": {"domain": 41}}
            )
            assert await here.matched(TOPIC, within_s=PATIENCE_S)
            await until(lambda: stream.delta == 2.0)  # the tolerance was granted, and told to the publisher
            readings = 20 + np.zeros(len(NAMES))
            for step in range(100):
                readings = readings + np.linspace(0, 0.3, len(NAMES))
                await stream.observe(readings, time_s=1e9 + step)
                await until(lambda: known.streams[TOPIC].updates >= stream.sending.sent or not reliable)
                await asyncio.sleep(0.001)
            await until(lambda: not len(known.streams[TOPIC].missing()))
            assert (np.abs(known.streams[TOPIC].bank.predict(1e9 + 99) - readings) < 2.0).all()
            assert known[TOPIC, "T7"].bound == 2.0
            assert overheard == []  # nothing of it went through the broker
            assert publisher.dropped == 0
