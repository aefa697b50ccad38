"""Clients at different sites find each other, with nothing configured but the registry."""

import asyncio

import pytest
from sites import sites, until


def run(main):
    async def limited():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(limited())


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_published_at_one_site_arrives_at_the_other_in_order(tmp_path, qos):
    async def main():
        async with sites(tmp_path) as here, here.client("a") as ann, here.client("b") as ben:
            heard = []
            await ben.subscribe("room/+/temperature", lambda topic, payload: heard.append((topic, payload)), qos=qos)
            wanted = here.brokers["a"]._interest
            await until(lambda: wanted.of("room/1/temperature"))
            for n in range(100):
                await ann.publish("room/1/temperature", b"%d" % n, qos=min(qos, 1))
            await until(lambda: len(heard) >= 100)
            assert heard == [("room/1/temperature", b"%d" % n) for n in range(100)]
            await until(lambda: here.brokers["a"].statistics()["kept"] == 0)

    run(main)
