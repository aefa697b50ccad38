"""How many round trips it takes to learn what there is from a registry that is far away."""

from __future__ import annotations

import asyncio

import pytest

from firelane.overlay.registry import Registry, Wish, mirror
from firelane.overlay.registry.memory import MemoryTree
from firelane.overlay.registry.store import MemoryStore

TURNS = 100  # of the event loop, after which everybody waits for an answer


class FarTree(MemoryTree):
    """Requests are done in the order in which they are made; answers come with the next round trip."""

    def __init__(self, store):
        super().__init__(store)
        self._answers = []

    async def _answered(self, answer):
        answer = await answer
        waiting = asyncio.get_running_loop().create_future()
        self._answers.append(waiting)
        await waiting
        return answer

    async def ensure(self, paths):
        await self._answered(super().ensure(paths))

    async def read(self, paths, heard=None):
        return await self._answered(super().read(paths, heard))

    async def children(self, paths):
        return await self._answered(super().children(paths))

    async def follow(self, path, heard):
        await self._answered(super().follow(path, heard))

    async def transact(self, operations):
        await self._answered(super().transact(operations))

    async def round_trip(self):
        for _ in range(TURNS):
            await asyncio.sleep(0)
        answers, self._answers = self._answers, []
        for one in answers:
            one.set_result(None)
        for _ in range(TURNS):
            await asyncio.sleep(0)


def told_after(few):
    """After how many round trips from the connection on edges and routers are known, and others know of this edge."""
    wanted = {"room/+": Wish(qos=1)}
    seen = {"edges": {}, "routers": {}, "itself": {}}

    async def story():
        store, after = MemoryStore(), {}
        tree = FarTree(store)
        async with Registry(MemoryTree(store)) as near, Registry(tree) as far:
            near.announce_edge("near", 1)
            near.want(wanted)
            near.announce_router("router", 1, "127.0.0.1:1")
            await near.settled()
            near.on_edges(lambda changes: "far" in changes and seen["itself"].update(changes))
            tree.suspend()
            far.announce_edge("far", 1)
            far.want(wanted)
            far.on_edges(seen["edges"].update)
            far.on_routers(seen["routers"].update)
            await tree.round_trip()
            tree.resume()
            for trips in range(1, 12):
                await tree.round_trip()
                after |= {what: trips for what, known in seen.items() if known and what not in after}
            assert seen["edges"]["near"].filters == wanted
            assert list(seen["routers"]) == ["router"]
            ending = asyncio.get_running_loop().create_task(far.leave())
            while not ending.done():
                await tree.round_trip()
        return after

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirror, "FEW", few)
        return asyncio.run(story())


def test_a_broker_knows_all_edges_after_three_round_trips_and_all_routers_after_two():
    assert told_after(few=500) == {"edges": 3, "routers": 2, "itself": 2}


def test_where_there_are_very_many_only_those_are_asked_that_have_something_below_them():
    assert told_after(few=0) == {"edges": 4, "routers": 2, "itself": 2}
