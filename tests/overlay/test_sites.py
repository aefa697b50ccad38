"""Clients at different sites find each other, with nothing configured but the registry. Real sockets, one process."""

import asyncio
import time

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from sites import sites, stock, stock5, until

from firelane.exchange.protocol.publishing import is_system
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Publish
from firelane.mqtt.properties import MOST_REPEATED
from firelane.overlay.edge import EdgeBroker
from firelane.overlay.leader.leading import Leading
from firelane.overlay.messages.addressing import TOPIC
from firelane.overlay.messages.notes import TO
from firelane.overlay.messages.stamp import NAME, Stamp
from firelane.overlay.registry import Registry
from firelane.overlay.screen import screen
from firelane.overlay.showing import dry_run, state_of


def run(main):
    async def limited():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(limited())


def wanted(here, edge, topic):
    """Whether an edge knows that others want a topic."""
    return lambda: bool(here.brokers[edge]._interest.of(topic))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_published_at_one_site_arrives_at_the_other_in_order_and_once(tmp_path, qos):
    async def main():
        heard = []
        async with sites(tmp_path) as here:
            with (
                stock(here, "b", "ben", got=heard, wants="room/+/temperature", qos=qos),
                stock(here, "a", "ann") as ann,
            ):
                await until(wanted(here, "a", "room/1/temperature"))
                for n in range(100):
                    ann.publish("room/1/temperature", b"%d" % n, qos=qos)
                await until(lambda: len(heard) >= 100)
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
                await asyncio.sleep(0.2)
        assert heard == [("room/1/temperature", b"%d" % n) for n in range(100)]

    run(main)


def test_what_nobody_elsewhere_wants_stays_at_its_site(tmp_path):
    async def main():
        heard = []
        async with sites(tmp_path) as here, here.client("a") as ann, here.client("b") as ben:
            await ann.subscribe("local/#", lambda topic, payload: heard.append(payload))
            await ben.subscribe("other/#", lambda topic, payload: heard.append(payload))
            await until(wanted(here, "a", "other/1"))
            before = [here.exchanges[name].broker.counts.publish_received for name in ("r1", "r2")]
            for n in range(50):
                await ann.publish("local/x", b"%d" % n, qos=n % 2)
            await until(lambda: len(heard) == 50)
            await asyncio.sleep(0.2)
            assert [here.exchanges[name].broker.counts.publish_received for name in ("r1", "r2")] == before

    run(main)


def test_a_message_goes_to_a_router_once_however_many_sites_want_it(tmp_path):
    async def main():
        heard = []
        async with sites(tmp_path, edges=("a", "b", "c", "d"), routers=("r1",)) as here, here.client("a") as ann:
            clients = [here.client(name) for name in "bcd"]
            for one in clients:
                await one.__aenter__()
                await one.subscribe("t", lambda topic, payload: heard.append(payload))
            await until(lambda: len(here.brokers["a"]._interest.of("t")) == 3)
            counts = here.exchanges["r1"].broker.counts
            before = counts.publish_received
            for n in range(20):
                await ann.publish("t", b"%d" % n)
            await until(lambda: len(heard) == 60)
            assert counts.publish_received - before == 20
            for one in clients:
                await one.__aexit__(None, None, None)

    run(main)


def test_retained_messages_are_told_to_a_site_that_begins_to_want_them(tmp_path):
    async def main():
        early, late = [], []
        async with sites(tmp_path) as here, here.client("a") as ann, here.client("b") as ben, here.client("b") as bob:
            await ann.publish("state/door", b"open", qos=1, retain=True)
            await ben.subscribe("state/#", lambda topic, payload: early.append(payload))
            await until(lambda: early == [b"open"])
            await bob.subscribe("state/door", lambda topic, payload: late.append(payload))
            await until(lambda: late == [b"open"])  # it is kept at its site by now
            await ann.publish("state/door", b"closed", qos=1, retain=True)
            await until(lambda: early[-1:] == late[-1:] == [b"closed"])

    run(main)


def test_routers_that_go_lose_nothing_of_qos_1(tmp_path):
    async def main():
        heard = []
        async with sites(tmp_path) as here, here.client("a") as ann, here.client("b") as ben:
            await ben.subscribe("t/#", lambda topic, payload: heard.append((topic, int(payload))), qos=1)
            await until(wanted(here, "a", "t/0"))
            for n in range(300):
                await ann.publish(f"t/{n % 3}", b"%d" % n, qos=1)
                if n == 100:
                    await here.stop("r1")
                if n == 200:
                    await here.start("router", "r3")
                    await here.stop("r2")
            await until(lambda: len(heard) >= 300, within_s=20)
            await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
        for turn in range(3):
            assert [n for topic, n in heard if topic == f"t/{turn}"] == list(range(turn, 300, 3))

    run(main)


