"""A router that one edge cannot reach for long carries nothing that this edge wants, if another will do."""

import asyncio

import pytest
from sites import sites, stock, until

from firelane.overlay import edge as module
from firelane.overlay.interest import Edge, Interest
from firelane.overlay.messages.actions import Copy, Deliver, Direct, Forward
from firelane.overlay.messages.receiving import Receiving
from firelane.overlay.messages.sending import Sending
from firelane.overlay.owner import hashed_owner
from firelane.overlay.paths import reach
from firelane.overlay.paths.path import Path
from firelane.overlay.paths.reach import LONG_S, Reach
from firelane.overlay.registry import Wish

ROUTERS = ["r1", "r2", "r3"]
TOPIC = next(topic for topic in map(str, range(100)) if hashed_owner(topic, ROUTERS) == "r2")
MISSED = "an edge that wants it cannot reach its router"
CLOSED = "127.0.0.1:1"


def test_a_router_counts_as_unreached_after_long_and_as_reached_after_as_long():
    here = Reach()
    news = {}
    for tenth in range(600):
        now = tenth / 10
        if here.look({"r1": True, "r2": not 5.0 <= now < 30.0}, now):
            news[now] = set(here.unreached)
    assert news == {5.0 + LONG_S: {"r2"}, 30.0 + LONG_S: set()}


def test_a_line_that_comes_and_goes_is_no_news():
    here = Reach()
    assert not any(here.look({"r1": second % 8 < 4}, float(second)) for second in range(1000))


def test_a_router_that_is_gone_is_not_unreached_any_more():
    here = Reach()
    here.look({"r1": False}, 0.0)
    assert here.look({"r1": False}, LONG_S)
    assert here.look({}, LONG_S + 1)
    assert not here.unreached
    assert not here.look({"r1": False}, LONG_S + 2)


def sending(routers=tuple(ROUTERS), qos=0, **unreached):
    """An edge that reaches all routers, and others that do not reach these and want everything."""
    interest = Interest()
    one = Sending("a", 1, interest)
    one.routers_listener(routers, 0.0)
    for router in routers:
        one.path_up(router, 0.0)
    one.tick(10.0)
    for name, some in unreached.items():
        tell(one, name, some, qos=qos)
    return one


def tell(one, name, unreached, here=True, qos=0, **more):
    wish = Wish(qos=qos, keeps=True, **more)
    edge = Edge(here=here, filters={"#": wish}, unreached=frozenset(unreached), locator="h:1")
    one._interest.change(name, edge)
    one.edges_changed((), 0.0)


def published(one, number, qos=0, now=0.0):
    copy = Copy(topic=TOPIC, payload=b"x", qos=qos, number=number, packet_id=number)
    return [*one.published(copy, now), *one.topic_node_listener(TOPIC, None, now)]


def routers_of(actions):
    return [action.router for action in actions if isinstance(action, Forward)]


@pytest.mark.parametrize(
    ("unreached", "router", "missed"),
    [
        ({"b": [], "c": []}, "r2", 0),
        ({"b": ["r2", "r3"], "c": ["r3"]}, "r1", 0),
        ({"b": ["r2"], "c": ["r1"]}, "r3", 0),
        ({"b": ROUTERS, "c": ["r1", "r2"]}, "r3", 1),  # nobody suffers because another reaches none
        ({"b": ROUTERS, "c": []}, "r2", 1),
        ({"b": ["r2", "r3"], "c": ["r2", "r3"], "d": ["r1", "r2"]}, "r1", 1),
    ],
)
def test_a_topic_goes_through_a_router_that_all_who_want_it_reach_or_most(unreached, router, missed):
    one = sending(**unreached)
    assert routers_of(published(one, 1)) == [router]
    assert one.dropped[MISSED] == missed


def test_it_goes_back_when_its_owner_is_reached_again():
    one = sending(b=[])
    assert routers_of(published(one, 1)) == ["r2"]
    tell(one, "b", ["r2", "r3"])
    assert routers_of(published(one, 2)) == ["r1"]
    tell(one, "b", ["r3"])
    assert routers_of(published(one, 3)) == ["r2"]
    tell(one, "b", ["r2"], here=False)  # it is away: what it reached does not matter
    assert routers_of(published(one, 4)) == ["r2"]


def test_news_of_edges_that_reach_everything_cost_no_routes():
    one = sending(b=[], c=[])
    published(one, 1)
    tell(one, "c", [])
    assert TOPIC in one._routes


def test_who_wants_qos_0_of_a_message_of_qos_1_and_is_not_reached_is_counted():
    one = sending(b=["r2", "r3"], c=["r2", "r3"], qos=1)
    tell(one, "d", ["r1", "r2"], qos=0)
    published(one, 1)
    assert routers_of(published(one, 2, qos=1)) == ["r1"]
    assert one.dropped == {MISSED: 2}


