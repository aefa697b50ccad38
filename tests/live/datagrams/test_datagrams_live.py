"""MQTT-SN over real UDP sockets to a real exchange: every QoS, loss, sleep, wills, restarts, floods."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from random import Random

import pytest

from firelane.client import Client, ClientError
from firelane.datagrams import DatagramClient
from firelane.mqtt.sn.encode import encode
from firelane.mqtt.sn.messages import (
    Acknowledged,
    Connect,
    Disconnect,
    Kind,
    PingRequest,
    Plain,
    Publish,
    Register,
    TopicKind,
    WillMessage,
    WillTopic,
)
from live.brokers import firelane
from live.datagrams.relay import losing
from live.datagrams.udp import Udp
from live.hard.ports import port_of
from live.hard.witness import MB, Witness
from live.lanes.served import Asked
from live.wire import Wire

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

PATIENCE_S = 30.0
SETTINGS = "{port: 0, predefined: {7: door/7}, retry: 100 ms, retries: 50}"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def exchange(tmp_path_factory):
    with firelane(tmp_path_factory.mktemp("exchange"), "--set", f"exchange.mqtt_sn={SETTINGS}") as broker:
        broker.sn = port_of(broker, "mqtt-sn")
        yield broker
        assert broker.process.poll() is None
        assert "Traceback" not in broker.output.read_text()


def a_client(port, **fields):
    fields.setdefault("retry_s", 0.2)
    fields.setdefault("retries", 50)
    return DatagramClient("127.0.0.1", port, **fields)


async def until(done) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not done():
            await asyncio.sleep(0.01)


# ---------------------------------------------------------------------------------------- both ways


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_messages_go_from_udp_to_tcp_and_back(exchange, qos):
    got, over_tcp = [], []
    async with a_client(exchange.sn) as sensor, Client(f"mqtt://127.0.0.1:{exchange.port}") as client:
        await client.subscribe("up/#", lambda topic, payload: over_tcp.append((topic, payload)), qos=1)
        await sensor.subscribe("down/#", lambda topic, payload: got.append((topic, payload)), qos=qos)
        for number in range(20):
            await sensor.publish(f"up/{number % 3}", b"%d" % number, qos=qos)
            await client.publish(f"down/{number % 3}", b"%d" % number, qos=min(qos, 1))
        await until(lambda: len(got) == len(over_tcp) == 20)
    assert sorted(got) == sorted((f"down/{n % 3}", b"%d" % n) for n in range(20))
    assert over_tcp == [(f"up/{n % 3}", b"%d" % n) for n in range(20)]


async def test_between_two_clients_on_udp_the_largest_message_goes_through(exchange):
    got = []
    async with a_client(exchange.sn) as one, a_client(exchange.sn) as other:
        await other.subscribe("large", lambda topic, payload: got.append(payload), qos=1)
        await one.publish("large", bytes(one.most_bytes), qos=1)
        with pytest.raises(ClientError, match="does not fit a datagram"):
            await one.publish("large", bytes(one.most_bytes + 1))
        await until(lambda: got)
    assert [len(payload) for payload in got] == [1391]


async def test_predefined_and_short_topics_and_qos_minus_1(exchange):
    got = []
    async with (
        a_client(exchange.sn, predefined={7: "door/7"}) as one,
        a_client(exchange.sn, predefined={7: "door/7"}, enter=False) as stranger,
    ):
        for topic in ("door/7", "ab"):
            await one.subscribe(topic, lambda topic, payload: got.append((topic, payload)))
        await one.publish("door/7", b"1")
        await until(lambda: len(got) == 1)
        await stranger.publish("door/7", b"2", qos=-1)
        await until(lambda: len(got) == 2)
        await stranger.publish("ab", b"3", qos=-1)
        await until(lambda: len(got) == 3)
        with pytest.raises(ClientError, match="QoS -1"):
            await stranger.publish("long/name", b"", qos=-1)
    assert got == [("door/7", b"1"), ("door/7", b"2"), ("ab", b"3")]


async def test_retained_messages_come_to_a_wildcard(exchange):
    got = {}
    async with a_client(exchange.sn) as one:
        for number in range(30):
            await one.publish(f"kept/{number}", b"%d" % number, qos=1, retain=True)
        await one.subscribe("kept/+", got.__setitem__)
        await until(lambda: len(got) == 30)
        await one.unsubscribe("kept/+")
        for number in range(30):
            await one.publish(f"kept/{number}", b"", qos=1, retain=True)
    assert got == {f"kept/{number}": b"%d" % number for number in range(30)}


async def test_a_subscription_ends_and_what_is_refused_says_why(exchange):
    got = []
    async with a_client(exchange.sn) as one:
        await one.subscribe("ends", lambda topic, payload: got.append(payload))
        await one.publish("ends", b"1", qos=1)
        await until(lambda: got)
        await one.unsubscribe("ends")
        await one.publish("ends", b"2", qos=1)
        with pytest.raises(ClientError, match="no properties"):
            await one.subscribe("a", print, properties=(("tolerance", "0.5"),))
        with pytest.raises(ClientError, match=r"refuses subscribing to \$need/unknown/a"):
            await one.subscribe("$need/unknown/a", print)
        with pytest.raises(ClientError, match="cannot be subscribed to"):
            await one.subscribe("a#", print)
        with pytest.raises(ClientError, match="nothing can be published"):
            await one.publish("a/#", b"")
        with pytest.raises(ClientError, match="does not fit a datagram"):
            await one.publish("t" * 2000, b"")
        with pytest.raises(ClientError, match=r"refuses registering .*: it is not allowed"):
            await one.publish("/" * 250, b"")
    assert got == [b"1"]


async def test_clients_and_datagrams_are_shown_to_operators(exchange):
    async with a_client(exchange.sn, client_id="shown") as one:
        await one.publish("ab", b"1", qos=1)
        with Udp(exchange.sn) as stranger:
            stranger.socket.send(b"nonsense")
        asked = Asked(exchange.http_port)
        (client,) = [row for row in asked.get("/api/v1/clients")["items"] if row["client_id"] == "shown"]
        assert client["protocol"] == "sn-1.2"
        with urllib.request.urlopen(f"http://127.0.0.1:{exchange.http_port}/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
    found = {
        name: float(value) for name, value in re.findall(r"^firelane_(\w+(?:{.*})?) (\S+)$", metrics, re.MULTILINE)
    }
    assert found['connected_clients{protocol="sn-1.2"}'] >= 1
    assert found['datagrams_total{direction="in"}'] >= 3
    assert found['datagrams_total{direction="out"}'] >= 2
    assert found['datagrams_unused_total{reason="malformed"}'] >= 1


async def test_where_nobody_listens_that_is_said_in_a_line(exchange):
    with pytest.raises(ClientError, match="nobody answers MQTT-SN at"):
        async with DatagramClient("127.0.0.1", 9, retry_s=0.05, retries=1):
            pass


# ---------------------------------------------------------------------------------------- loss


@pytest.mark.parametrize("qos", [1, 2])
async def test_with_three_in_ten_lost_each_way_what_must_arrive_does(exchange, qos):
    """QoS 1: at least once and in order; QoS 2: exactly once. Both hops lose, registration and subscription too."""
    got, count = [], 25
    async with (
        losing(exchange.sn, 0.3, seed=qos) as relay,
        a_client(relay.port, retry_s=0.05) as one,
        a_client(relay.port, retry_s=0.05) as other,
    ):
        await other.subscribe(f"lossy{qos}/#", lambda topic, payload: got.append((topic, payload)), qos=qos)
        for number in range(count):
            await one.publish(f"lossy{qos}/{number % 5}", b"%d" % number, qos=qos)
        await until(lambda: len(set(got)) == count)
        await asyncio.sleep(0.5)  # for what is sent again
        assert relay.lost > 0.2 * relay.passed
    sent = [(f"lossy{qos}/{number % 5}", b"%d" % number) for number in range(count)]
    assert list(dict.fromkeys(got)) == sent
    if qos == 2:
        assert got == sent


async def test_at_qos_0_the_share_that_is_lost_is_lost_and_no_more(exchange):
    """Each message passes two hops of which each loses a fifth: 64 % arrive, here within four standard deviations."""
    got, count = [], 2000
    async with (
        losing(exchange.sn, 0.0, seed=3) as relay,
        a_client(relay.port) as one,
        a_client(relay.port) as other,
    ):
        await other.subscribe("many", lambda topic, payload: got.append(payload))
        await one.publish("many", b"first", qos=1)
        await until(lambda: got)
        relay.loss = 0.2
        for number in range(count):
            await one.publish("many", b"%d" % number)
            if number % 20 == 0:
                await asyncio.sleep(0.002)  # or the kernel would lose some too
        await asyncio.sleep(0.5)
        relay.loss = 0.0
        await one.publish("many", b"last", qos=1)
        await until(lambda: got[-1] == b"last")
    arrived = len(got) - 2
    assert abs(arrived - 0.64 * count) < 4 * (0.64 * 0.36 * count) ** 0.5
    assert len(set(got)) == len(got)


async def test_a_client_that_was_cut_off_enters_again_and_gets_what_it_subscribed_to(exchange):
    got, told = [], []
    async with (
        losing(exchange.sn, 0.0, seed=4) as relay,
        a_client(relay.port, keep_alive_s=2, retry_s=0.1, retries=3, tell=told.append) as one,
        a_client(exchange.sn) as other,
    ):
        await one.subscribe("cut/#", lambda topic, payload: got.append(payload), qos=1)
        relay.loss = 1.0
        await until(lambda: not one.connected)
        await one.publish("cut/off", b"0")
        assert one.dropped == 1
        await asyncio.sleep(3)  # for the exchange to notice too
        relay.loss = 0.0
        await until(lambda: one.connected)
        await other.publish("cut/on", b"1", qos=1)
        await until(lambda: got)
    assert got == [b"1"]
    assert "is lost; connecting again" in told[0]


# ---------------------------------------------------------------------------------------- sleep and wills


def test_a_sleeping_client_is_sent_what_waits_when_it_asks(exchange):
    with Udp(exchange.sn) as sleeper, Wire(exchange.port) as wire:
        wire.connect()
        assert sleeper.connect("sleeper", duration_s=60) == 0
        number = sleeper.subscribe("night/1", qos=1).topic_id
        sleeper.subscribe("night/+", qos=1)
        sleeper.say(Disconnect(duration_s=60))
        assert sleeper.expect(Disconnect) == Disconnect()
        for payload, qos in ((b"1", 0), (b"2", 1)):
            wire.publish("night/1", payload, qos=qos)
        wire.publish("night/2", b"3", qos=1)
        sleeper.expect_nothing(0.5)
        sleeper.say(PingRequest(client_id="sleeper"))
        got = []
        while len(got) < 3:
            one = sleeper.expect((Publish, Register))
            if isinstance(one, Register):
                number_2 = one.topic_id
                sleeper.say(Acknowledged(kind=Kind.REGACK, topic_id=number_2, message_id=one.message_id))
            elif one.payload not in [payload for _, payload in got]:  # or sent again, as this machine was busy
                got.append((one.topic, one.payload))
            if isinstance(one, Publish) and one.qos:
                sleeper.say(Acknowledged(kind=Kind.PUBACK, topic_id=one.topic, message_id=one.message_id))
        assert sleeper.expect(Plain) == Plain(kind=Kind.PINGRESP)
        assert sorted(got) == sorted([(number, b"1"), (number, b"2"), (number_2, b"3")])
        wire.publish("night/1", b"4", qos=1)
        sleeper.expect_nothing(0.5)


def test_the_will_of_a_client_that_falls_silent_is_sent(exchange):
    with Udp(exchange.sn) as lost, Wire(exchange.port) as wire:
        wire.connect()
        wire.subscribe("gone/+")
        lost.say(Connect(client_id="lost", duration_s=1, will=True))
        lost.expect(Plain)
        lost.say(WillTopic(kind=Kind.WILLTOPIC, topic="gone/lost"))
        lost.expect(Plain)
        lost.say(WillMessage(kind=Kind.WILLMSG, payload=b"no more"))
        started = time.monotonic()
        assert wire.take().payload == b"no more"
        assert time.monotonic() - started > 1.0


# ---------------------------------------------------------------------------------------- restarts and floods


async def test_after_a_crash_clients_enter_again_and_nothing_acknowledged_is_lost(tmp_path):
    with firelane(tmp_path, "--set", "exchange.mqtt_sn={port: 0, retry: 100 ms}") as broker:
        port, got, count = port_of(broker, "mqtt-sn"), [], 60
        broker.serve_args = ("--set", f"exchange.mqtt_sn={{port: {port}, retry: 100 ms}}")
        quick = {"retry_s": 0.1, "retries": 5, "keep_alive_s": 2}
        async with (
            a_client(port, client_id="taker", clean_session=False, **quick) as taker,
            a_client(port, client_id="giver", **quick) as giver,
        ):
            await taker.subscribe("safe/#", lambda topic, payload: got.append(payload), qos=1)
            for number in range(count):
                await giver.publish("safe/1", b"%d" % number, qos=1)
                if number == count // 2:
                    await asyncio.to_thread(broker.kill)
                    await asyncio.to_thread(broker.start)
            await until(lambda: len(set(got)) == count)
    assert sorted(set(got), key=int) == [b"%d" % number for number in range(count)]


def test_a_flood_of_garbage_and_of_spoofed_introductions_harms_nobody(tmp_path):
    """From many source ports; the witness is served meanwhile, and the exchange takes no more than its bounds."""
    wanted = ("mqtt_sn={port: 0, clients: 100, topics: 20}", "telemetry.files=false")
    settings = [argument for one in wanted for argument in ("--set", f"exchange.{one}")]
    with firelane(tmp_path, *settings) as broker, Witness(broker) as witness:
        port, random = port_of(broker, "mqtt-sn"), Random(5)
        witness.wait(5)
        sockets = [Udp(port) for _ in range(500)]
        try:
            deadline, sent = time.monotonic() + 4.0, 0
            while time.monotonic() < deadline:
                for one in random.sample(sockets, 50):
                    for datagram in _abuse(random):
                        one.socket.send(datagram)
                        sent += 1
                time.sleep(0.005)
            witness.wait(10)
            assert witness.grown_bytes < 40 * MB
            print(f"\n{sent} datagrams")
        finally:
            for one in sockets:
                one.socket.close()
        assert broker.process.poll() is None
        assert "Traceback" not in broker.output.read_text()


def _abuse(random):
    yield random.randbytes(random.randrange(0, 60))
    yield bytes((12,)) + random.randbytes(11)
    yield encode(Connect(client_id=f"c{random.randrange(10**6)}", will=random.random() < 0.5))
    yield encode(Register(topic_id=0, message_id=random.randrange(65_536), topic="t" * random.randrange(1, 1000)))
    yield encode(Publish(topic="ab", topic_kind=TopicKind.SHORT, payload=bytes(500), qos=random.randrange(-1, 3),
                         message_id=random.randrange(65_536)))  # fmt: skip