@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_published_while_an_edge_was_away_arrives_when_it_is_back(tmp_path, qos):
    async def main():
        heard = []
        async with sites(tmp_path) as here, here.client("a"):
            with stock(here, "b", "ben", got=heard, wants="t", qos=qos, keep=True), stock(here, "a", "ann") as ann:
                await until(wanted(here, "a", "t"))
                ann.publish("t", b"0", qos=qos)
                await until(lambda: heard == [("t", b"0")])
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
                await here.stop("b")
                for n in range(1, 20):
                    ann.publish("t", b"%d" % n, qos=qos)
                await until(lambda: here.brokers["a"].statistics()["kept"] == 19)
                await here.start("edge", "b")
                with stock(here, "b", "ben", got=heard, qos=qos, keep=True):
                    await until(lambda: len(heard) >= 20)
                    await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
        assert heard == [("t", b"%d" % n) for n in range(20)]

    run(main)


def test_an_edge_that_starts_again_sends_what_it_had_not_been_acknowledged(tmp_path):
    async def main():
        heard = []
        async with sites(tmp_path, routers=()) as here:
            await here.start("router", "r1")
            await here.joined()
            with stock(here, "b", "ben", got=heard, wants="t", qos=1), stock(here, "a", "ann") as ann:
                await until(wanted(here, "a", "t"))
                await here.stop("r1")
                for n in range(10):
                    ann.publish("t", b"%d" % n, qos=1)
                await until(lambda: here.brokers["a"].statistics()["kept"] == 10)
                await here.stop("a")
                await here.start("edge", "a")
                await here.start("router", "r2")
                await until(lambda: len(heard) >= 10)
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
        assert heard == [("t", b"%d" % n) for n in range(10)]

    run(main)


@pytest.mark.parametrize("topic", ["$overlay/had/b/t", "$overlay/numbers"])
def test_nobody_writes_down_in_the_overlays_name_what_has_come_or_was_numbered(tmp_path, topic):
    async def main():
        async with sites(tmp_path, edges=("a",), routers=()) as here, here.client("a") as ann:
            refused = here.exchanges["a"].broker.counts.publish_refused
            await ann.publish(topic, b"1")
            await until(lambda: here.exchanges["a"].broker.counts.publish_refused == refused + 1)
            assert is_system(topic)  # nor before the edge has begun

    run(main)


def test_a_router_refuses_an_edge_without_credentials(tmp_path):
    async def main():
        async with sites(tmp_path, edges=(), routers=()) as here:
            await here.start("router", "r1", anonymous="never")
            await here.start("edge", "a")
            await until(lambda: any("refuses this edge" in line for line in here.lines))
            assert here.brokers["a"].statistics()["routers"] == {"r1": False}

    run(main)


def test_an_overlay_is_shown_and_its_leader_says_what_it_would_move(tmp_path):
    async def main():
        async with sites(tmp_path) as here, here.client("a") as ann, here.client("b") as ben:
            await ben.subscribe("room/+", lambda topic, payload: None)
            await until(wanted(here, "a", "room/1"))
            await ann.publish("room/1", b"x")
            await ann.publish("room/1", b"y")
            registry = here.brokers["a"].registry
            async with asyncio.timeout(20):
                while not ((state := state_of(status := await registry.status()))["topics"] and state["leader"]):
                    await ann.publish("room/1", b"z")
                    await asyncio.sleep(0.3)
            assert set(state["routers"]) == {"r1", "r2"}
            assert state["leader"] in state["routers"]
            assert {name: edge["here"] for name, edge in state["edges"].items()} == {"a": True, "b": True}
            topic = state["topics"]["room/1"]
            assert (topic["publishers"], topic["subscribers"]) == (["a"], ["b"])
            assert topic["router"] in state["routers"]
            lines = "\n".join(screen(status, now_s=time.time(), width=100))
            assert f"a -> {topic['router']} -> b" in lines
            plan = dry_run(await registry.status(), Leading())
            assert plan.placement["room/1"] in ("r1", "r2")

    run(main)