def test_what_goes_directly_is_not_counted_as_missed():
    one = sending()
    tell(one, "b", ROUTERS, deadline_s=0.1)
    actions = published(one, 1)
    assert any(isinstance(action, Direct) for action in actions)
    assert not one.dropped


def test_what_is_sent_again_goes_where_the_edge_can_be_reached():
    """Also by an edge that cannot be reached through the topic's router, and at the first attempt."""
    routers = tuple(f"r{number}" for number in range(10))
    one = sending(routers, b=[], c=[], d=[], qos=1)
    for name, only in (("b", "r0"), ("c", "r9"), ("d", "r0")):
        tell(one, name, [router for router in routers if router != only], qos=1)
    published(one, 1, qos=1, now=10.0)
    tried = {}
    for tenth in range(20):
        for action in one.tick(10.0 + tenth / 10):
            if isinstance(action, Forward):
                tried.setdefault(action.edge, action.router)
    assert tried == {"b": "r0", "c": "r9", "d": "r0"}


def test_a_line_that_comes_and_goes_costs_nobody_else_messages():
    """Its edge says nothing; if it did, messages would overtake each other on ways of 20 and 200 ms."""
    here, one = Reach(), sending(("r1", "r2"), b=[], c=[])
    topic = next(topic for topic in map(str, range(100)) if hashed_owner(topic, ["r1", "r2"]) == "r2")
    machine, delay_s, under_way = Receiving("c", 2), {"r1": 0.2, "r2": 0.02}, []
    for step in range(2000):
        now = 20 + step / 100
        if here.look({"r1": True, "r2": step % 400 < 200}, now):
            tell(one, "b", here.unreached)
        copy = Copy(topic=topic, payload=b"x", qos=0, number=step + 1)
        actions = [*one.published(copy, now), *one.tick(now), *one.topic_node_listener(topic, None, now)]
        under_way += [(now + delay_s[one.router], one) for one in actions if isinstance(one, Forward)]
        for at, action in sorted((each for each in under_way if each[0] <= now), key=lambda each: each[0]):
            came = machine.arrived(topic, b"x", {}, action.stamp, action.router, at)
            assert [type(each) for each in came] == [Deliver]
        under_way = [each for each in under_way if each[0] > now]


def cut_off(monkeypatch, edge, *locators):
    """An edge that finds nobody where these routers are."""

    def elsewhere(name, locator, *given, **options):
        closed = name == edge and (locator in locators or not locators)
        return Path(name, CLOSED if closed else locator, *given, **options)

    monkeypatch.setattr(module, "Path", elsewhere)
    monkeypatch.setattr(reach, "LONG_S", 0.5)


def test_nothing_is_lost_where_one_edge_cannot_reach_one_router(tmp_path, monkeypatch):
    async def main():
        heard = []
        async with asyncio.timeout(60), sites(tmp_path, edges=("a", "c")) as here:
            cut_off(monkeypatch, "b", here.brokers["r2"].locator)
            await here.start("edge", "b")
            with stock(here, "b", "ben", got=heard, wants="t/#"), stock(here, "a", "ann") as ann:
                await until(lambda: here.brokers["a"]._sending._paths == {"r1", "r2"})
                await until(lambda: here.brokers["a"]._interest.unreached_for("t/1") == {"b": frozenset({"r2"})})
                topics = [f"t/{n}" for n in range(20)]
                for topic in topics:
                    ann.publish(topic, b"x")
                await until(lambda: len(heard) == len(topics))
                assert here.brokers["a"].statistics()["dropped"] == {}
            with stock(here, "c", "cleo", wants="u/#"):  # what b does not want goes through all routers
                await until(lambda: bool(here.brokers["a"]._interest.of("u/1")))
                routes = {here.brokers["a"]._sending.route(f"u/{n}").router for n in range(50)}
                assert routes == {"r1", "r2"}

    asyncio.run(main())


def test_what_an_edge_misses_that_never_reached_a_router_is_counted(tmp_path, monkeypatch):
    async def main():
        async with asyncio.timeout(60), sites(tmp_path, edges=("a", "c"), routers=("r1",)) as here:
            cut_off(monkeypatch, "b")
            await here.start("edge", "b")
            with stock(here, "b", "ben", wants="t/#"), stock(here, "a", "ann") as ann:
                await until(lambda: here.brokers["a"]._interest.unreached_for("t/1") == {"b": frozenset({"r1"})})
                for number in range(20):
                    ann.publish(f"t/{number}", b"x")
                await until(lambda: here.brokers["a"].statistics()["dropped"] == {MISSED: 20})

    asyncio.run(main())
