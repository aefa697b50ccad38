"""DDS endpoints of different sites meet: two domains stand for two local networks, endpoints are processes."""

import asyncio

from bridges import LONG_S, bridged
from sites import until

PLACES = [{"x": 0.1, "y": -2.0}, {"x": 1e300, "y": 0.0}]


def run(main):
    asyncio.run(main())


def test_typed_samples_with_key_and_sequence_go_both_ways(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            with (
                here.endpoint("a", topic="traffic", reliable=True) as out_a,
                here.endpoint("b", topic="traffic", reliable=True) as out_b,
                here.endpoint("a", topic="traffic", reads=True, reliable=True) as in_a,
                here.endpoint("b", topic="traffic", reads=True, reliable=True) as in_b,
            ):
                for one in (out_a, out_b, in_a, in_b):
                    await one.here()
                await until(lambda: here.told("a")["read"] == here.told("b")["read"] == 1, LONG_S)
                for n in range(20):
                    out_a.send(number=n % 3, name=f"Lövdalen {n}", path=PLACES)
                    out_b.send(number=100 + n, name=f"to a {n}")
                await until(lambda: len(in_a.samples) >= 40 and len(in_b.samples) >= 40, LONG_S)
                await asyncio.sleep(0.5)  # in which what went round in circles would come again
        for got in (in_a.samples, in_b.samples):
            assert len(got) == 40
            for number in range(3):  # DDS keeps the order of each instance
                wanted = [{"number": number, "name": f"Lövdalen {n}", "path": PLACES} for n in range(number, 20, 3)]
                assert [one for one in got if one["number"] == number] == wanted
            of_b = sorted((one for one in got if one["number"] >= 100), key=lambda one: one["number"])
            assert of_b == [{"number": 100 + n, "name": f"to a {n}", "path": []} for n in range(20)]

    run(main)


def test_killed_endpoints_leave_the_registry_and_instances_end(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            with (
                here.endpoint("a", topic="traffic", reliable=True) as writer,
                here.endpoint("b", topic="traffic", reads=True, reliable=True) as killed,
                here.endpoint("b", topic="traffic", reads=True, reliable=True) as reader,
            ):
                await until_known(here, "dds/0/traffic", {"a": 1}, {"b": 2})
                await until(lambda: here.told("a")["read"] == 1, LONG_S)
                writer.send(number=1, name="x")
                await until(lambda: len(reader.samples) == len(killed.samples) == 1, LONG_S)
                killed.kill()
                await until_known(here, "dds/0/traffic", {"a": 1}, {"b": 1})
                writer.kill()
                await until_known(here, "dds/0/traffic", {}, {"b": 1})
                await until(lambda: [one["number"] for one in reader.ended] == [1], LONG_S)
                await until(lambda: here.told("b")["written"] == 0, LONG_S)
                reader.kill()
                await until_known(here, "dds/0/traffic", {}, {})
                await until(lambda: not here.brokers["a"]._interest.of("dds/0/traffic"), LONG_S)

    run(main)


async def until_known(here, topic, publishers, subscribers):
    """Wait until the registry has so many endpoints of a topic, by edge."""
    async with asyncio.timeout(LONG_S):
        while True:
            known = (await here.brokers["a"].registry.status()).topics.get(topic)
            found = ({}, {}) if known is None else (dict(known.pub), dict(known.sub))
            if found == (publishers, subscribers):
                return
            await asyncio.sleep(0.05)
