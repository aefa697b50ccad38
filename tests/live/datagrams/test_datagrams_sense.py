"""Streams of sensors over UDP: the publisher and the subscriber of `firelane.sense` on a client for datagrams."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from firelane.client import Client
from firelane.datagrams import DatagramClient
from firelane.sense.publisher import SensorPublisher
from firelane.sense.subscriber import SensorSubscriber
from live.brokers import firelane
from live.datagrams.relay import losing
from live.hard.ports import port_of

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

TOPIC = "building/3/temperature"
NAMES = [f"T{number}" for number in range(20)]
PATIENCE_S = 30.0
DELTA = 0.5


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def until(done) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not done():
            await asyncio.sleep(0.02)


def readings(step: int) -> np.ndarray:
    return 20 + 3 * np.sin(step / 15 + np.arange(len(NAMES)))


async def test_both_ends_on_udp_agree_and_heal_what_a_lossy_link_has_lost(tmp_path):
    """While nothing is lost the bound holds at every reading; after losses it holds again once states came anew."""
    with firelane(tmp_path, "--set", "exchange.mqtt_sn={port: 0, retry: 100 ms, retries: 50}") as broker:
        quick = {"retry_s": 0.1, "retries": 50}
        async with (
            losing(port_of(broker, "mqtt-sn"), 0.0, seed=6) as relay,
            DatagramClient("127.0.0.1", relay.port, **quick) as out,
            DatagramClient("127.0.0.1", relay.port, **quick) as into,
            SensorPublisher(out) as publisher,
            SensorSubscriber(into, "building/+/temperature") as known,
        ):
            stream = await publisher.offer(TOPIC, NAMES, precision=DELTA, heartbeat_s=0.5)
            await until(lambda: TOPIC in known.streams)
            followed = known.streams[TOPIC]
            for step in range(40):
                await stream.observe(readings(step), time_s=1e9 + step)
                await until(lambda: followed.updates >= stream.sending.sent)
                assert np.abs(followed.bank.predict(1e9 + step) - readings(step)).max() < DELTA
            relay.loss = 0.3
            for step in range(40, 120):
                await stream.observe(readings(step), time_s=1e9 + step)
            await asyncio.sleep(0.5)
            assert relay.lost > 10
            relay.loss = 0.0
            await until(lambda: np.abs(followed.bank.predict(1e9 + 119) - readings(119)).max() < DELTA)


async def test_a_message_that_does_not_fit_a_datagram_is_told_in_portions(tmp_path):
    """The publisher's first message holds all states and is too large for UDP; heartbeats are too seldom to help."""
    names = [f"T{number}" for number in range(100)]
    with firelane(tmp_path, "--set", "exchange.mqtt_sn={port: 0}") as broker:
        async with (
            Client(f"mqtt://127.0.0.1:{broker.port}") as out,
            DatagramClient("127.0.0.1", port_of(broker, "mqtt-sn")) as into,
            SensorPublisher(out) as publisher,
            SensorSubscriber(into, TOPIC) as known,
        ):
            stream = await publisher.offer(TOPIC, names, precision=DELTA, heartbeat_s=1000.0)
            await until(lambda: stream.grant is not None and stream.grant.lossy)  # so that messages have a trail
            await stream.observe(np.arange(100.0), time_s=1e9)
            await until(lambda: TOPIC in known.streams and known.streams[TOPIC].updates == len(names))
            assert not len(known.streams[TOPIC].missing())
            assert known.streams[TOPIC].bank.predict(1e9).tolist() == list(range(100))
            async with (
                DatagramClient("127.0.0.1", port_of(broker, "mqtt-sn")) as later,
                SensorSubscriber(later, TOPIC) as late,
            ):  # who asks for them gets them in portions, too
                await until(lambda: TOPIC in late.streams and late.streams[TOPIC].updates == len(names))
