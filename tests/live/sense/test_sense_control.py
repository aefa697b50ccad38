"""Both loops over a real exchange: a publisher keeps its load by its precision, a busy subscriber lowers its target."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import numpy as np
import pytest

from firelane.client import Client
from firelane.sense import MessageLoad, OccupancyPredictor, PrecisionController, SensorPublisher, SensorSubscriber
from firelane.sense.offer import LOAD, LoadSignal, to_json
from live.brokers import firelane

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

TOPIC = "building/3/temperature"
SENSORS = 100
PERIOD_S = 0.5
PATIENCE_S = 60.0


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def url(tmp_path):
    with firelane(tmp_path, "--set", "exchange.sense={load_period: 1 s, load_floor: 0.2}") as broker:
        yield f"mqtt://127.0.0.1:{broker.port}"


class Device:
    """A publisher of noisy sensors, a message for each update, whose load is its messages a second."""

    def __init__(self, publisher: SensorPublisher, sensors: int) -> None:
        self.publisher, self.stream = publisher, None
        self.chosen = np.arange(sensors)
        self.loads: list[float] = []

    async def run(self) -> None:
        random = np.random.default_rng(1)
        while True:
            await self.stream.observe(random.normal(20, 1, len(self.chosen)), self.chosen, apart=True)
            await asyncio.sleep(0.05)


class NotedLoad(MessageLoad):
    """Remembers what it measured."""

    def measure(self, now_s: float) -> float:
        self.noted = [*getattr(self, "noted", []), super().measure(now_s)]
        return self.noted[-1]


@asynccontextmanager
async def device(url: str, **more):
    control = PrecisionController(target=0.6, gamma_max=100.0, gamma=10.0, period_s=PERIOD_S)
    load = NotedLoad(now_s=time.time(), rated_hz=1000.0)
    async with Client(url) as client, SensorPublisher(client, control=control, load=load) as publisher:
        one = Device(publisher, SENSORS)
        names = [f"T{number}" for number in range(3 * SENSORS)]
        one.stream = await publisher.offer(TOPIC, names, precision=10.0, model="last-value", **more)
        task = asyncio.create_task(one.run())
        try:
            yield one, control, load
        finally:
            task.cancel()


async def settled(load: NotedLoad, target: float, samples: int = 8) -> None:
    """The mean of some samples running is within 0.05 of the target, or a tenth on a busy machine."""
    start = len(load.noted)
    async with asyncio.timeout(PATIENCE_S):
        while len(load.noted) < start + samples or abs(np.mean(load.noted[-samples:]) - target) > 0.1:
            await asyncio.sleep(0.1)


async def test_a_surge_is_answered_by_less_precision_and_a_busy_subscriber_is_heard(url):
    async with device(url) as (one, control, load), Client(url) as into:
        await settled(load, 0.6)
        before = one.stream.delta
        one.chosen = np.arange(3 * SENSORS)  # three times the sensors
        await settled(load, 0.6)
        assert one.stream.delta > before
        # A subscriber that can take half of that: its predictor asks for less, the exchange tells the publisher.
        slow = OccupancyPredictor(buffer=100, now_s=time.monotonic(), occupancy=0.1, most=0.6, floor=0.2, window_s=1.5)
        spent = 1.0 / 300

        async with SensorSubscriber(
            into, TOPIC, tolerance=10.0, buffer=100, occupancy=slow, on_update=lambda *_: time.sleep(spent)
        ):
            async with asyncio.timeout(PATIENCE_S):
                while control.target >= 0.5:
                    await asyncio.sleep(0.1)
            assert control.target >= 0.2
        async with asyncio.timeout(PATIENCE_S):
            while control.target < 0.6:  # it has gone, and is forgotten
                await asyncio.sleep(0.1)


async def test_one_compromised_client_cannot_starve_the_rest(url):
    async with (
        device(url) as (_, control, _),
        Client(url) as into,
        Client(url) as bad,
        SensorSubscriber(into, TOPIC, tolerance=10.0) as known,
    ):
        await bad.publish(LOAD + TOPIC, to_json(LoadSignal(load=0.0)))  # holds no subscription
        await asyncio.sleep(1.5)
        assert control.target == 0.6
        await bad.subscribe(TOPIC, lambda topic, payload: None, properties=(("tolerance", "10"),))
        until = time.monotonic() + 6
        while time.monotonic() < until:
            for payload in (to_json(LoadSignal(load=0.0)), b"{", b'{"format":1,"load":-1}', b""):
                await bad.publish(LOAD + TOPIC, payload)
            await asyncio.sleep(0.01)
        assert control.target >= 0.2  # the floor
        reading = known[TOPIC, "T0"]
        assert reading.bound <= 10.0  # as was granted
        assert not reading.lost
