"""Topics with a deadline come from edge to edge as well: real sockets, one process, a router that can hang."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import paho.mqtt.client as paho
import pytest
from relays import relay
from sites import sites, until

from firelane.client import Client, ClientError
from firelane.exchange.clients.access import Identity, hashed
from firelane.exchange.clients.neighbours import Neighbours
from firelane.exchange.journal.retained import OVERLAY_NUMBERS
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Publish, Will
from firelane.overlay.messages.stamp import Stamp, stamped
from firelane.overlay.registry import KnownEdge, KnownRouter, Load, Status, TopicState, TreeState, Wish
from firelane.overlay.screen import screen
from firelane.overlay.showing import state_of

OPEN = {"overlay": {"direct": {"from": ["*"]}}}
SOON = (("max-delay", "200 ms"),)


def run(main):
    async def limited():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(limited())


@asynccontextmanager
async def two_sites(folder, *, a=None, b=None, b_seen_at=lambda locator: locator):
    """Edges a and b, and one router behind a relay."""
    async with relay() as line, sites(folder, edges=(), routers=()) as here:
        await here.start("router", "r1", seen_at=line.before)
        await here.start("edge", "a", **(a or {}))
        await here.start("edge", "b", seen_at=b_seen_at, **(OPEN if b is None else b))
        await here.joined()
        yield here, line


def direct(here, edge):
    return here.brokers[edge].statistics()["direct"]


def connected(here, edge="a", to="b"):
    return lambda: direct(here, edge)["paths"].get(to, {}).get("connected", False)


def knows(here, topic):
    return lambda: "b" in here.brokers["a"]._interest.of(topic)


@pytest.mark.parametrize("qos", [0, 1])
def test_while_the_router_hangs_what_has_a_deadline_arrives_and_what_has_none_waits(tmp_path, qos):
    soon, late = [], []

    async def main():
        async with two_sites(tmp_path) as (here, line), here.client("a") as ann, here.client("b") as ben:
            await ben.subscribe("alarm/+", lambda topic, payload: soon.append(payload), qos=qos, properties=SOON)
            await ben.subscribe("log", lambda topic, payload: late.append(payload), qos=qos)
            await until(connected(here))
            await until(knows(here, "log"))
            line.pause()
            for n in range(10):
                await ann.publish("alarm/1", b"%d" % n, qos=qos)
                await ann.publish("log", b"%d" % n, qos=qos)
            await until(lambda: len(soon) == 10)
            assert late == []
            assert direct(here, "b")["first"] == {"direct": 10}
            line.resume()
            await until(lambda: here.brokers["a"].statistics()["kept"] == 0, within_s=30)
            await until(lambda: len(late) == 10)

    run(main)
    assert soon == [b"%d" % n for n in range(10)]


def test_of_two_copies_the_first_is_delivered_and_the_second_is_counted(tmp_path):
    heard = []

    async def main():
        async with two_sites(tmp_path) as (here, _), here.client("a") as ann, here.client("b") as ben:
            await ben.subscribe("alarm", lambda topic, payload: heard.append(int(payload)), qos=1, properties=SOON)
            await until(connected(here))
            for n in range(50):
                await ann.publish("alarm", b"%d" % n, qos=n % 2)
            await until(lambda: sum(direct(here, "b")["second"].values()) >= 50)
            said = direct(here, "b")
            assert sum(said["first"].values()) == 50
            assert direct(here, "a")["paths"]["b"]["sent"] >= 50

    run(main)
    for parity in (0, 1):
        assert [n for n in heard if n % 2 == parity] == sorted({n for n in heard if n % 2 == parity})
    assert [n for n in heard if n % 2] == list(range(1, 50, 2))


def test_an_edge_that_was_away_gets_all_that_was_kept_for_it_before_what_comes_directly(tmp_path):
    heard = []
    profiled = {**OPEN, "profiles": {"soon": {"need": {"max_delay": "10 ms"}}}}

    async def main():
        async with two_sites(tmp_path, b=profiled) as (here, line), here.client("a") as ann:
            with durable(here.exchanges["b"], heard, "$need/soon/alarm"):
                await until(connected(here))
            await here.stop("b")
            for n in range(30):
                await ann.publish("alarm", b"%d" % n, qos=1)
            line.pause()
            await here.start("edge", "b", **profiled)
            with durable(here.exchanges["b"], heard, "$need/soon/alarm"):
                await until(connected(here))
                await ann.publish("alarm", b"30", qos=1)
                await until(lambda: len(heard) >= 31, within_s=20)
                line.resume()

    run(main)
    assert heard == [b"%d" % n for n in range(31)]


@contextmanager
def durable(exchange, got, wants):
    """A stock client whose session outlives it."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="ben", clean_session=False)
    client.on_message = lambda client, data, message: got.append(message.payload)
    client.on_connect = lambda client, *_: client.subscribe(wants, 1)
    host, port = exchange.addresses["mqtt"].removeprefix("mqtt://").split(":")
    client.connect(host, int(port))
    client.loop_start()
    try:
        yield
    finally:
        client.disconnect()
        client.loop_stop()


