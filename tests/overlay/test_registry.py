"""What one broker declares, others are told: in memory and on ZooKeeper alike."""

import asyncio
import json
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest
from registry_rooms import Follower, run, until

from firelane.overlay.registry import Assignment, KnownEdge, KnownRouter, Load, RegistryError, TopicState, Wish
from firelane.overlay.registry.tree import Create, Put

FEW = {f"site/{number}/#": Wish(qos=1, keeps=True, need={"max-delay": "0.2 s"}) for number in range(10)}


def test_brokers_find_each_other(place):
    async def story():
        async with place.registry() as edge, place.registry() as router:
            edges, routers = Follower(), Follower()
            router.on_edges(edges)
            edge.on_routers(routers)
            edge.announce_edge("north", 7, "10.0.0.1:1883")
            edge.want(FEW)
            router.announce_router("r1", 3, "10.0.0.9:1884")
            await until(lambda: "r1" in routers.known and "north" in edges.known and edges.known["north"].filters)
            await until(lambda: edges.known["north"].here)
            assert edges.known == {
                "north": KnownEdge(name="north", boot=7, locator="10.0.0.1:1883", here=True, filters=FEW)
            }
            router.report(Load(messages_hz=12.5, bytes_hz=900), topics=4)
            await until(lambda: routers.known["r1"].topics)
            load = Load(messages_hz=12.5, bytes_hz=900)
            assert routers.known["r1"] == KnownRouter(name="r1", boot=3, locator="10.0.0.9:1884", topics=4, load=load)
        async with place.registry() as later:
            routers = Follower()
            later.on_routers(routers)
            await until(lambda: routers.calls)
            assert not routers.known, "a router goes with its session"

    run(story())


def test_only_changes_are_told(place):
    async def story():
        async with place.registry() as north, place.registry() as south, place.registry() as router:
            edges = Follower()
            north.announce_edge("north", 1)
            south.announce_edge("south", 1)
            north.want(FEW)
            await asyncio.gather(north.settled(), south.settled())
            router.on_edges(edges)
            await until(lambda: len(edges.known) == 2)
            told = len(edges.calls)
            south.want(FEW)
            await until(lambda: edges.known["south"].filters == FEW)
            assert {name for changes in edges.calls[told:] for name in changes} == {"south"}
            told = len(edges.calls)
            await south.tree.transact([Put(path="/edges/south", data=b'{"format":1, "boot":1, "later":1}')])
            await south.tree.transact([Put(path="/edges/north", data=b'{"format":1, "boot":9}')])
            await until(lambda: edges.known["north"].boot == 9)
            assert {name for changes in edges.calls[told:] for name in changes} == {"north"}
            assert all(edges.calls[told:]), "and nobody is told of nothing"

    run(story())


def test_endpoints_become_topics_and_differences_are_written(place):
    async def story():
        async with place.registry() as north, place.registry() as south, place.registry() as leader:
            topics = Follower()
            leader.on_topics(topics)
            north.announce_edge("north", 1)
            south.announce_edge("south", 1)
            north.endpoints({"a/b": 2, "only": 1}, {}, {"a/b": 5.0, "only": 0.5})
            south.endpoints({"a/b": 1}, {"a/b": 4, "gone": 0})
            await asyncio.gather(north.settled(), south.settled())
            await until(lambda: topics.known.get("a/b", TopicState()).sub and "only" in topics.known)
            await until(lambda: len(topics.known["a/b"].pub) == 2)
            assert topics.known == {
                "a/b": TopicState(pub={"north": 2, "south": 1}, sub={"south": 4}, rate_hz=5.0),
                "only": TopicState(pub={"north": 1}, rate_hz=0.5),
            }
            before = north.operations
            north.endpoints({"a/b": 2, "only": 1}, {}, {"a/b": 5.0, "only": 0.5})
            await north.settled()
            assert north.operations == before
            north.endpoints({"a/b": 3}, {}, {"a/b": 5.0})
            await north.settled()
            assert north.operations == before + 2, "one is changed and one deleted"
            await until(lambda: topics.known["a/b"].pub["north"] == 3)
            north.endpoints({"a/b": 3}, {})
            await until(lambda: topics.known["a/b"].rate_hz is None)  # nobody says how often
            await until(lambda: "only" not in topics.known or not topics.known["only"].pub)

    run(story())


