"""An edge that will not come back is forgotten, by who asks for it: others keep nothing for it any more."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from registry_rooms import run
from sites import sites, until
from test_sites import stock, wanted

from firelane.cli import main
from firelane.overlay.registry import EdgeIsHere, Registry, UnknownEdge, Wish, parse_registry


def test_an_edge_that_is_here_or_that_nobody_knows_is_not_forgotten(place):
    async def story():
        async with place.registry() as edge, place.registry() as other:
            edge.announce_edge("north", 1)
            edge.want({"a": Wish(qos=1, keeps=True)})
            await edge.settled()
            with pytest.raises(EdgeIsHere, match="the edge north is connected"):
                await other.forget_edge("north")
            with pytest.raises(UnknownEdge, match="no edge south is known"):
                await other.forget_edge("south")
            assert set((await other.status()).edges) == {"north"}
            await edge.leave(lasting={"a": Wish(qos=1, keeps=True)})
            await other.forget_edge("north")
            assert (await other.status()).edges == {}
            with pytest.raises(UnknownEdge):
                await other.forget_edge("north")

    run(story())


def test_an_edge_that_comes_back_while_it_is_forgotten_stays(place, monkeypatch):
    async def story():
        async with place.registry() as other:
            async with place.registry() as edge:
                edge.announce_edge("north", 1)
                await edge.settled()
            async with place.registry() as again:
                transact = other.tree.transact

                async def late(operations):
                    again.announce_edge("north", 2)
                    await again.settled()
                    await transact(operations)

                monkeypatch.setattr(other.tree, "transact", late)
                with pytest.raises(EdgeIsHere):
                    await other.forget_edge("north")
                assert (await other.status()).edges["north"].here

    run(story())


def test_what_others_kept_for_a_forgotten_edge_is_dropped(tmp_path):
    async def story():
        async with asyncio.timeout(60), sites(tmp_path, routers=("r1",)) as here:

            def kept():
                return here.brokers["a"].statistics()["kept"]

            with stock(here, "b", "ben", wants="news", qos=1, keep=True), stock(here, "a", "ann") as ann:
                await until(wanted(here, "a", "news"))
                await here.stop("b")
                ann.publish("news", b"x", qos=1)
                await until(lambda: kept() == 1)
                await asyncio.sleep(0.5)
                assert kept() == 1
                await here.brokers["r1"].registry.forget_edge("b")
                await until(lambda: kept() == 0)

    asyncio.run(story())


@contextmanager
def edges_elsewhere(address, *, here, away):
    """In a thread, as the command has a loop of its own."""
    ready, done = threading.Event(), threading.Event()

    async def live():
        async with Registry(parse_registry(address)) as one, Registry(parse_registry(address)) as other:
            one.announce_edge(here, 1)
            other.announce_edge(away, 2)
            await one.settled()
            await other.leave(lasting={"a": Wish(qos=1, keeps=True)})
            ready.set()
            await asyncio.to_thread(done.wait, 30)

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield
    finally:
        done.set()
        thread.join(10)


def test_the_command_forgets_who_is_away_and_refuses_others_in_one_line(monkeypatch):
    address = "memory://forgets"
    monkeypatch.setattr("firelane.overlay.registry.parse_registry", lambda given: parse_registry(address))
    with edges_elsewhere(address, here="north", away="south"):
        asked = [
            CliRunner().invoke(main, ["overlay", "forget", name, "--registry", "zookeeper://stand-in"])
            for name in ("south", "south", "north")
        ]
    assert asked[0].output == "the edge south is forgotten; others drop what they kept for it\n"
    assert [one.exit_code for one in asked] == [0, 1, 1]
    assert [one.output.count("\n") for one in asked] == [1, 1, 1]
    assert "no edge south is known" in asked[1].output
    assert "the edge north is connected (or was less than 8 s ago: try again); stop it first" in asked[2].output
