"""A subscriber on UDP behind a thin link: what matters comes first, and no more is sent than the link carries."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest

from firelane.client import Client
from firelane.datagrams import DatagramClient
from firelane.scenario import from_data
from firelane.scenario.routes import routes
from live.hard.ports import port_of
from live.lanes.scenarios import lanes
from live.lanes.served import Asked, served

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

BANDWIDTH_BPS = 400_000
SIZE_BYTES = 1000  # 21 ms of the link and more, with headers
BUFFER = 40
RUN_S = 5.0
CLASSES = {"alarm": 0, "bulk": 5}


@pytest.fixture
def anyio_backend():
    return "asyncio"


def thin():
    data = {
        "name": "thin",
        "links": {"post": {"bandwidth": BANDWIDTH_BPS, "buffer": BUFFER}},
        "topics": {"alarm": {"size": 100}, "bulk": {"size": SIZE_BYTES}},
        "publishers": {"p": {"publishes": {"alarm": 10.0, "bulk": 100.0}}},
        "subscribers": {"desk": {"link": "post", "subscribes": {"alarm": {}, "bulk": {}}}},
        "exchange": {"mqtt_sn": {"port": 0}},
    }
    network = routes(from_data(data))
    return network.scenario, lanes(network, [CLASSES[one] for one in network.filters], made_by="by hand")


async def test_alarms_overtake_bulk_over_udp_too(tmp_path):
    """Bulk at twice the link's rate fills its buffer, 40 messages or a second; an alarm waits for one at most."""
    scenario, plan = thin()
    delays = {"alarm": [], "bulk": []}

    def got(topic, payload):
        delays[topic].append(time.monotonic() - float(payload[:20]))

    with served(tmp_path, scenario, plan) as broker:
        port = port_of(broker, "mqtt-sn")
        async with (
            DatagramClient("127.0.0.1", port, client_id="desk") as desk,
            Client(f"mqtt://127.0.0.1:{broker.port}") as publisher,
        ):
            await desk.subscribe("bulk", got)
            await desk.subscribe("alarm", got)
            started = time.monotonic()
            for step in range(round(RUN_S * 100)):
                await publisher.publish("bulk", b"%-20f" % time.monotonic() + bytes(SIZE_BYTES - 20))
                if step % 10 == 0:
                    await publisher.publish("alarm", b"%-20f" % time.monotonic() + bytes(80))
                await asyncio.sleep(max(0.0, started + step / 100 - time.monotonic()))
            elapsed_s = time.monotonic() - started
            await asyncio.sleep(2.0)  # what waits comes too
            metrics = Asked(broker.http_port).metrics()["subscriptions"]
    rows = {row["filter"]: row for row in metrics}
    print({topic: (len(some), statistics.median(some)) for topic, some in delays.items()})
    assert len(delays["alarm"]) == round(RUN_S * 10)
    assert statistics.median(delays["alarm"]) < 0.1
    assert 0.5 < statistics.median(delays["bulk"]) < 1.5
    carried_bytes = len(delays["bulk"]) * SIZE_BYTES
    assert carried_bytes * 8 < BANDWIDTH_BPS * (elapsed_s + 1.2)
    assert rows["bulk"]["dropped_overflow"] > 100
    assert rows["alarm"]["dropped_overflow"] == 0
    assert (rows["alarm"]["priority"], rows["bulk"]["priority"]) == (0, 5)
