"""Streams of sensors over REST."""

import asyncio

import numpy as np
from web_side import HOST, until

from firelane.client import Client
from firelane.sense import SensorPublisher, SensorSubscriber
from firelane.sense.offer import SensorType


def test_streams_are_shown_with_what_is_offered_granted_and_followed(side):
    async def visit():
        url = f"mqtt://{HOST}:{side.mqtt_port}"
        async with (
            Client(url, client_id="keen") as keen,
            Client(url, client_id="device") as device,
            Client(url, client_id="fine") as fine,
            Client(url, client_id="loose") as loose,
            SensorSubscriber(keen, "a/t", tolerance=0.1),
            SensorPublisher(device) as publisher,
        ):
            stream = await publisher.offer("a/t", ["x", "y"], precision=0.5, type=SensorType(name="Heat", unit="C"))
            async with SensorSubscriber(fine, "a/#", tolerance=0.5), SensorSubscriber(loose, "a/t", tolerance=5.0):
                for step in range(8):
                    await stream.observe([20.0 + 3 * step, 5.0])
                    await asyncio.sleep(0.1)
                until(lambda: side.items("streams")[0]["granted_tolerance"] == 0.5)
                return side.items("streams", filter="a/+")[0], side.items("streams", filter="b/#")

    shown, none = asyncio.run(visit())
    assert none == []
    followers = {one["client_id"]: one for one in shown.pop("subscribers")}
    for key in ("silent_s", "messages", "updates", "suppressed"):
        assert shown.pop(key) >= 0
    assert shown == {
        "topic": "a/t", "client_id": "device", "connected": True, "kind": "continuous", "type_name": "Heat",
        "unit": "C", "sensors": 2, "known_sensors": 2,
        "precision": 0.5, "heartbeat_s": 10, "delta": 0.5, "granted_tolerance": 0.5,
        "granted_load": None, "subscriber_count": 3, "missed": 0, "unreadable": 0,
    }  # fmt: skip
    assert {name: (one["tolerance"], one["delta"], one["own_stream"]) for name, one in followers.items()} == {
        "keen": (0.1, 0.5, False), "fine": (0.5, 0.5, False), "loose": (5, 5, True),
    }  # fmt: skip
    assert "stricter" in followers["keen"]["mismatch"]
    assert followers["fine"]["mismatch"] is None
    assert np.isfinite(followers["loose"]["suppressed"])
