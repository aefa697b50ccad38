"""Subscribers that name a profile of the exchange's instead of a tolerance, over TCP and over UDP."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from firelane.client import Client
from firelane.datagrams import DatagramClient
from firelane.sense import SensorPublisher, SensorSubscriber
from live.brokers import PORTS, firelane

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

PATIENCE_S = 30.0


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_a_profile_names_the_tolerance_and_the_stream_is_known_by_its_names(tmp_path):
    port = next(PORTS)
    settings = (f"exchange.mqtt_sn={{port: {port}}}", "exchange.profiles={coarse: {need: {tolerance: 2.0}}}")
    async with AsyncExitStack() as stack:
        broker = stack.enter_context(firelane(tmp_path, *(word for one in settings for word in ("--set", one))))
        url = f"mqtt://127.0.0.1:{broker.port}"
        await stack.enter_async_context(asyncio.timeout(PATIENCE_S))
        out, tcp = [await stack.enter_async_context(Client(url)) for _ in range(2)]
        udp = await stack.enter_async_context(DatagramClient("127.0.0.1", port))
        publisher = await stack.enter_async_context(SensorPublisher(out))
        both = [await stack.enter_async_context(SensorSubscriber(one, "$need/coarse/house/#")) for one in (tcp, udp)]
        stream = await publisher.offer("house/temperature", ["kitchen", "hall"], precision=0.5)
        step = 0
        while not all("house/temperature" in one.streams and one.streams["house/temperature"].delta == 2.0
                      and one["house/temperature", "hall"].bound == 2.0 for one in both):  # fmt: skip
            await stream.observe([20.0 + step**2, 19.0])
            step += 1
            await asyncio.sleep(0.1)
        assert stream.delta == 2.0
        for one in both:
            assert one["house/temperature", "hall"].value == pytest.approx(19.0, abs=2.0)


async def test_a_shared_subscription_brings_its_messages(tmp_path):
    with firelane(tmp_path) as broker:
        got = asyncio.Queue()
        async with asyncio.timeout(PATIENCE_S), Client(f"mqtt://127.0.0.1:{broker.port}") as client:
            await client.subscribe("$share/some/a/+", lambda topic, payload: got.put_nowait((topic, payload)))
            await client.publish("a/b", b"1")
            assert await got.get() == ("a/b", b"1")
            await client.unsubscribe("$share/some/a/+")
