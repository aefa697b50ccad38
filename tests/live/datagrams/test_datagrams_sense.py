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


async def test_many_states_are_told_in_datagrams_to_who_comes_late(tmp_path):
    """The publisher's first message holds all of them and is too large for UDP; the exchange tells them in portions."""
    names = [f"T{number}" for number in range(100)]
    with firelane(tmp_path, "--set", "exchange.mqtt_sn={port: 0}") as broker:
        async with (
            Client(f"mqtt://127.0.0.1:{broker.port}") as out,
            DatagramClient("127.0.0.1", port_of(broker, "mqtt-sn")) as into,
            SensorPublisher(out) as publisher,
            SensorSubscriber(into, TOPIC) as known,
        ):
            stream = await publisher.offer(TOPIC, names, precision=DELTA)
            await stream.observe(np.arange(100.0), time_s=1e9)
            await until(lambda: TOPIC in known.streams and len(known.streams[TOPIC]) == len(names))
            await until(lambda: not len(known.streams[TOPIC].missing()))
            assert known.streams[TOPIC].bank.predict(1e9).tolist() == list(range(100))


async def test_who_lacks_more_than_fits_a_datagram_asks_for_all(tmp_path):
    """The numbers of 999 sensors are some 4 kB; a datagram takes 1400 bytes."""
    names = [f"T{number}" for number in range(1000)]
    with firelane(tmp_path, "--set", "exchange.mqtt_sn={port: 0}") as broker:
        async with (
            Client(f"mqtt://127.0.0.1:{broker.port}") as out,
            DatagramClient("127.0.0.1", port_of(broker, "mqtt-sn")) as into,
            SensorPublisher(out) as publisher,
            SensorSubscriber(into, TOPIC) as known,
        ):
            stream = await publisher.offer(TOPIC, names, precision=DELTA)
            await stream.observe(np.zeros(1), np.array([0]), time_s=1e9)  # fits, so that only the others are lacking
            await until(lambda: TOPIC in known.streams and len(known.streams[TOPIC].missing()) == 999)
            await stream.observe(np.arange(1000.0), time_s=1e9 + 1)
            await until(lambda: not len(known.streams[TOPIC].missing()))
