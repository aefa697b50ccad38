"""`firelane overlay ...` against a real ZooKeeper: looking makes nothing there."""

import asyncio

import pytest
from click.testing import CliRunner

from firelane.cli import main
from firelane.overlay.registry import Registry, parse_registry

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]


def run(*words):
    return CliRunner().invoke(main, ["overlay", *words], catch_exceptions=False)


def nodes(address):
    """The names at the top of the server."""

    async def ask():
        tree = parse_registry(address)
        tree._root = ""
        await tree.open(10.0)
        try:
            (found,) = await tree.children([""])
        finally:
            await tree.close()
        return set(found)

    return asyncio.run(ask())


@pytest.mark.parametrize("words", [["status"], ["plan"], ["forget", "north"]], ids=" ".join)
def test_a_mistyped_root_is_not_made(zookeeper_server, words):
    run(*words, "--registry", f"{zookeeper_server.server.address}/mistyped")
    assert "mistyped" not in nodes(zookeeper_server.server.address)


def test_status_shows_who_is_there(zookeeper_server):
    address = f"{zookeeper_server.server.address}/shown"

    async def there(look):
        async with Registry(parse_registry(address)) as registry:
            registry.announce_edge("north", 1)
            await registry.settled()
            return await asyncio.to_thread(look)

    done = asyncio.run(there(lambda: run("status", "--registry", address)))
    assert done.exit_code == 0
    assert "north" in done.output
    assert "nothing" in run("status", "--registry", f"{zookeeper_server.server.address}/empty").output
    assert "no edge south is known" in run("forget", "south", "--registry", address).output
