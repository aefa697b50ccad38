"""What was moved last, and why, is seen by who talks to the registry only, and never keeps a leader from its work."""

from __future__ import annotations

import asyncio
import time

import pytest
from registry_rooms import InMemory, run

from firelane.overlay.registry import Batch, Move, Registry, RegistryError, parse_registry
from firelane.overlay.registry.last_moves import MOVES, batch_of
from firelane.overlay.registry.tree import MOST_BATCH_BYTES, Create
from firelane.overlay.screen import screen
from firelane.overlay.showing import state_of
from overlay.sites import Sites, until


def batch(number, topics=1):
    moves = [Move(topic=f"zone/{one}", left="r1", to="r2") for one in range(topics)]
    return batch_of(moves, [f"reason {number}"], leader="r2", at_s=1000.0 + number)


async def room(registry):
    """A router that leads has it long since."""
    await registry.tree.ensure(["/leader"])


def test_the_last_twenty_batches_are_there_for_all(place):
    async def story():
        async with place.registry() as leader, place.registry() as onlooker:
            await room(leader)
            assert (await onlooker.status()).moves == ()
            await leader.add_moves([batch(0), batch(1)])
            for number in range(2, 25):
                await leader.add_moves([batch(number)])
            await leader.add_moves([batch(24)])  # again, as no answer had come
            assert (await onlooker.status()).moves == tuple(batch(number) for number in range(5, 25))

    run(story())


def test_they_stay_small_whatever_is_moved():
    longest = [Move(topic=f"{number}/" + 60_000 * "\x01", left="r" * 240, to="s" * 240) for number in range(500)]
    one = batch_of(longest, [f"{number}" + 1000 * "\x01" for number in range(50)], leader="r" * 240, at_s=1.0)
    assert one.topics == 500
    assert one.moves[0].topic.startswith("0/\x01")
    assert one.moves[0].topic.endswith("...")

    async def story():
        async with InMemory().registry() as leader:
            await room(leader)
            await leader.add_moves(50 * [one])
            (node,) = await leader.tree.read([MOVES])
            assert len(node.data) < 0.8 * MOST_BATCH_BYTES

    run(story())


@pytest.mark.parametrize("garbage", [b"\xff", b'{"format":2}', b'{"format":1,"batches":[{"at_s":1e300}]}'])
def test_what_cannot_be_read_there_is_told_and_gives_way(place, garbage):
    async def story():
        async with place.registry() as leader:
            await room(leader)
            await leader.tree.transact([Create(path=MOVES, data=garbage)])
            status = await leader.status()
            assert status.moves == ()
            assert MOVES in " ".join(status.problems)
            await leader.add_moves([batch(1)])
            assert (await leader.status()).moves == (batch(1),)

    run(story())


def test_of_two_leaders_that_write_at_once_one_is_refused(place, monkeypatch):
    async def story():
        async with place.registry() as one, place.registry() as other:
            await room(one)
            await one.add_moves([batch(0)])
            transact = one.tree.transact

            async def late(operations):
                await other.add_moves([batch(1)])
                await transact(operations)

            monkeypatch.setattr(one.tree, "transact", late)
            with pytest.raises(RegistryError, match="another leader"):
                await one.add_moves([batch(2)])
            assert (await other.status()).moves == (batch(0), batch(1))

    run(story())


ZONES = {f"zone/{number}": 1 for number in range(4)}


async def moved_by_a_death(folder, within):
    """Four zones are on r1 and r2, two each; r2 dies, and r1 takes them over. What `within` does is done then."""
    address = f"memory://{folder.name}"
    here = Sites(folder, address)
    async with (
        asyncio.timeout(60),
        Registry(parse_registry(address)) as west,
        Registry(parse_registry(address)) as east,
    ):
        topics = {}
        west.announce_edge("west", 1)
        east.announce_edge("east", 2)
        east.on_topics(topics.update)
        await here.start("router", "r1")
        await until(lambda: here.brokers["r1"].statistics()["leads"])
        await here.start("router", "r2")
        await until(lambda: here.brokers["r1"].statistics()["routers"] == 2)
        try:
            west.endpoints(ZONES, {})
            east.endpoints({}, ZONES)

            def routers():
                return sorted(topics[one].assignment.router for one in ZONES if topics[one].assignment)

            await until(lambda: len(topics) == 4 and routers() == ["r1", "r1", "r2", "r2"])
            assert (await east.status()).moves == ()  # new topics are not moves
            lost = sorted(one for one in ZONES if topics[one].assignment.router == "r2")
            await here.stop("r2")
            await until(lambda: routers() == 4 * ["r1"])
            await within(here, east, lost)
        finally:
            await here.close()


WHY = "r2 is gone: its 2 topics to r1"


def test_what_a_dead_router_had_is_told_shown_and_kept_with_the_reason(tmp_path):
    async def within(here, east, lost):
        async with asyncio.timeout(10):
            while not (status := await east.status()).moves:
                await asyncio.sleep(0.01)
        (one,) = status.moves
        moves = tuple(Move(topic=topic, left="r2", to="r1") for topic in lost)
        assert one == Batch(at_s=one.at_s, leader="r1", topics=2, moves=moves, why=(WHY,))
        assert abs(one.at_s - time.time()) < 30
        (told,) = here.brokers["r1"].statistics()["last_moves"]
        assert state_of(status)["last_moves"] == [told]
        assert told["moves"] == [{"topic": topic, "from": "r2", "to": "r1"} for topic in lost]
        lines = "\n".join(screen(status, now_s=time.time(), width=100))
        assert f"r1: {WHY}" in lines
        assert f"    {lost[0]} r2 -> r1" in lines
        assert f"r1: 2 topics moved to other routers: {WHY}" in here.lines

    asyncio.run(moved_by_a_death(tmp_path, within))


def test_a_leader_that_cannot_write_what_it_moved_assigns_all_the_same_and_writes_it_later(tmp_path, monkeypatch):
    add_moves, refused = Registry.add_moves, []

    async def refuse(registry, batches):
        refused.append(batches)
        if len(refused) < 3:
            raise RegistryError("no room")
        await add_moves(registry, batches)

    async def within(here, east, lost):
        assert len(refused) <= 1  # assigned already
        async with asyncio.timeout(10):
            while not (await east.status()).moves:
                await asyncio.sleep(0.01)
        assert len(refused) == 3
        assert here.brokers["r1"].statistics()["leads"]

    monkeypatch.setattr(Registry, "add_moves", refuse)
    monkeypatch.setattr("firelane.overlay.leader.moved.AGAIN_S", 0.2)
    asyncio.run(moved_by_a_death(tmp_path, within))


def test_of_many_batches_and_moves_the_table_has_the_newest():
    async def story():
        async with InMemory().registry() as leader:
            await room(leader)
            await leader.add_moves([batch(number, topics=7) for number in range(9)])
            status = await leader.status()
            lines = screen(status, now_s=1068.0, width=100)
            head = lines.index("  last moves")
            assert lines[head + 1] == "  1 minute ago, by r2: reason 8"
            assert lines[head + 2] == "    zone/0 r1 -> r2"
            assert lines[head + 5] == "    and 4 more"
            assert sum("reason" in line for line in lines) == 5
            assert len(state_of(status)["last_moves"]) == 9

    run(story())