def test_one_changed_filter_rewrites_one_part(place):
    async def story():
        async with place.registry() as edge, place.registry() as other:
            edges = Follower()
            other.on_edges(edges)
            edge.announce_edge("north", 1)
            many = {f"floor/{number}/sensor/+": Wish(qos=0) for number in range(5000)}
            edge.want(many)
            await edge.settled()
            (parts,) = await edge.tree.children(["/edges/north"])
            assert len(parts) > 3, "they are in several parts"
            before = edge.operations
            edge.want(many | {"floor/7/sensor/+": Wish(qos=2)})
            await edge.settled()
            assert edge.operations == before + 1
            await until(lambda: edges.known["north"].filters.get("floor/7/sensor/+") == Wish(qos=2))
            assert len(edges.known["north"].filters) == 5000

    run(story())


def test_no_filter_is_missing_while_parts_become_more_and_fewer(place):
    async def story():
        async with place.registry() as edge, place.registry() as other:
            seen = []
            other.on_edges(lambda changes: seen.extend(changes.values()))
            edge.announce_edge("north", 1)
            edge.want(FEW)
            await until(lambda: seen and seen[-1].filters == FEW)
            seen.clear()
            for number in (3000, 20_000, 10):
                wanted = FEW | {f"floor/{one}/temperature/#": Wish(qos=1) for one in range(number)}
                edge.want(wanted)
                await edge.settled()
                await until(lambda: seen and seen[-1].filters == wanted)  # noqa: B023  awaited here
            assert all(FEW.items() <= one.filters.items() for one in seen)
            assert all(one != after for one, after in pairwise(seen)), "only changes are told"

    run(story())


def test_who_routes_a_topic_is_told_until_nobody_asks(place):
    async def story():
        async with place.registry() as edge, place.registry() as router:
            told, elected = [], []
            edge.announce_edge("north", 1)
            edge.endpoints({"a": 1, "b": 1}, {})
            edge.watch_topic("a", lambda topic, found: told.append((topic, found)))
            edge.watch_topic("b", lambda topic, found: told.append((topic, found)))
            await edge.settled()
            await until(lambda: len(told) == 2)
            router.announce_router("r1", 1, "h:1")
            router.campaign(lambda *one: elected.append(one))
            await until(lambda: elected)
            done = await router.assign({"a": "r1", "b": "r1", "nowhere": "r1"}, elected[-1][1])
            assert done.missing == {"nowhere"}
            assert done.epoch > elected[-1][1]
            found = Assignment(router="r1", epoch=done.epoch)
            await until(lambda: len(told) == 4)
            assert sorted(told[:2]) == [("a", None), ("b", None)]
            assert sorted(told[2:]) == [("a", found), ("b", found)]
            edge.unwatch_topic("a")
            last = await router.assign({"a": "r2", "b": "r2"}, done.epoch)
            await until(lambda: len(told) > 4)
            await asyncio.sleep(0.1)
            assert told[4:] == [("b", Assignment(router="r2", epoch=last.epoch))]

    run(story())


def test_after_a_lost_session_everything_is_declared_anew(place):
    async def story():
        async with place.registry() as edge, place.registry() as other:
            edges, topics, routers = Follower(), Follower(), Follower()
            other.on_edges(edges)
            other.on_topics(topics)
            other.on_routers(routers)
            edge.announce_edge("north", 1)
            edge.announce_router("r1", 1, "h:1")
            edge.want(FEW)
            edge.endpoints({"a": 1}, {"b": 2})
            await edge.settled()
            session = edge.tree.session
            await place.expire(edge.tree)
            assert edge.tree.session != session
            await edge.settled()
            (here, leaf) = await other.tree.read(["/edges/north/here", "/topics/a/pub/north"])
            assert {here.owner, leaf.owner} == {edge.tree.session}
            await until(lambda: edges.known["north"].here and topics.known.get("b", TopicState()).sub == {"north": 2})
            await until(lambda: "r1" in routers.known)
            assert edges.known["north"].filters == FEW

    run(story())


def test_what_changed_while_a_connection_was_lost_is_told_afterwards(place):
    async def story():
        async with place.registry() as edge, place.registry() as other:
            edges, told = Follower(), []
            edge.announce_edge("north", 1)
            edge.endpoints({"a": 1}, {})
            await edge.settled()
            other.on_edges(edges)
            other.watch_topic("a", lambda topic, found: told.append(found))
            await until(lambda: edges.known and told)
            async with place.dropped(other.tree):
                edge.want(FEW)
                await edge.tree.transact([Put(path="/topics/a", data=b'{"format":1,"router":"r","epoch":9}')])
                await edge.settled()
            await until(lambda: edges.known["north"].filters == FEW and told[-1] is not None)
            assert told[-1] == Assignment(router="r", epoch=9)

    run(story())


