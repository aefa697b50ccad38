"""Joining and leaving: what is told of a registry that does not answer, and how long it is waited for."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

from sites import until

from firelane.exchange.run import running
from firelane.overlay import joining as module
from firelane.overlay.joining import Joining, joining
from firelane.overlay.registry import Registry
from firelane.overlay.registry.memory import MemoryTree
from firelane.overlay.registry.store import MemoryStore
from firelane.scenario.load import from_data


def run(main):
    async def limited():
        async with asyncio.timeout(40):
            return await main()

    return asyncio.run(limited())


@asynccontextmanager
async def joined(folder, monkeypatch, role="edge", tree=None):
    """A broker, its registry's tree and the lines that it tells."""
    tree, lines = tree or MemoryTree(MemoryStore()), []
    monkeypatch.setattr(module, "parse_registry", lambda address: tree)
    scenario = from_data({"name": "x", "exchange": {"anonymous": "always", "durability": "memory"}})
    async with (
        running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=folder, tell=lines.append) as exchange,
        joining(exchange, Joining(role=role, registry="", name="x"), scenario.exchange.overlay, lines.append) as broker,
    ):
        yield broker, tree, lines


def test_a_registry_that_is_away_holds_up_nobody_who_leaves(tmp_path, monkeypatch):
    async def main():
        async with joined(tmp_path, monkeypatch) as (_, tree, lines):
            await until(lambda: "/edges/x" in tree._store.nodes)
            tree.suspend()
            began = time.monotonic()
        assert time.monotonic() - began < module.ANSWER_S + 1.0
        assert lines[-1] == "the registry does not answer; leaving without telling it"

    run(main)


def test_a_registry_that_answers_has_its_time(tmp_path, monkeypatch):
    """There may be much to take back."""
    left, leave = [], Registry.leave

    async def slowly(self, *, lasting=None):
        await asyncio.sleep(0.5)
        await leave(self, lasting=lasting)
        left.append(lasting)

    monkeypatch.setattr(module, "ANSWER_S", 0.1)
    monkeypatch.setattr(Registry, "leave", slowly)

    async def main():
        async with joined(tmp_path, monkeypatch) as (_, _, lines):
            pass
        assert left == [{}]
        assert not any("leaving" in line for line in lines)

    run(main)


ALONE = 'no router is known; what other sites want waits here; start one with "firelane router"'


def test_an_edge_that_knows_no_router_says_so_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_S", 0.2)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.05)
    tree = MemoryTree(store := MemoryStore())

    async def main():
        async with joined(tmp_path, monkeypatch, tree=tree) as (edge, _, lines):
            assert ALONE not in lines
            await until(lambda: ALONE in lines)
            async with Registry(MemoryTree(store)) as other:
                other.announce_router("r", 7, "127.0.0.1:1")
                await until(lambda: edge.statistics()["routers"] == {"r": False})
                await asyncio.sleep(0.4)
                assert lines.count(ALONE) == 1  # that it cannot be reached is told of the router
            await until(lambda: lines.count(ALONE) == 2)

    run(main)


class Late(MemoryTree):
    """Answers nobody until it is told to."""

    async def open(self, wait_s):
        pass


def test_a_registry_that_never_answered_is_told_of_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_S", 0.2)
    monkeypatch.setattr(module, "ANSWER_S", 0.1)
    tree = Late(MemoryStore(), name="zookeeper://far:2181/firelane")

    async def main():
        async with joined(tmp_path, monkeypatch, tree=tree) as (_, _, lines):
            await until(lambda: lines)
            todo = "check --registry and whether ZooKeeper runs; trying on"
            assert lines == [f"{tree.name} does not answer since the start; {todo}"]
            await MemoryTree.open(tree, None)
            await until(lambda: f"{tree.name} answers" in lines)
            tree.suspend()
            await until(lambda: lines[-1].endswith("other sites by what was known last"))
            tree.resume()

    run(main)


def test_a_broker_whose_name_another_takes_says_so_once_and_leaves_it_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TAKEN_EVERY_S", 0.05)

    async def main():
        store = MemoryStore()
        async with Registry(MemoryTree(store)) as later:
            async with joined(tmp_path, monkeypatch, role="router", tree=MemoryTree(store)) as (_, _, lines):
                await until(lambda: "/broker/x" in store.nodes)
                later.announce_router("x", 7, "h:1")
                await until(lambda: any("another router with the name x has joined" in line for line in lines))
                await asyncio.sleep(0.3)
            assert sum("has joined" in line for line in lines) == 1
            assert (await later.status()).routers["x"].locator == "h:1"

    run(main)
