"""Where a registry is, and what is said if it cannot be there."""

import gc
import socket

import pytest
from registry_rooms import run

from firelane.overlay.registry import Registry, RegistryError, parse_registry
from firelane.overlay.registry.memory import MemoryTree


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("zookeeper://a:1,b:2/x/y", "zookeeper://a:1,b:2/x/y"),
        ("zookeeper://a", "zookeeper://a:2181/firelane"),
        ("zookeeper://[::1]:99/", "zookeeper://[::1]:99/firelane"),
    ],
)
def test_addresses_of_zookeeper(written, meant):
    assert parse_registry(written).name == meant


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "a:1",
        "http://a:1",
        "zookeeper://",
        "zookeeper://a:1,,b:1",
        "zookeeper://a:x",
        "zookeeper://a:70000",
        "zookeeper://u:p@a:1",
        "zookeeper://a:1/../x",
        "zookeeper://a:1//x",
        "memory://",
        "memory://a/b",
        "memory:a",
    ],
)
def test_wrong_addresses_are_told_in_a_line(wrong):
    with pytest.raises(RegistryError, match=r"write (zookeeper://HOST|memory://NAME)") as problem:
        parse_registry(wrong)
    assert "\n" not in str(problem.value)


def test_registries_in_memory_are_shared_by_name_and_go_with_their_users():
    async def told(name):
        async with Registry(parse_registry(name)) as one, Registry(parse_registry("memory://here")) as other:
            one.announce_edge("north", 1)
            await one.settled()
            return set((await other.status()).edges)

    async def story():
        assert isinstance(parse_registry("memory://here"), MemoryTree)
        assert await told("memory://here") == {"north"}
        gc.collect()
        assert await told("memory://there") == set(), "nor is anything left of the first"

    run(story())


def test_nobody_listening_is_told_in_a_line():
    async def story():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
            with pytest.raises(RegistryError, match=f"no ZooKeeper answers at {address} within 0.5 s"):
                async with Registry(parse_registry(f"zookeeper://{address}"), wait_s=0.5):
                    pass

    run(story())