def test_a_direct_path_is_there_only_while_somebody_has_a_deadline(tmp_path):
    async def main():
        async with two_sites(tmp_path) as (here, _), here.client("b") as ben:
            await ben.subscribe("log", lambda topic, payload: None)
            await until(knows(here, "log"))
            assert direct(here, "a")["paths"] == {}
            await ben.subscribe("alarm", lambda topic, payload: None, properties=SOON)
            await until(connected(here))
            assert direct(here, "b")["filters"] == 1
            assert "edge:a" in here.exchanges["b"].broker.sessions
            await ben.unsubscribe("alarm")
            await until(lambda: direct(here, "a")["paths"] == {})
            await until(lambda: "edge:a" not in here.exchanges["b"].broker.sessions)

    run(main)


def test_an_edge_that_names_no_senders_has_no_direct_paths(tmp_path):
    heard = []

    async def main():
        async with two_sites(tmp_path, b={}) as (here, _), here.client("a") as ann, here.client("b") as ben:
            await ben.subscribe("alarm", lambda topic, payload: heard.append(payload), qos=1, properties=SOON)
            await until(knows(here, "alarm"))
            await ann.publish("alarm", b"1", qos=1)
            await until(lambda: heard == [b"1"])
            assert direct(here, "a")["paths"] == {}
            assert direct(here, "b")["filters"] == 0

    run(main)


@pytest.mark.parametrize("answers", ["nobody", "another broker"])
def test_without_a_direct_connection_the_router_goes_on_alone_and_that_is_said_once(tmp_path, answers):
    heard = []

    async def main():
        async with AsyncExitStack() as stack:
            if answers == "nobody":
                elsewhere = "127.0.0.1:1"
            else:
                others = await stack.enter_async_context(sites(tmp_path / "others", edges=(), routers=("x",)))
                elsewhere = others.exchanges["x"].addresses["mqtt"].removeprefix("mqtt://")
            here, _ = await stack.enter_async_context(two_sites(tmp_path, b_seen_at=lambda locator: elsewhere))
            ann, ben = [await stack.enter_async_context(here.client(name)) for name in "ab"]
            await ben.subscribe("alarm", lambda topic, payload: heard.append(payload), qos=1, properties=SOON)
            await until(lambda: any("edge b at" in line for line in here.lines))
            await ann.publish("alarm", b"1", qos=1)
            await until(lambda: heard == [b"1"])
            await asyncio.sleep(1.0)  # for several tries
            said = [line for line in here.lines if "edge b at" in line]
            assert len(said) == 1
            assert said[0].endswith("what has a deadline goes through routers alone")
            assert direct(here, "a")["refused"]["no path"] >= 1

    (tmp_path / "others").mkdir()
    run(main)


def test_at_an_edge_no_ordinary_client_publishes_below_overlay(tmp_path):
    heard = []

    async def main():
        async with two_sites(tmp_path) as (here, _), here.client("b", client_id="eve") as eve, here.client("b") as ben:
            await ben.subscribe("#", lambda topic, payload: heard.append(payload))
            await ben.subscribe("$overlay/#", lambda topic, payload: topic == OVERLAY_NUMBERS or heard.append(payload))
            for topic in ("$overlay/to/b", "$overlay/to/a", "$overlay/for/b", "$overlay/x"):
                with pytest.raises(ClientError):
                    await eve.publish(topic, b"forged", qos=1)
            refused = here.exchanges["b"].broker.counts.publish_refused
            await eve.publish("$overlay/to/b", b"forged")
            await until(lambda: here.exchanges["b"].broker.counts.publish_refused == refused + 1)
            await asyncio.sleep(0.2)
            assert here.brokers["b"].statistics()["strange"] == {}

    run(main)
    assert heard == []


