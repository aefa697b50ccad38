"""Streams of sensors from peer to peer over DDS: brokers pass on offers and requests, and see no update."""

from __future__ import annotations

import numpy as np
import pytest

from dds_domains import some_domain
from firelane.client import Client
from firelane.dds import DdsTransport, Network
from firelane.sense.publisher import SensorPublisher
from firelane.sense.subscriber import SensorSubscriber
from live.brokers import firelane, mosquitto
from live.sense.test_sense_live import NAMES, PATIENCE_S, TOPIC, readings, until, url

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=[firelane, mosquitto])
def broker(request, tmp_path):
    with request.param(tmp_path) as one:
        yield one


@pytest.mark.parametrize(("reliable", "loss"), [(False, 0.0), (True, 0.0), (True, 0.3)])
async def test_updates_go_past_the_broker_and_keep_the_bound(broker, reliable, loss):
    domain = some_domain()
    network = Network(lease_s=2.0, loss=loss)
    async with (
        Client(url(broker)) as out,
        Client(url(broker)) as into,
        DdsTransport(domain, network, reliable=reliable) as sender,
        DdsTransport(domain, Network(lease_s=2.0), reliable=reliable) as receiver,
        SensorPublisher(out, carrier=sender) as publisher,
        SensorSubscriber(into, "building/+/temperature", carrier=receiver) as known,
    ):
        at_broker = []
        await into.subscribe("#", lambda topic, _: at_broker.append(topic))
        stream = await publisher.offer(TOPIC, NAMES, precision=0.5)
        assert await sender.matched(TOPIC, within_s=PATIENCE_S)
        await until(lambda: TOPIC in known.streams and receiver.subscriptions[0].statistics().matched == 1)
        errors = []
        for step in range(60):
            await stream.observe(readings(step), time_s=1e9 + step)
            await until(lambda: known.streams[TOPIC].updates == stream.sending.sent)
            errors.append(np.abs(known.streams[TOPIC].bank.predict(1e9 + step) - readings(step)).max())
        assert max(errors) < 0.5
        assert known.streams[TOPIC].offer.transport == {"dds": {"domain": domain}}
        assert 0 < stream.sending.sent < stream.sending.readings
        assert at_broker == []
        assert sender.sent(TOPIC).refused == 0


async def test_what_a_subscriber_missed_is_asked_for_over_the_broker(broker):
    """The first updates, which carry the states, go to nobody, and no heartbeat comes: what is known was asked for."""
    domain = some_domain()
    async with (
        Client(url(broker)) as out,
        Client(url(broker)) as into,
        DdsTransport(domain, Network(lease_s=2.0)) as sender,
        DdsTransport(domain, Network(lease_s=2.0)) as receiver,
        SensorPublisher(out, carrier=sender) as publisher,
        SensorSubscriber(into, TOPIC) as known,
    ):
        stream = await publisher.offer(TOPIC, NAMES, precision=0.5, heartbeat_s=60.0)
        for step in range(50):
            await stream.observe(readings(step), time_s=1e9 + step)
        assert sender.sent(TOPIC).matched == 0
        receiver.subscribe(TOPIC, known.arrived)
        assert await sender.matched(TOPIC, within_s=PATIENCE_S)
        await stream.observe(readings(50) + 100, time_s=1e9 + 50)
        await until(lambda: TOPIC in known.streams)

        def error() -> float:
            return np.abs(known.streams[TOPIC].bank.predict(1e9 + 50) - readings(50) - 100).max()

        await until(lambda: error() < 0.5)


async def test_a_tolerance_that_an_exchange_grants_is_kept_by_a_publisher_over_dds(tmp_path):
    domain = some_domain()
    with firelane(tmp_path) as broker:
        async with (
            Client(url(broker)) as out,
            Client(url(broker)) as into,
            DdsTransport(domain, Network(lease_s=2.0)) as sender,
            DdsTransport(domain, Network(lease_s=2.0)) as receiver,
            SensorPublisher(out, carrier=sender) as publisher,
        ):
            stream = await publisher.offer(TOPIC, NAMES, precision=0.5)
            assert stream.delta == 0.5
            async with SensorSubscriber(into, TOPIC, tolerance=1.5, carrier=receiver) as known:
                assert await sender.matched(TOPIC, within_s=PATIENCE_S)
                await until(lambda: stream.delta == 1.5)
                for step in range(20):
                    await stream.observe(readings(step), time_s=1e9 + step)
                await until(lambda: TOPIC in known.streams and known[TOPIC, "T3"].bound == 1.5)
