"""Streams of sensors over real brokers: within the bound, late comers, restarts, and what is no stream."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from firelane.client import Client, ClientError
from firelane.sense.offer import OfferError
from firelane.sense.publisher import SensorPublisher
from firelane.sense.subscriber import SensorSubscriber
from live.brokers import firelane, mosquitto

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

TOPIC = "building/3/temperature"
NAMES = [f"T{number}" for number in range(20)]
PATIENCE_S = 30.0


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=[firelane, mosquitto])
def broker(request, tmp_path):
    with request.param(tmp_path) as one:
        yield one


def url(broker) -> str:
    return f"mqtt://127.0.0.1:{broker.port}"


async def until(done) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not done():
            await asyncio.sleep(0.02)


def readings(step: int) -> np.ndarray:
    return 20 + 0.1 * step * np.arange(len(NAMES)) / 10 + 3 * np.sin(step / 15 + np.arange(len(NAMES)))


async def test_a_subscriber_knows_every_sensor_within_delta_by_few_messages(broker):
    async with (
        Client(url(broker)) as out,
        Client(url(broker)) as into,
        SensorPublisher(out) as publisher,
        SensorSubscriber(into, "building/+/temperature") as known,
    ):
        stream = await publisher.offer(TOPIC, NAMES, precision=0.5)
        await until(lambda: TOPIC in known.streams)
        errors = []
        for step in range(150):
            await stream.observe(readings(step), time_s=1e9 + step)  # a clock of its own
            await until(lambda: known.streams[TOPIC].updates == stream.sending.sent)
            errors.append(np.abs(known.streams[TOPIC].bank.predict(1e9 + step) - readings(step)).max())
        assert max(errors) < 0.5
        assert stream.sending.sent < 0.4 * stream.sending.readings
        reading = known[TOPIC, "T3"]
        assert reading.bound == 0.5
        assert not reading.lost
        with pytest.raises(KeyError, match="T99"):
            known[TOPIC, "T99"]


async def test_who_comes_late_is_told_the_state(broker):
    async with Client(url(broker)) as out, SensorPublisher(out) as publisher:
        stream = await publisher.offer(TOPIC, NAMES, precision=0.5)
        start_s = time.time() - 50
        for step in range(50):
            await stream.observe(readings(step), time_s=start_s + step)
        async with Client(url(broker)) as into, SensorSubscriber(into, TOPIC) as known:
            await until(lambda: TOPIC in known.streams and not len(known.streams[TOPIC].missing()))
            believed = known.streams[TOPIC].bank.predict(start_s + 49)
            assert (np.abs(believed - readings(49)) < 0.5).all()


async def test_a_broker_that_is_killed_and_started_again_harms_nobody_for_long(broker):
    told = []
    async with (
        Client(url(broker), tell=told.append) as out,
        Client(url(broker)) as into,
        SensorPublisher(out) as publisher,
        SensorSubscriber(into, TOPIC) as known,
    ):
        stream = await publisher.offer(TOPIC, NAMES, precision=0.5, heartbeat_s=1.0)
        await stream.observe(readings(0))
        await until(lambda: TOPIC in known.streams and known.streams[TOPIC].messages)
        await asyncio.to_thread(broker.kill)
        for step in range(1, 20):
            await stream.observe(readings(step) + 50)
        await asyncio.to_thread(broker.start)
        await until(lambda: out.connected and into.connected)
        await until(lambda: not len(known.streams[TOPIC].missing()) and known[TOPIC, "T0"].value > 60)
        for name, value in zip(NAMES, readings(19) + 50, strict=True):
            assert known[TOPIC, name].value == pytest.approx(value, abs=2.5)
    assert any("lost" in line for line in told)


async def test_a_publisher_that_is_silent_is_stale_then_lost(broker):
    async with Client(url(broker)) as into, SensorSubscriber(into, TOPIC) as known:
        async with Client(url(broker)) as out, SensorPublisher(out) as publisher:
            stream = await publisher.offer(TOPIC, NAMES, precision=0.5, heartbeat_s=0.5)
            await stream.observe(readings(0))
            await until(lambda: TOPIC in known.streams and known.streams[TOPIC].updates)
            for _ in range(20):
                await stream.observe(readings(0))
                await asyncio.sleep(0.1)
            assert stream.sending.sent == len(NAMES)  # nothing but heartbeats since the first readings
            assert known.streams[TOPIC].messages > 2
            await until(lambda: not known[TOPIC, "T0"].stale)
        await until(lambda: known[TOPIC, "T0"].lost)
        assert known[TOPIC, "T0"].stale


async def test_values_come_refreshed(broker):
    async with (
        Client(url(broker)) as out,
        Client(url(broker)) as into,
        SensorPublisher(out) as publisher,
        SensorSubscriber(into, TOPIC) as known,
    ):
        stream = await publisher.offer(TOPIC, NAMES, precision=0.5, heartbeat_s=1.0)
        await stream.observe(readings(0))
        times = []
        async with asyncio.timeout(PATIENCE_S):
            async for one, values in known.refreshed():
                assert one.topic == TOPIC
                assert len(values.value) == len(NAMES)
                times.append(time.monotonic())
                if len(times) == 3:  # the slope is 0: as often as heartbeats
                    break
        assert times[2] - times[1] == pytest.approx(1.0, abs=0.6)


async def test_what_came_before_the_end_of_a_stream_counts_and_does_not_begin_it_anew(broker):
    told = []
    async with (
        Client(url(broker)) as out,
        Client(url(broker)) as into,
        SensorPublisher(out) as publisher,
        SensorSubscriber(into, "#", on_update=lambda stream, updates: told.append(len(updates))) as known,
    ):
        stream = await publisher.offer(TOPIC, NAMES, precision=0.5)
        await until(lambda: TOPIC in known.streams)
        for step in range(50):
            await stream.observe(100.0 * step + readings(step), time_s=float(step))
        await publisher.withdraw(TOPIC)
        await until(lambda: TOPIC not in known.streams)
        await asyncio.sleep(0.3)
        assert TOPIC not in known.streams
    assert sum(told) == stream.sending.sent > 100


async def test_what_is_no_stream_is_told_once_and_left_out(broker):
    told = []
    async with (
        Client(url(broker)) as out,
        Client(url(broker)) as into,
        SensorSubscriber(into, "#", tell=told.append) as known,
    ):
        for _ in range(5):
            await out.publish("door/bell", b"ring", qos=1)
        await until(lambda: known.others == 5)
        assert not known.streams  # other topics would soon take all the room there is
    assert len(told) == 1
    assert "door/bell" in told[0]


async def test_what_cannot_be_offered_or_reached_is_told_in_a_line(broker):
    async with Client(url(broker)) as out, SensorPublisher(out) as publisher:
        for topic, words, more in (
            ("a/#", "topic", {}), ("$x", "topic", {}), ("a", "precision", {"precision": None}),
            ("a", "same", {"sensors": ["T", "T"]}), ("a", "precision", {"precision": float("nan")}),
        ):  # fmt: skip
            with pytest.raises(OfferError, match=words):
                await publisher.offer(topic, more.pop("sensors", NAMES), **({"precision": 0.5} | more))
        await publisher.offer("a", NAMES, precision=0.5)
        with pytest.raises(OfferError, match="already"):
            await publisher.offer("a", NAMES, precision=0.5)
    for wrong, words in (("tcp://x", "write mqtt"), ("mqtt://", "host"), ("mqtt://127.0.0.1:1", "cannot be reached")):
        with pytest.raises(ClientError, match=words):
            async with Client(wrong):
                pass
