"""A router that is elected again and again: it handles each change once, and acts by what is true now."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from firelane.overlay.leader.events import TopicsChanged
from firelane.overlay.registry import Assignment, KnownEdge, Registry, TopicState, Wish, parse_registry
from overlay.sites import Sites, until


@asynccontextmanager
async def room(folder, *routers):
    """Routers, and a registry to look on and to be an edge with; a zone is published at west and wanted at east."""
    address = f"memory://{folder.name}"
    here = Sites(folder, address)
    async with Registry(parse_registry(address)) as west, Registry(parse_registry(address)) as east:
        for name in routers:
            await here.start("router", name)
        west.announce_edge("west", 1)
        east.announce_edge("east", 2)
        try:
            yield here, west, east
        finally:
            await here.close()


def leads(here, name):
    return here.brokers[name].statistics()["leads"]


async def elected_again(here, name):
    """Its session expires, and nobody else wants to lead."""
    tree = here.brokers[name].registry.tree
    tree.expire()
    assert not leads(here, name)
    tree.resume()
    await until(lambda: leads(here, name))


def heard_by(broker, monkeypatch):
    """The events that a router's leader is told from now on."""
    events, handle = [], broker._leader.handle

    def told(event):
        events.append(event)
        return handle(event)

    monkeypatch.setattr(broker._leader, "handle", told)
    return events


def slow_to_read_topics(tree, monkeypatch):
    """Others may be elected, and act, while it reads."""
    children = tree.children

    async def slow(paths):
        if "/topics" in paths:
            await asyncio.sleep(1.0)
        return await children(paths)

    monkeypatch.setattr(tree, "children", slow)


def test_after_five_elections_a_change_is_handled_once(tmp_path, monkeypatch):
    async def story():
        async with asyncio.timeout(60), room(tmp_path, "r1") as (here, west, east):
            broker, topics = here.brokers["r1"], {}
            await until(lambda: leads(here, "r1"))
            east.on_topics(topics.update)
            for _ in range(5):
                await elected_again(here, "r1")
            events = heard_by(broker, monkeypatch)
            west.endpoints({"zone": 1}, {})
            await west.settled()
            await asyncio.sleep(0.3)
            assert [set(one.topics) for one in events if isinstance(one, TopicsChanged)] == [{"zone"}]
            east.endpoints({}, {"zone": 1})
            await until(lambda: topics["zone"].assignment is not None)

    asyncio.run(story())


def test_who_leads_no_more_follows_neither_topics_nor_edges(tmp_path):
    async def story():
        async with asyncio.timeout(60), room(tmp_path, "r1") as (here, *_):
            await until(lambda: leads(here, "r1"))
            await here.start("router", "r2")
            await until(lambda: here.brokers["r2"].registry.watches == 2)  # of routers and of the leader
            first = here.brokers["r1"].registry
            await until(lambda: first.watches == 4)
            first.tree.expire()
            await until(lambda: leads(here, "r2"))
            first.tree.resume()
            await until(lambda: first.watches == 2)
            assert here.brokers["r1"].statistics()["topics"] == 0

    asyncio.run(story())


def test_a_router_that_leads_again_knows_what_another_has_done_meanwhile_before_it_acts(tmp_path, monkeypatch):
    """r2 gave the topic to itself while r1 was away. r1 takes that over: it is not moved, and nothing is written."""

    async def story():
        async with asyncio.timeout(60), room(tmp_path, "r1") as (here, west, east):
            topics = {}
            east.on_topics(topics.update)
            west.endpoints({"zone": 1}, {})
            east.endpoints({}, {"zone": 1})
            await until(lambda: "zone" in topics and topics["zone"].assignment is not None)
            assert topics["zone"].assignment.router == "r1"
            await here.start("router", "r2")
            first, second = (here.brokers[name].registry for name in ("r1", "r2"))
            await until(lambda: here.brokers["r2"].statistics()["routers"] == 2)
            first.tree.expire()
            await until(lambda: topics["zone"].assignment.router == "r2")
            slow_to_read_topics(first.tree, monkeypatch)
            first.tree.resume()
            await until(lambda: here.brokers["r2"].statistics()["routers"] == 2)
            epoch = topics["zone"].assignment.epoch
            assigned = here.brokers["r1"].statistics()["assigned"]
            await second._election.resign()
            await until(lambda: leads(here, "r1"))
            assert here.brokers["r1"].plan().placement == {"zone": "r2"}
            known = here.brokers["r1"].statistics()
            assert (known["topics"], known["crossing"], known["assigned"]) == (1, 1, assigned)
            await asyncio.sleep(0.3)
            assert topics["zone"].assignment == Assignment(router="r2", epoch=epoch)

    asyncio.run(story())


def test_many_changes_of_edges_at_once_are_looked_at_together(tmp_path, monkeypatch):
    """A hundred in a row are two looks at most, and the last of them shows all."""

    async def story():
        async with asyncio.timeout(60), room(tmp_path, "r1") as (here, west, _):
            broker = here.brokers["r1"]
            await until(lambda: leads(here, "r1"))
            west.endpoints({"zone": 1}, {})
            await until(lambda: broker.statistics()["topics"] == 1)
            events = heard_by(broker, monkeypatch)
            for number in range(100):
                filters = {"+": Wish(qos=0)}
                edge = KnownEdge(name=f"e{number}", boot=1, locator=None, here=True, filters=filters)
                broker._edges_listener({edge.name: edge})
            await asyncio.sleep(0.3)
            looks = [one.topics["zone"] for one in events if isinstance(one, TopicsChanged)]
            assert 1 <= len(looks) <= 2
            assert looks[-1].subscribers == {f"e{number}" for number in range(100)}

    asyncio.run(story())


def test_a_topic_that_has_gone_since_the_last_look_is_told_as_gone(tmp_path, monkeypatch):
    async def story():
        async with asyncio.timeout(60), room(tmp_path, "r1") as (here, *_):
            broker = here.brokers["r1"]
            await until(lambda: leads(here, "r1"))
            events = heard_by(broker, monkeypatch)
            broker._topics_listener({"zone": TopicState(pub={"west": 1})})
            broker._topics_listener({"zone": None, "other": TopicState(pub={"west": 1})})
            await until(lambda: broker.statistics()["topics"] == 1)
            (told,) = (one.topics for one in events if isinstance(one, TopicsChanged))
            assert told["zone"] is None
            assert told["other"].publishers == {"west"}

    asyncio.run(story())
