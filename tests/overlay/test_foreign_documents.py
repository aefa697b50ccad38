"""What another broker, or anybody, has put into the registry and is no good harms nobody else."""

import asyncio

import pytest
from sites import sites, until

from firelane.overlay.registry import Registry, Wish, parse_registry


@pytest.mark.parametrize(
    "wishes",
    [
        {"a/#/b": Wish(qos=1)},
        {"": Wish(qos=1)},
        {"$share/g/t": Wish(qos=1)},
        {"x": Wish(qos=1, need={f"n{n}": "1" for n in range(1001)})},
        {"x": Wish(qos=1, need={"weight": "1" * 70_000})},
    ],
    ids=["no filter", "empty", "shared", "many needs", "long need"],
)
@pytest.mark.parametrize("late", [False, True], ids=["from the start", "later"])
def test_a_filter_in_the_registry_that_is_none_harms_nobody(tmp_path, wishes, late):
    async def main():
        heard = []
        async with (
            asyncio.timeout(40),
            sites(tmp_path, edges=(), routers=("r1",)) as here,
            Registry(parse_registry(here.registry)) as registry,
        ):
            registry.announce_edge("foreign", 5, None)
            if not late:
                registry.want(wishes)
                await registry.settled()
            for name in "ab":
                await here.start("edge", name)
            await until(lambda: all(all(here.brokers[n].statistics()["routers"].values()) for n in "ab"))
            if late:
                registry.want(wishes)
                await registry.settled()
                await asyncio.sleep(0.3)
            async with here.client("a") as ann, here.client("b") as ben:
                await ben.subscribe("t", lambda topic, payload: heard.append(payload), qos=1)
                await asyncio.sleep(0.7)
                await ann.publish("t", b"x", qos=1)
                await until(lambda: heard, 6.0)

    asyncio.run(main())


@pytest.mark.parametrize("name", ["#", "a+b", "x\0y"])
def test_an_edge_in_the_registry_whose_name_is_no_topic_harms_nobody(tmp_path, name):
    async def main():
        heard = []
        async with (
            asyncio.timeout(40),
            sites(tmp_path, edges=(), routers=("r1",)) as here,
            Registry(parse_registry(here.registry)) as registry,
        ):
            registry.announce_edge(name, 5, None)
            await registry.settled()
            for one in "ab":
                await here.start("edge", one)
            async with here.client("a") as ann, here.client("b") as ben:
                await ben.subscribe("t", lambda topic, payload: heard.append(payload), qos=1)
                await asyncio.sleep(3.0)
                ups = [line for line in here.lines if "connected" in line and line.startswith("a:")]
                assert len(ups) == 1, f"a was connected {len(ups)} times in 3 s: {here.lines[-4:]}"
                await ann.publish("t", b"x", qos=1)
                await until(lambda: heard, 6.0)

    asyncio.run(main())