def test_a_restarted_edge_does_not_lose_its_nodes_with_its_former_session(place):
    async def story():
        async with AsyncExitStack() as stack:
            former = await stack.enter_async_context(place.registry())
            former.announce_edge("north", 1)
            former.want({"left/over": Wish(qos=0)} | {f"{number}/{'x' * 500}": Wish(qos=0) for number in range(300)})
            former.endpoints({"a": 1}, {})
            await former.settled()
            async with place.registry() as edge:
                edge.announce_edge("north", 2)
                edge.want(FEW)
                edge.endpoints({"a": 1}, {})
                await edge.settled()
                await stack.aclose()
                here, leaf = await edge.tree.read(["/edges/north/here", "/topics/a/pub/north"])
                assert here.owner == leaf.owner == edge.tree.session
                edges = Follower()
                edge.on_edges(edges)
                await until(lambda: edges.known)
                assert edges.known["north"].filters == FEW, "nothing of its former life is left"
                assert edges.known["north"].here

    run(story())


def test_an_edge_that_leaves_is_kept_or_forgotten(place):
    async def story():
        async with place.registry() as other:
            edges, topics = Follower(), Follower()
            other.on_edges(edges)
            other.on_topics(topics)
            for name, keep in (("kept", True), ("gone", False)):
                async with place.registry() as edge:
                    edge.announce_edge(name, 1)
                    edge.want(FEW)
                    edge.endpoints({"a": 1}, {})
                    await edge.settled()
                    await until(lambda: name in edges.known and edges.known[name].here)  # noqa: B023  awaited here
                    with pytest.raises(RegistryError, match="is connected"):
                        await other.forget_edge(name)
                    await edge.leave(lasting=FEW if keep else None)
            await until(lambda: set(edges.known) == {"kept"} and not edges.known["kept"].here)
            assert edges.known["kept"].filters == FEW
            await until(lambda: not topics.known.get("a", TopicState()).pub)
            await other.forget_edge("kept")
            await until(lambda: not edges.known)

    run(story())


def test_garbage_in_one_node_does_not_stop_the_rest(place):
    async def story():
        async with place.registry() as edge, place.registry() as other:
            edge.announce_edge("north", 1)
            edge.endpoints({"a": 1, "b": 1}, {})
            edge.want(FEW)
            edge.announce_router("r1", 1, "h:1")
            await edge.settled()
            garbage = [
                Create(path="/edges/east", data=b"\xff\x00"),
                Create(path="/edges/%zz", data=b'{"format":1,"boot":1}'),
                Create(path="/broker/r2", data=b'{"format":2}'),
                Put(path="/topics/a", data=b'{"format":1,"epoch":"soon"}'),
                Create(path="/topics/%=00", data=b'{"format":1,"epoch":0}'),
            ]
            await edge.tree.transact(garbage)
            edges, routers, topics, told = Follower(), Follower(), Follower(), []
            other.on_edges(edges)
            other.on_routers(routers)
            other.on_topics(topics)
            other.watch_topic("a", lambda topic, found: told.append(found))
            await until(lambda: edges.calls and routers.calls and topics.calls and told)
            assert set(edges.known) == {"north"}
            assert set(routers.known) == {"r1"}
            assert topics.known == {"a": TopicState(pub={"north": 1}), "b": TopicState(pub={"north": 1})}
            assert told == [None]
            told_of = " ".join(map(str, other.problems))
            assert all(name in told_of for name in ("/edges/east", "%zz", "/broker/r2", "/topics/a", "%=00"))
            status = await other.status()
            assert set(status.edges) == {"north"}
            assert len(status.problems) == 5

    run(story())


def test_a_callback_that_fails_is_told_and_harms_nobody(place):
    async def story():
        faults = []
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault["message"]))
        async with place.registry() as edge:
            edges = Follower()
            edge.on_edges(lambda _: 1 / 0)
            edge.on_edges(edges)
            edge.announce_edge("north", 1)
            await until(lambda: "north" in edges.known)
            assert faults[0] == "a change of the registry was not taken"

    run(story())


def test_edges_are_forgotten_by_who_needs_them_no_more_and_told_anew_to_who_asks_again(place):
    async def story():
        async with place.registry() as edge, place.registry() as router:
            edges, again = Follower(), Follower()
            await router.stop_edges()  # of nobody
            router.on_edges(edges)
            await until(lambda: edges.calls)
            assert router.watches == 1
            await router.stop_edges()
            assert router.watches == 0
            edge.announce_edge("north", 1)
            await edge.settled()
            router.on_edges(again)
            await until(lambda: "north" in again.known)
            assert edges.known == {}

    run(story())


