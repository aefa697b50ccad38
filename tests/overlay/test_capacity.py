"""A router that can carry more than others, as its settings say, is given more."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from registry_rooms import run
from sites import until

from firelane.errors import FirelaneError
from firelane.exchange.run import running
from firelane.overlay.joining import Joining, joining
from firelane.overlay.registry import Registry, RegistryError, parse_registry
from firelane.overlay.registry.documents import RouterDocument, read
from firelane.overlay.showing import state_of
from firelane.scenario.load import from_data


async def router(stack, folder, name, **overlay):
    """One that joins as `firelane router` does."""
    exchange = {"anonymous": "always", "system_interval": 0, "durability": "memory", "overlay": overlay}
    settings = from_data({"name": name, "exchange": exchange})
    served = await stack.enter_async_context(
        running(settings, host="127.0.0.1", mqtt_port=0, data_dir=folder / name, tell=lambda line: None)
    )
    how = Joining(role="router", registry=f"memory://{folder.name}", name=name)
    return await stack.enter_async_context(joining(served, how, settings.exchange.overlay, lambda line: None))


def test_a_router_of_three_times_the_capacity_gets_three_times_as_much(tmp_path):
    """Eight topics of equal load: two and six."""
    topics = dict.fromkeys("abcdefgh", 1)

    async def story():
        async with AsyncExitStack() as stack:
            address = f"memory://{tmp_path.name}"
            west, east = [await stack.enter_async_context(Registry(parse_registry(address))) for _ in range(2)]
            first = await router(stack, tmp_path, "small")
            await until(lambda: first.leads)
            await router(stack, tmp_path, "large", capacity=3)
            await until(lambda: first.statistics()["routers"] == 2)
            west.announce_edge("west", 1)
            east.announce_edge("east", 2)
            west.endpoints(topics, {}, dict.fromkeys(topics, 2.0))
            east.endpoints({}, topics)
            await until(lambda: first.statistics()["assigned"] == 8)
            state = state_of(await east.status())
            while Counter(one["router"] for one in state["topics"].values()) != {"small": 2, "large": 6}:
                await asyncio.sleep(0.05)
                state = state_of(await east.status())
            assert {name: one["capacity"] for name, one in state["routers"].items()} == {"small": 1.0, "large": 3.0}

    run(story())


def test_a_router_that_says_nothing_of_it_has_a_capacity_of_1():
    said = read(RouterDocument, b'{"format":1,"boot":5,"locator":"h:1"}', "/broker/r")
    assert said.capacity == 1.0


@pytest.mark.parametrize("wrong", [0, -1, 1e9, ".inf"])
def test_a_capacity_that_is_none_is_refused_in_settings_and_in_the_registry(wrong):
    with pytest.raises(FirelaneError, match="capacity"):
        from_data({"name": "x", "exchange": {"overlay": {"capacity": wrong}}})
    text = str(wrong).replace(".inf", "Infinity")
    document = f'{{"format":1,"boot":5,"locator":"h:1","capacity":{text}}}'.encode()
    with pytest.raises(RegistryError, match="capacity"):
        read(RouterDocument, document, "/broker/r")