def test_an_edge_finds_routers_while_it_learns_of_others_and_misses_nothing_meanwhile(tmp_path, monkeypatch):
    on_edges, held = Registry.on_edges, []

    def late(registry, told):
        if isinstance(getattr(told, "__self__", None), EdgeBroker):
            held.append((registry, told))
        else:
            on_edges(registry, told)

    async def main():
        heard = []
        async with sites(tmp_path, routers=("r1",)) as here:
            with stock(here, "b", "ben", got=heard, wants="news", qos=1, keep=True), stock(here, "a", "ann") as ann:
                await until(wanted(here, "a", "news"))
                ann.publish("news", b"before", qos=1)
                await until(lambda: heard and here.brokers["a"].statistics()["kept"] == 0)
            await here.stop("b")
            monkeypatch.setattr(Registry, "on_edges", late)
            await here.start("edge", "b")
            await until(lambda: held)
            monkeypatch.undo()
            await until(lambda: here.brokers["b"].statistics()["routers"] == {"r1": True})
            with stock(here, "b", "ben", got=heard, wants="news", qos=1, keep=True), stock(here, "a", "ann") as ann:
                ann.publish("news", b"meanwhile", qos=1)
                await until(lambda: here.brokers["b"].statistics()["strange"])  # it came, and was not taken
                on_edges(*held[0])
                await until(lambda: len(heard) == 2)
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
        assert heard == [("news", b"before"), ("news", b"meanwhile")]

    run(main)


@pytest.mark.parametrize("qos", [0, 1])
def test_a_message_with_a_topic_that_is_none_harms_nobody_and_is_counted(tmp_path, qos):
    """Whoever may publish at a router can write anything into the property."""

    async def main():
        async with sites(tmp_path, routers=("r",)) as here:
            got = []
            with stock(here, "b", "ben", got=got, wants="#", qos=1), stock(here, "a", "ann") as ann:
                await until(wanted(here, "a", "fire"))
                edge, topics = here.brokers["b"], ("a/+/#", "", "/" * 300, "$SYS/broker")
                host, port = here.exchanges["r"].addresses["mqtt"].removeprefix("mqtt://").split(":")
                _, mallory = await asyncio.open_connection(host, int(port))
                mallory.write(encode(Connect(client_id="mallory", version=V5), V5))
                for number, topic in enumerate(topics):
                    stamp = Stamp("a", 1, 2**40 + number, 0, 0, qos).text()
                    properties = {"user_property": [(NAME, stamp), (TOPIC, topic)]}
                    mallory.write(encode(Publish(topic=f"{TO}b", payload=b"x", properties=properties), V5))
                await until(lambda: sum(edge.statistics()["strange"].values()) == len(topics))
                mallory.close()
                ann.publish("fire", b"here", 1)
                await until(lambda: got == [("fire", b"here")])

    run(main)


@pytest.mark.parametrize("qos", [0, 1])
def test_a_message_with_as_many_properties_as_it_may_have_harms_nobody_and_is_counted(tmp_path, qos):
    """What the overlay adds makes it more than routers take."""

    async def main():
        async with sites(tmp_path, routers=("r",)) as here:
            got, local = [], []
            with (
                stock(here, "b", "ben", got=got, wants="#", qos=1),
                stock(here, "a", "ann", got=local, wants="much", qos=1) as ann,
            ):
                await until(wanted(here, "a", "fire"))
                host, port = here.exchanges["a"].addresses["mqtt"].removeprefix("mqtt://").split(":")
                _, mallory = await asyncio.open_connection(host, int(port))
                properties = {"user_property": [("said", "much")] * MOST_REPEATED}
                much = Publish(topic="much", payload=b"x", qos=qos, packet_id=qos, properties=properties)
                mallory.write(encode(Connect(client_id="mallory", version=V5), V5) + encode(much, V5))
                await until(lambda: local == [("much", b"x")])
                ann.publish("fire", b"here", 1)
                await until(lambda: got == [("fire", b"here")])
                mallory.close()
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
                said = here.brokers["a"].statistics()
                assert said["dropped"] == {"too large": 1}
                assert said["routers"] == {"r": True}
                assert not said["strange"]

    run(main)


def test_an_edge_that_is_there_again_says_so_to_the_others(tmp_path):
    """They may have sent the last message of a topic just before it could take anything."""

    async def main():
        async with sites(tmp_path, routers=("r",)) as here:
            told, edge = [], here.brokers["a"]
            edge._sending.back = lambda name, *_: told.append(name) or []
            await here.stop("b")
            await here.start("edge", "b")
            await until(lambda: told == ["b"])

    run(main)


