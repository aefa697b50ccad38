"""A client that knows nothing of Firelane's code follows what `sense publish` sends, over two brokers, bit for bit."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest

from firelane.client import Client
from firelane.sense import SensorSubscriber
from firelane.sense.wire import decode
from live.brokers import firelane, mosquitto

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

EXAMPLE = Path(__file__).parents[3] / "examples" / "follow_stream.py"
TOPIC = "house/temperature"
FIRELANE = [sys.executable, "-m", "firelane.cli"]
PATIENCE_S = 90


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=[mosquitto, firelane], ids=["mosquitto", "firelane"])
def url(request, tmp_path):
    with request.param(tmp_path) as broker:
        yield f"mqtt://127.0.0.1:{broker.port}"


class Noting(SensorSubscriber):
    """Writes down what all sensors read at the time of each message."""

    def __init__(self, client) -> None:
        super().__init__(client, TOPIC, on_update=self.note)
        self.times: deque[float] = deque()
        self.noted: dict[tuple[int, float], list[float | None]] = {}

    def arrived(self, topic: str, payload: bytes) -> None:
        self.times.append(decode(payload).time_s)
        super().arrived(topic, payload)

    def note(self, stream, updates) -> None:
        time_s = self.times.popleft()
        values = stream.bank.predict(time_s).tolist()
        self.noted[stream.boot, time_s] = [None if math.isnan(one) else one for one in values]


async def started(*command: object) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(*map(str, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def test_a_client_written_from_the_documentation_knows_the_same_values(url, tmp_path):
    trace = tmp_path / "fire.csv"
    subprocess.run([*FIRELANE, "generate", "fire", "--seconds", "200", "-o", trace], check=True, capture_output=True)
    running = []
    async with asyncio.timeout(PATIENCE_S), Client(url) as client, Noting(client) as sensors:
        try:
            running.append(
                await started(*FIRELANE, "sense", "publish", trace, "--topic", TOPIC, "--broker", url, "--speed", 20)
            )
            while len(sensors.noted) < 5:
                await asyncio.sleep(0.05)
            follower = await started(sys.executable, EXAMPLE, TOPIC, "--broker", url)  # late: it has to ask for states
            running.append(follower)
            lines, said = await follower.communicate()
            await running[0].communicate()
        finally:
            for one in running:
                if one.returncode is None:
                    one.kill()
    assert said.decode().strip() == "the stream has ended"
    both = [(line, sensors.noted[key]) for line in map(json.loads, lines.splitlines())
            if (key := (line["boot"], line["time"])) in sensors.noted]  # fmt: skip
    assert len(both) > 20
    for theirs, ours in both:
        assert all(one in (None, other) for one, other in zip(theirs["values"], ours, strict=True))
    assert None not in both[-1][0]["values"]


async def test_it_is_told_why_it_is_refused(tmp_path):
    with firelane(tmp_path) as broker:
        url = f"mqtt://127.0.0.1:{broker.port}"
        trace = tmp_path / "fire.csv"
        trace.write_text("time,a\n" + "".join(f"{second},20\n" for second in range(60)))
        publisher = await started(*FIRELANE, "sense", "publish", trace, "--topic", TOPIC, "--broker", url)
        try:
            async with asyncio.timeout(PATIENCE_S), Client(url) as client, SensorSubscriber(client, TOPIC) as sensors:
                while TOPIC not in sensors.streams:
                    await asyncio.sleep(0.05)
                refused = await started(sys.executable, EXAMPLE, TOPIC, "--broker", url, "--tolerance", 0.1)
                _, said = await refused.communicate()
        finally:
            publisher.kill()
    assert "house/temperature: a tolerance of 0.1 is stricter than the 0.5 that is offered" in said.decode()