def test_who_has_followed_topics_takes_an_epoch_above_theirs_though_the_last_one_is_lost(place):
    async def story():
        async with place.registry() as edge, place.registry() as router:
            topics, elected = Follower(), []
            router.on_topics(topics)
            edge.announce_edge("north", 1)
            edge.endpoints({"a": 1}, {})
            await edge.settled()
            await edge.tree.transact([Put(path="/topics/a", data=b'{"format":1,"router":"r9","epoch":41}')])
            await until(lambda: topics.known["a"].assignment is not None)
            await router.stop_topics()
            router.announce_router("r1", 1, "h:1")
            router.campaign(lambda leads, epoch: elected.append((leads, epoch)))
            await until(lambda: elected)
            assert elected == [(True, 42)]

    run(story())


def test_topics_are_forgotten_by_who_does_not_lead(place):
    async def story():
        async with place.registry() as edge, place.registry() as router:
            topics = Follower()
            router.on_topics(topics)
            await until(lambda: topics.calls)
            assert router.watches == 1
            await router.stop_topics()
            assert router.watches == 0
            told = len(topics.calls)
            edge.announce_edge("north", 1)
            edge.endpoints({"a": 1}, {})
            await edge.settled()
            again = Follower()
            router.on_topics(again)
            await until(lambda: "a" in again.known)
            assert len(topics.calls) == told

    run(story())


def test_nothing_is_declared_by_a_broker_without_a_name(place):
    async def story():
        async with place.registry() as broker:
            with pytest.raises(RegistryError, match="announce it first"):
                broker.want(FEW)
            with pytest.raises(RegistryError, match="empty name"):
                broker.announce_edge("", 1)

    run(story())


def test_a_reader_s_own_fault_is_not_wrapped(place):
    async def story():
        async with place.registry():
            raise RegistryError("mine")

    with pytest.raises(RegistryError, match="mine"):
        run(story())


def test_of_two_brokers_with_one_name_the_later_stays_and_the_other_is_told(place):
    async def story():
        async with place.registry() as first, place.registry() as second:
            first.announce_edge("north", 1)
            first.want(FEW)
            await first.settled()
            second.announce_edge("north", 2)
            await second.settled()
            await place.expire(first.tree)
            await until(lambda: first.problems)
            assert "another broker of the same name" in str(first.problems[0])
            own, here = await second.tree.read(["/edges/north", "/edges/north/here"])
            assert here.owner == second.tree.session
            assert json.loads(own.data)["boot"] == 2
            await second.leave()
            await first.settled()
            assert not first.problems
            own, here = await second.tree.read(["/edges/north", "/edges/north/here"])
            assert json.loads(own.data)["boot"] == json.loads(here.data)["boot"] == 1

    run(story())


def test_who_is_no_longer_the_edge_of_its_name_writes_and_takes_back_nothing(place):
    """As when a new one is started before the old one is stopped."""

    async def story():
        async with place.registry() as watcher, place.registry() as first, place.registry() as second:
            known = {}
            watcher.on_edges(known.update)
            for boot, one in ((1, first), (2, second)):
                one.announce_edge("north", boot)
                one.want(FEW)
                await one.settled()
            await until(lambda: "north" in known and known["north"].boot == 2 and known["north"].here)
            first.unreached({"r1"})
            await until(lambda: first.problems)
            assert "another broker of the same name" in str(first.problems[0])
            with pytest.raises(RegistryError, match="nothing is taken back"):
                await first.leave(lasting={"other": Wish(qos=1)})
            own, here = await second.tree.read(["/edges/north", "/edges/north/here"])
            assert (here.owner, json.loads(here.data)["boot"]) == (second.tree.session, 2)
            assert json.loads(own.data)["boot"] == 2
            assert known["north"].here
            assert known["north"].filters == FEW

    run(story())


def test_who_is_no_longer_the_router_of_its_name_reports_nothing(place):
    async def story():
        async with place.registry() as first, place.registry() as second:
            for boot, one in ((1, first), (2, second)):
                one.announce_router("r", boot, "h:1")
                await one.settled()
            first.report(Load(messages_hz=7.0), 1)
            await until(lambda: first.problems)
            second.report(Load(messages_hz=3.0), 1)
            await second.settled()
            assert (await second.status()).routers["r"].load.messages_hz == 3.0
            assert not second.problems

    run(story())


def test_who_finds_another_in_its_place_writes_nothing_more(place):
    async def story():
        async with place.registry() as first, place.registry() as second:
            for boot, one in ((1, first), (2, second)):
                one.announce_edge("north", boot)
                one.want(FEW)
                await one.settled()
            assert await first.taken()
            assert not await second.taken()
            await until(lambda: first.problems)
            first.want({"other": Wish(qos=1)})
            await asyncio.sleep(0.2)
            assert (await second.status()).edges["north"].filters == FEW

    run(story())