def test_at_an_edge_no_will_is_published_below_overlay(tmp_path):
    heard = []

    async def main():
        async with two_sites(tmp_path) as (here, _), here.client("b") as ben:
            await ben.subscribe("$overlay/#", lambda topic, payload: topic == OVERLAY_NUMBERS or heard.append(payload))
            await ben.subscribe("last/#", lambda topic, payload: heard.append(payload))
            for topic in ("$overlay/to/b", "last/words"):
                host, port = here.exchanges["b"].addresses["mqtt"].removeprefix("mqtt://").split(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                will = Will(topic=topic, payload=topic.encode())
                writer.write(encode(Connect(client_id="eve", version=V5, will=will), V5))
                await reader.readexactly(4)
                writer.transport.abort()
            await until(lambda: heard)
            await asyncio.sleep(0.1)

    run(main)
    assert heard == [b"last/words"]


def test_an_edge_takes_only_what_is_for_it_and_from_edges_that_it_knows():
    got = []
    known = Identity(client_id="edge:a", roles=("edges",))
    here = Neighbours(name="b", admits=lambda who: "edges" in who.roles, got=lambda *what: got.append(what))
    assert here.takes(known, "$overlay/to/b", b"x", 0, {})
    assert got == [("a", b"x", {})]
    assert not here.takes(known, "$overlay/to/c", b"x", 0, {})
    assert not here.takes(known, "$overlay/to/b", b"x", 2, {})
    assert not here.takes(Identity(client_id="edge:a"), "$overlay/to/b", b"x", 0, {})
    assert not here.takes(Identity(client_id="a", roles=("edges",)), "$overlay/to/b", b"x", 0, {})
    assert len(got) == 1


def test_only_edges_with_good_credentials_may_send_and_only_what_is_their_own(tmp_path):
    heard = []
    users = {
        "site-a": {"password": hashed(b"secret"), "roles": ["edges"]},
        "guest": {"password": hashed(b"guest"), "roles": ["visitors"]},
    }
    guarded = {"users": users, "overlay": {"direct": {"from": ["edges"]}}}

    async def main():
        async with two_sites(tmp_path, b=guarded) as (here, _), here.client("a") as ann, here.client("b") as ben:
            await ben.subscribe("alarm", lambda topic, payload: heard.append(payload), qos=1, properties=SOON)
            await until(lambda: any("refuses this edge" in line for line in here.lines))  # as it shows nothing
            assert not connected(here)()
            url = here.exchanges["b"].addresses["mqtt"]
            with pytest.raises(ClientError):
                async with Client(url, client_id="edge:a", user="guest", password="guest"):
                    pass
            async with Client(url, client_id="edge:c", user="site-a", password="secret") as edge:
                forged = stamped({}, Stamp("a", 1, 2**62, 0, 0, 1))["user_property"]
                await _publish(edge, "$overlay/to/b", b"forged", [*forged, ("firelane-topic", "alarm")])
                await until(lambda: sum(here.brokers["b"].statistics()["strange"].values()) == 1)
                own = stamped({}, Stamp("c", 1, 7, 0, 0, 1))["user_property"]
                await _publish(edge, "$overlay/to/b", b"good", [*own, ("firelane-topic", "alarm")])
                await until(lambda: heard == [b"good"])
            await ann.publish("alarm", b"by router", qos=1)
            await until(lambda: heard == [b"good", b"by router"])

    run(main)


async def _publish(client, topic, payload, properties):
    packet = Publish(topic=topic, payload=payload, qos=0, properties={"user_property": properties})
    client._connection.write(encode(packet, V5))


def test_how_much_is_sent_directly_is_limited_and_the_rest_goes_through_the_router(tmp_path):
    heard = []

    async def main():
        few = {"overlay": {"direct": {"rate": "0.001 Hz"}}}
        async with two_sites(tmp_path, a=few) as (here, _), here.client("a") as ann, here.client("b") as ben:
            await ben.subscribe("alarm", lambda topic, payload: heard.append(payload), qos=1, properties=SOON)
            await until(connected(here))
            for n in range(5):
                await ann.publish("alarm", b"%d" % n, qos=1)
            await until(lambda: len(heard) == 5)
            assert direct(here, "a")["paths"]["b"]["sent"] == 1
            assert direct(here, "a")["refused"]["too often"] >= 4  # more if something is sent again

    run(main)
    assert heard == [b"%d" % n for n in range(5)]


def test_no_more_edges_are_sent_to_directly_than_may_be(tmp_path):
    heard = []

    async def main():
        none = {"overlay": {"direct": {"edges": 0}}}
        async with two_sites(tmp_path, a=none) as (here, _), here.client("a") as ann, here.client("b") as ben:
            await ben.subscribe("alarm", lambda topic, payload: heard.append(payload), properties=SOON)
            await until(lambda: direct(here, "a")["left_out"] == ["b"])
            await ann.publish("alarm", b"1")
            await until(lambda: heard == [b"1"])
            assert direct(here, "a")["refused"] == {"too many edges": 1}

    run(main)


def test_which_topics_go_directly_is_shown():
    hurried = {"alarm/+": Wish(qos=0, deadline_s=0.2)}
    status = Status(
        registry="memory://shown",
        state=TreeState.CONNECTED,
        edges={
            "a": KnownEdge(name="a", boot=1, locator="h:1", here=True, filters={}),
            "b": KnownEdge(name="b", boot=1, locator="h:2", here=True, filters=hurried),
        },
        routers={"r1": KnownRouter(name="r1", boot=1, locator="h:3", topics=1, load=Load())},
        topics={"alarm/1": TopicState(pub={"a": 1}), "log": TopicState(pub={"a": 1}, sub={"b": 1})},
        leader="r1",
        epoch=1,
        problems=(),
    )
    state = state_of(status)
    assert [state["edges"][name]["deadlines"] for name in "ab"] == [0, 1]
    assert state["topics"]["alarm/1"]["direct"] == ["b"]
    assert state["topics"]["log"]["direct"] == []
    lines = screen(status, now_s=0.0, width=100)
    assert [line.split(maxsplit=1)[1] for line in lines if "->" in line] == [
        "a -> r1 -> b, and directly to b",
        "a -> r1 -> b",
    ]
    assert any(line.endswith("here, 1 with a deadline") for line in lines)
