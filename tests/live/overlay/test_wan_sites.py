"""Stock clients at sites in networks of their own, joined by a WAN that delays and loses packets, find each other."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import contextmanager

import paho.mqtt.client as paho
import pytest

from live.overlay.cluster import cluster, until
from live.wan import wan

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

DELAY_S, LOSS = 0.02, 0.005  # of each crossing: a message from site to site takes two
PATIENCE_S = 30.0
LARGE_BYTES = 10_000


@pytest.fixture(scope="module", params=[1, 3], ids=["one ZooKeeper server", "three ZooKeeper servers"])
def joined(request, tmp_path_factory):
    """Three sites, and a cloud with routers and ZooKeeper."""
    with (
        wan("cloud", "a", "b", "c", delay_s=DELAY_S, loss=LOSS) as network,
        cluster(
            tmp_path_factory.mktemp("sites"), edges=("a", "b", "c"), servers=request.param, network=network
        ) as whole,
    ):
        yield whole


@contextmanager
def listening(whole, site, topic_filter, qos=1):
    """What a stock client at a site gets, once everybody knows what it wants."""
    edge, heard = whole[site], []
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.on_connect = lambda client, *_: client.subscribe(topic_filter, qos)
    client.on_message = lambda client, data, message: heard.append((message.topic, message.payload))
    with edge.place.inside():
        client.connect("127.0.0.1", edge.port)
    client.loop_start()
    try:
        until(lambda: whole.wanted(topic_filter, site))
        yield heard
    finally:
        client.disconnect()
        client.loop_stop()


@contextmanager
def publishing(whole, site):
    edge = whole[site]
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    with edge.place.inside():
        client.connect("127.0.0.1", edge.port)
    client.loop_start()
    until(client.is_connected)
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def tool(whole, site, name, *words):
    """One of mosquitto's tools at a site."""
    edge = whole[site]
    command = edge.place.command([name, "-h", "127.0.0.1", "-p", str(edge.port), *words])
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_clients_at_different_sites_find_each_other(joined, qos):
    topic = f"find/{qos}"
    with listening(joined, "b", topic, qos) as at_b, listening(joined, "c", topic, qos) as at_c:
        with publishing(joined, "a") as ann:
            for number in range(50):
                ann.publish(topic, str(number), qos)
            until(lambda: len(at_b) >= 50 and len(at_c) >= 50)
        time.sleep(0.2)  # for what might come twice
    assert at_b == at_c == [(topic, str(number).encode()) for number in range(50)]


def test_wildcards_reach_across_sites(joined):
    with (
        listening(joined, "b", "wild/+/smoke") as smoke,
        listening(joined, "b", "wild/#") as all_of_it,
        publishing(joined, "a") as ann,
        publishing(joined, "c") as cleo,
    ):
        ann.publish("wild/1/smoke", "a", 1)
        cleo.publish("wild/2/smoke", "c", 1)
        ann.publish("wild/1/heat", "a", 1)
        until(lambda: len(smoke) >= 2 and len(all_of_it) >= 3)
    assert sorted(smoke) == [("wild/1/smoke", b"a"), ("wild/2/smoke", b"c")]
    assert sorted(all_of_it) == [("wild/1/heat", b"a"), ("wild/1/smoke", b"a"), ("wild/2/smoke", b"c")]


def test_mosquittos_tools_find_each_other(joined):
    heard = []
    words = ("-t", "tools/#", "-q", "1", "-v", "-C", "3", "-W", str(round(PATIENCE_S)))
    waiting = threading.Thread(target=lambda: heard.extend(tool(joined, "b", "mosquitto_sub", *words).splitlines()))
    waiting.start()
    until(lambda: joined.wanted("tools/#", "b"))
    for site, qos in (("a", 1), ("c", 2), ("a", 0)):
        tool(joined, site, "mosquitto_pub", "-t", f"tools/{site}/{qos}", "-q", str(qos), "-m", "here")
    waiting.join()
    assert sorted(heard) == ["tools/a/0 here", "tools/a/1 here", "tools/c/2 here"]


def test_the_first_message_of_a_new_topic_is_not_lost(joined):
    """Also of QoS 0: it waits where it was published until it is known which router has the topic."""
    topics = [f"new/{number}" for number in range(100)]
    with listening(joined, "b", "new/#", 0) as heard, publishing(joined, "a") as ann:
        for topic in topics:
            ann.publish(topic, "first", 0)
        until(lambda: len(heard) >= len(topics))
    assert sorted(heard) == sorted((topic, b"first") for topic in topics)


def test_what_nobody_elsewhere_wants_stays_at_its_site(joined):
    """A megabyte that only this site wants leaves no trace on the WAN; the same, wanted elsewhere, is there."""
    place, payload = joined["a"].place, bytes(LARGE_BYTES)

    def crossed(topic, heard, ann):
        before = place.crossed_bytes()
        for _ in range(100):
            ann.publish(topic, payload, 1)
        until(lambda: len(heard) >= 100)
        time.sleep(0.5)
        return place.crossed_bytes() - before

    with publishing(joined, "a") as ann:
        with listening(joined, "a", "local/1") as at_a:
            at_home = crossed("local/1", at_a, ann)
        with listening(joined, "b", "local/2") as at_b:
            across = crossed("local/2", at_b, ann)
    assert at_home < 10 * LARGE_BYTES  # brokers say each other now and then that they live
    assert across > 100 * LARGE_BYTES