def test_what_is_no_longer_retained_elsewhere_is_not_told_to_who_wants_it_again(tmp_path):
    """It was cleared while nobody at the other site wanted it, who kept it; what somebody still wants is kept."""
    before, after, always = [], [], []

    async def main():
        async with sites(tmp_path, routers=("r1",)) as here, here.client("a") as ann, here.client("b") as eve:
            kept = here.exchanges["b"].broker.retained
            await eve.subscribe("cmd/door", lambda topic, payload: always.append(payload), qos=1)
            async with here.client("b") as ben:
                await ben.subscribe("cmd/#", lambda topic, payload: before.append(topic), qos=1)
                await until(lambda: here.brokers["a"]._interest.of("cmd/valve"))
                await ann.publish("cmd/valve", b"open", qos=1, retain=True)
                await ann.publish("cmd/door", b"open", qos=1, retain=True)
                await until(lambda: len(before) == 2)
            await until(lambda: kept.get(b"cmd/valve") is None)
            assert kept.get(b"cmd/door") is not None
            await until(lambda: not here.brokers["a"]._interest.of("cmd/valve"))
            await ann.publish("cmd/valve", b"", qos=1, retain=True)
            async with here.client("b") as ben:
                await ben.subscribe("cmd/#", lambda topic, payload: after.append(topic), qos=1)
                await until(lambda: here.brokers["a"]._interest.of("cmd/valve"))
                await ann.publish("cmd/last", b"", qos=1)
                await until(lambda: "cmd/last" in after)

    run(main)
    assert sorted(after) == ["cmd/door", "cmd/last"]
    assert always == [b"open"]


def test_who_comes_back_at_once_is_told_what_is_retained_elsewhere(tmp_path):
    """The registry may see no gap: all that was forgotten meanwhile is told again nevertheless."""
    heard = []

    async def main():
        async with sites(tmp_path, routers=("r1",)) as here, here.client("a") as ann:
            kept = here.exchanges["b"].broker.retained
            async with here.client("b") as ben:
                await ben.subscribe("cmd/#", lambda topic, payload: heard.append(payload), qos=1)
                await until(lambda: here.brokers["a"]._interest.of("cmd/valve"))
                await ann.publish("cmd/valve", b"open", qos=1, retain=True)
                await until(lambda: heard)
            for again in range(2, 6):
                await until(lambda: kept.get(b"cmd/valve") is None)  # the edge has looked; others may not have heard
                async with here.client("b") as ben:
                    await ben.subscribe("cmd/#", lambda topic, payload: heard.append(payload), qos=1)
                    await until(lambda again=again: len(heard) == again)

    run(main)
    assert heard == [b"open"] * 5


def test_a_client_cannot_say_that_its_message_is_told_again(tmp_path):
    heard = []

    async def main():
        async with sites(tmp_path, routers=("r1",)) as here:
            with stock(here, "b", "ben", got=heard, wants="t/#", qos=1), stock(here, "a", "ann") as ann:
                await until(wanted(here, "a", "t/1"))
                properties = Properties(PacketTypes.PUBLISH)
                properties.UserProperty = [("firelane-number", "9" * 5000), ("firelane-first", "3")]
                with stock5(here, "a", "liar") as liar:
                    for payload in (b"one", b"two"):
                        liar.publish("t/1", payload, qos=1, retain=True, properties=properties)
                await until(lambda: len(heard) == 2)
                ann.publish("t/2", b"three", qos=1)
                await until(lambda: len(heard) == 3)

    run(main)
    assert heard == [("t/1", b"one"), ("t/1", b"two"), ("t/2", b"three")]


def test_retained_messages_that_a_site_has_had_are_not_delivered_there_again(tmp_path):
    """Another site begins to want them; a need changes; the edge where they were published is started again."""
    had, new = [], []

    async def main():
        async with sites(tmp_path, edges=("a", "b", "c"), routers=("r1",)) as here, here.client("c") as cleo:
            await cleo.subscribe("cmd/#", lambda topic, payload: had.append(payload), qos=1)
            await until(lambda: here.brokers["a"]._interest.of("cmd/valve"))
            async with here.client("a") as ann:
                await ann.publish("cmd/valve", b"open", qos=1, retain=True)
                await until(lambda: had)
                async with here.client("b") as ben:
                    await ben.subscribe("cmd/#", lambda topic, payload: new.append(payload), qos=1)
                    await until(lambda: new)
                async with here.client("c") as cid:
                    await cid.subscribe("cmd/#", lambda topic, payload: None, qos=1, properties=[("weight", "7")])
                    await until(
                        lambda: (here.brokers["a"]._interest.filters()["cmd/#"].need or {}).get("weight") == "7"
                    )
            await here.stop("a")
            await here.start("edge", "a")
            await here.joined()
            async with here.client("a") as ann:
                await until(lambda: here.brokers["a"]._interest.of("cmd/valve"))
                await ann.publish("cmd/valve", b"closed", qos=1, retain=True)
                await until(lambda: had[-1] == b"closed")

    run(main)
    assert had == [b"open", b"closed"]
    assert new == [b"open"]
