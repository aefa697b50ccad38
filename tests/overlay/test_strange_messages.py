"""A message at a router that is no good note or stamp does not cost an edge its connection."""

import asyncio
import json

import pytest
from sites import sites, stock, until

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Publish
from firelane.overlay.messages.addressing import TOPIC
from firelane.overlay.messages.notes import FOR, TO
from firelane.overlay.messages.stamp import NAME, Stamp


def deep(boot):
    return Publish(topic=f"{FOR}b", payload=b"[" * 200_000)


def asks(boot):
    missing = [{"topic": "mine", "last": 0, "before": 1}]
    said = {"format": 1, "edge": "#", "boot": 1, "of": boot, "missing": missing}
    return Publish(topic=f"{FOR}b", payload=json.dumps(said).encode())


def origin(boot):
    stamp = Stamp("x/#", 1, 2**40, 0, 0, 1).text()
    return Publish(topic=f"{TO}b", payload=b"x", properties={"user_property": [(NAME, stamp), (TOPIC, "fire")]})


@pytest.mark.parametrize("make", [deep, asks, origin])
def test_a_note_or_stamp_that_is_no_good_does_not_cost_a_connection(tmp_path, make):
    async def main():
        got = []
        async with asyncio.timeout(40), sites(tmp_path, routers=("r",)) as here:
            with (
                stock(here, "b", "ben", got=got, wants="#", qos=1),
                stock(here, "a", "ann", wants="mine", qos=1),
            ):
                await until(lambda: bool(here.brokers["a"]._interest.of("fire")))
                await until(lambda: bool(here.brokers["b"]._interest.of("mine")))
                with stock(here, "b", "bob") as bob:
                    bob.publish("mine", b"x", qos=1)
                    await asyncio.sleep(0.3)
                host, port = here.exchanges["r"].addresses["mqtt"].removeprefix("mqtt://").split(":")
                _, mallory = await asyncio.open_connection(host, int(port))
                mallory.write(encode(Connect(client_id="mallory", version=V5), V5))
                mallory.write(encode(make(here.brokers["b"]._boot), V5))
                await asyncio.sleep(1.0)
                mallory.close()
                ups = [line for line in here.lines if line.startswith("b: router")]
                assert len(ups) == 1, ups

    asyncio.run(main())
