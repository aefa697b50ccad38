"""Trees in memory and in ZooKeeper do the same."""

import asyncio

import pytest
from registry_rooms import run, until

from firelane.overlay.registry import Disconnected, RegistryError, TreeState
from firelane.overlay.registry.tree import Conflict, Create, Delete, Kind, Put
from firelane.overlay.registry.watching import TopicWatches


async def opened(place):
    tree = place.tree()
    await tree.open(10)
    await tree.ensure(["/a/b"])
    return tree


def test_a_batch_is_done_whole_or_not_at_all(place):
    async def story():
        tree = await opened(place)
        await tree.transact([Create(path="/a/c", data=b"1"), Put(path="/a/b", data=b"2", version=0)])
        for spoiling in (
            Create(path="/a/c"),
            Create(path="/x/y"),
            Put(path="/a/b", data=b"", version=0),
            Put(path="/x", data=b""),
            Delete(path="/a"),
            Delete(path="/a/c", version=7),
        ):
            with pytest.raises(Conflict):
                await tree.transact([Put(path="/a/c", data=b"9"), Create(path="/a/d"), Delete(path="/a/b"), spoiling])
        first, second, third = await tree.read(["/a/b", "/a/c", "/a/d"])
        assert (first.data, first.version, second.data, second.version, third) == (b"2", 1, b"1", 0, None)
        assert await tree.children(["/a", "/a/b", "/nowhere"]) == [["b", "c"], [], []]
        await tree.close()

    run(story())


def test_ephemeral_nodes_go_with_their_session_and_containers_with_their_last_child(place):
    async def story():
        one, other = await opened(place), await opened(place)
        nodes = [
            Create(path="/a/t", kind=Kind.CONTAINER),
            Create(path="/a/t/pub", kind=Kind.CONTAINER),
            Create(path="/a/t/pub/x", kind=Kind.EPHEMERAL),
        ]
        await one.transact(nodes)
        (leaf,) = await other.read(["/a/t/pub/x"])
        assert leaf.owner == one.session != other.session
        with pytest.raises(Conflict):
            await one.transact([Create(path="/a/t/pub/x/below")])
        heard = []
        await other.follow("/a", heard.append)
        await one.close()
        assert one.state is TreeState.CLOSED
        await until(lambda: {"/a/t/pub/x", "/a/t/pub", "/a/t"} <= set(heard))
        assert await other.read(["/a/t"]) == [None]
        await other.close()

    run(story())


def test_changes_are_heard_once_or_always_and_of_nobody_else(place):
    async def story():
        tree, other = await opened(place), await opened(place)
        once, always = [], []
        await tree.read(["/a/b", "/a/new"], once.append)
        await tree.follow("/a/b", always.append)
        for number in range(3):
            await other.transact([Put(path="/a/b", data=b"%d" % number)])
        await other.transact([Create(path="/a/new"), Create(path="/a/bc"), Create(path="/a/b/below")])
        await until(lambda: len(once) == 2 and len(always) == 4)
        assert sorted(once) == ["/a/b", "/a/new"]
        assert always == ["/a/b"] * 3 + ["/a/b/below"]
        await tree.unfollow(["/a/b"], always.append)
        await other.transact([Put(path="/a/b", data=b"x")])
        await tree.read(["/a/b"])
        await asyncio.sleep(0.1)
        assert len(always) == 4
        await tree.close()
        await other.close()

    run(story())


def test_batches_sent_in_a_row_are_done_in_that_order(place):
    async def story():
        tree = await opened(place)
        await asyncio.gather(*[tree.transact([Put(path="/a/b", data=b"%d" % one, version=one)]) for one in range(200)])
        (node,) = await tree.read(["/a/b"])
        assert (node.data, node.version) == (b"199", 200)
        await tree.close()

    run(story())


def test_what_is_too_large_is_refused_and_the_session_lives(place):
    async def story():
        tree = await opened(place)
        session = tree.session
        with pytest.raises(RegistryError, match="more than the registry takes at once"):
            await tree.transact([Put(path="/a/b", data=b"x" * 1_100_000)])
        await tree.transact([Put(path="/a/b", data=b"x" * 900_000)])
        assert tree.session == session
        assert tree.state is TreeState.CONNECTED
        await tree.close()

    run(story())


def test_a_closed_session_says_so(place):
    async def story():
        tree = await opened(place)
        await tree.close()
        await tree.close()
        with pytest.raises(Disconnected):
            await tree.read(["/a"])

    run(story())


def test_no_more_topics_are_watched_than_allowed(place):
    async def story():
        tree = await opened(place)
        watches = TopicWatches(tree, most=2)
        for topic in ("a", "b", "b"):
            watches.watch(topic, print)
        with pytest.raises(RegistryError, match="more than 2 topics"):
            watches.watch("c", print)
        watches.unwatch("a")
        watches.watch("c", print)
        assert len(watches) == 2
        await tree.close()

    run(story())
