"""What happens at the worst moment: trees in memory that fail just when something is being written."""

import asyncio

import pytest
from registry_rooms import run, until

from firelane.overlay.registry import Disconnected, Registry, Wish
from firelane.overlay.registry.documents import FiltersDocument, read
from firelane.overlay.registry.memory import MemoryTree
from firelane.overlay.registry.store import MemoryStore
from firelane.overlay.registry.tree import Put

FEW = {f"site/{number}/#": Wish(qos=1) for number in range(10)}


class Unlucky(MemoryTree):
    """The next transaction is followed, or replaced, by what `luck` does."""

    luck = None

    async def transact(self, operations):
        luck, self.luck = self.luck, None
        if luck != "not done":
            await super().transact(operations)
        if luck == "expires":
            self.expire()
            self.resume()
            await asyncio.sleep(0.05)  # everything else goes on before the answer is here
        elif luck is not None:
            self.suspend()
            asyncio.get_running_loop().call_later(0.05, self.resume)
            raise Disconnected("bad luck")


@pytest.mark.parametrize("luck", ["expires", "done", "not done"])
def test_what_was_written_when_the_connection_was_lost_is_looked_at_again(luck):
    async def story():
        tree = Unlucky(MemoryStore())
        async with Registry(tree) as edge:
            edge.announce_edge("north", 1)
            await edge.settled()
            await until(lambda: tree.state.value == "connected")
            await asyncio.sleep(0.05)
            tree.luck = luck
            edge.endpoints({"a": 1, "b": 2}, {})
            await until(lambda: tree.luck is None)
            await edge.settled()
            here, first, second = await tree.read(["/edges/north/here", "/topics/a/pub/north", "/topics/b/pub/north"])
            assert here.owner == first.owner == second.owner == tree.session

    run(story())


@pytest.mark.parametrize("luck", ["done", "not done"])
def test_a_leader_that_does_not_know_whether_it_assigned_learns_it(luck):
    async def story():
        tree, told = Unlucky(MemoryStore()), []
        async with Registry(tree) as router:
            router.announce_edge("north", 1)
            router.endpoints({"a": 1}, {})
            await router.settled()
            router.announce_router("r1", 1, "h:1")
            await router.settled()
            router.campaign(lambda *one: told.append(one))
            await until(lambda: told)
            tree.luck = luck
            with pytest.raises(Disconnected):
                await router.assign({"a": "r1"}, told[-1][1])
            await until(lambda: tree.state.value == "connected")
            await asyncio.sleep(0.05)
            done = await router.assign({"a": "r2"}, told[-1][1])
            topic = (await router.status()).topics["a"]
            assert (topic.assignment.router, topic.assignment.epoch) == ("r2", done.epoch)
            assert [leads for leads, _ in told] == [True] * len(told)

    run(story())


def test_no_filter_is_missing_after_any_of_the_transactions_that_change_the_parts():
    seen = []

    class Watched(MemoryTree):
        async def transact(self, operations):
            await super().transact(operations)
            nodes = await self.read([f"/edges/north/filters-{part}" for part in range(200)])
            parts = [read(FiltersDocument, node.data, "/x").filters for node in nodes if node]
            seen.append(set().union(*parts))

    async def story():
        async with Registry(Watched(MemoryStore())) as edge:
            edge.announce_edge("north", 1)
            edge.want(FEW)
            await edge.settled()
            seen.clear()
            for number in (3000, 30_000, 10):
                edge.want(FEW | {f"floor/{one}/temperature/#": Wish(qos=1) for one in range(number)})
                await edge.settled()
            assert len(seen) > 3, "it took several transactions"
            assert all(FEW.keys() <= names for names in seen)
            assert seen[-1] == FEW.keys() | {f"floor/{one}/temperature/#" for one in range(10)}

    run(story())


def test_nodes_that_belong_together_are_told_together_however_late_they_are_read():
    """A tree that reads one node after another while others write."""

    class Slow(MemoryTree):
        async def read(self, paths, heard=None):
            nodes = []
            for path in paths:
                await asyncio.sleep(0.0005)
                nodes += await super().read([path], heard)
            return nodes

    async def story():
        store, seen = MemoryStore(), []
        async with Registry(MemoryTree(store)) as edge, Registry(Slow(store)) as other:
            edge.announce_edge("north", 1)
            edge.want(FEW)
            await edge.settled()
            other.on_edges(lambda changes: seen.extend(changes.values()))
            await until(lambda: seen)
            for number in (1500, 3000, 6000, 12_000, 6000, 10):
                edge.want(FEW | {f"floor/{one}/temperature/#": Wish(qos=1) for one in range(number)})
                await edge.settled()
                await asyncio.sleep(0.002)
            await until(lambda: len(seen[-1].filters) == 20)
            assert all(FEW.items() <= one.filters.items() for one in seen)

    run(story())


def test_what_changes_all_the_time_is_told_in_between(monkeypatch):
    monkeypatch.setattr("firelane.overlay.registry.mirror.MOST_ROUNDS", 3)

    class Restless(MemoryTree):
        async def read(self, paths, heard=None):
            nodes = await super().read(paths, heard)
            (own,) = await super().read(["/edges/north"])
            if own and any(path.startswith("/edges/") for path in paths):
                await self.transact([Put(path="/edges/north", data=own.data + b" ")])
            await asyncio.sleep(0)
            return nodes

    async def story():
        store, seen = MemoryStore(), []
        async with Registry(MemoryTree(store)) as edge, Registry(Restless(store)) as other:
            edge.announce_edge("north", 1)
            await edge.settled()
            other.on_edges(seen.append)
            await until(lambda: seen and "north" in seen[-1])

    run(story())


class Interrupted(MemoryTree):
    """The connection is lost and there again while the answer to the next reading is on its way."""

    luck = None

    async def read(self, paths):
        found = await super().read(paths)
        luck, self.luck = self.luck, None
        if luck is not None:
            (self.expire if luck == "expires" else self.suspend)()
            self.resume()
            await asyncio.sleep(0.05)
        return found


@pytest.mark.parametrize("luck", ["lost", "expires"])
def test_a_connection_that_is_new_while_something_is_read_does_not_end_the_broker(luck):
    """Some of what is to be written was certain before that, and was not read."""

    async def story():
        tree = Interrupted(MemoryStore())
        async with Registry(tree) as edge:
            edge.announce_edge("north", 1)
            await edge.settled()
            await asyncio.sleep(0.05)
            tree.luck = luck
            edge.announce_edge("north", 1, "h:1")
            edge.endpoints({"a": 1}, {})
            await until(lambda: tree.luck is None)
            await edge.settled()
            own, here, leaf = await tree.read(["/edges/north", "/edges/north/here", "/topics/a/pub/north"])
            assert b"h:1" in own.data
            assert here.owner == leaf.owner == tree.session

    run(story())
