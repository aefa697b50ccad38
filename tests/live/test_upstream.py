"""The bridge to an existing broker, tried with Debian's mosquitto: both ways, no loops, nothing lost over a restart."""

from __future__ import annotations

import time

import pytest

from firelane.mqtt.packets import V3, V5
from live.brokers import firelane, mosquitto
from live.wire import Wire

pytestmark = pytest.mark.slow


def bridge(port: int, more: str = "") -> list[str]:
    upstream = f'{{host: 127.0.0.1, port: {port}, in: ["#"], out: ["alerts/#"]{more}}}'
    return ["--set", f"exchange.upstream={upstream}"]


@pytest.fixture
def joined(tmp_path):
    """A mosquitto that keeps its data when it is stopped in order, and an exchange below it."""
    (tmp_path / "up").mkdir()
    (tmp_path / "site").mkdir()
    with mosquitto(tmp_path / "up", persistence=True) as up, firelane(tmp_path / "site", *bridge(up.port)) as site:
        wait_for_line(site, "connected")
        yield up, site


def wait_for_line(site, words: str, times: int = 1) -> None:
    deadline = time.monotonic() + 30
    while site.output.read_text().count(words) < times:
        assert time.monotonic() < deadline, f"never said {words!r}: {site.output.read_text()}"
        time.sleep(0.02)


def member(port: int, topic_filter: str = "#", version: int = V5, **fields) -> Wire:
    wire = Wire(port, version)
    wire.connect(**fields)
    wire.subscribe(topic_filter, qos=2)
    return wire


def heard(wire: Wire, count: int) -> list[tuple[str, bytes, int]]:
    """The next messages, acknowledged."""
    return [(one.topic, one.payload, one.qos) for one in (wire.take() for _ in range(count))]


def test_messages_cross_both_ways_with_their_qos_and_nothing_comes_back(joined):
    up, site = joined
    with member(up.port) as above, member(site.port) as below, Wire(up.port) as high, Wire(site.port) as low:
        high.connect()
        low.connect()
        for qos in (0, 1, 2):
            high.publish(f"down/{qos}", b"d", qos=qos)
            low.publish(f"alerts/{qos}", b"a", qos=qos)
            high.publish(f"alerts/own/{qos}", b"x", qos=qos)  # matches in and out
        low.publish("private", b"p", qos=1)
        down = [(f"down/{qos}", b"d", qos) for qos in (0, 1, 2)]
        alerts = [(f"alerts/{qos}", b"a", qos) for qos in (0, 1, 2)]
        own = [(f"alerts/own/{qos}", b"x", qos) for qos in (0, 1, 2)]
        assert sorted(heard(below, 10)) == sorted([*down, *alerts, *own, ("private", b"p", 1)])
        assert sorted(heard(above, 9)) == sorted([*down, *alerts, *own])
        above.expect_nothing(0.3)
        below.expect_nothing(0.3)


def test_the_retain_flag_crosses_and_what_was_retained_before_too(joined):
    up, site = joined
    with Wire(up.port) as high, Wire(site.port) as low:
        high.connect()
        low.connect()
        high.publish("state/high", b"1", qos=1, retain=True)
        low.publish("alerts/low", b"2", qos=1, retain=True)
        time.sleep(0.5)
    with member(site.port, "state/#") as below, member(up.port, "alerts/#") as above:
        assert below.take().retain
        assert above.take().retain


def test_nothing_of_qos_1_is_lost_while_the_broker_upstream_restarts(joined):
    up, site = joined
    with Wire(up.port) as wire:  # durable subscriber upstream
        wire.connect("keeper", clean_start=False, properties={"session_expiry_interval": 1000})
        wire.subscribe("alerts/#", qos=1)
    with Wire(site.port) as wire:
        wire.connect("below", clean_start=False, properties={"session_expiry_interval": 1000})
        wire.subscribe("down/#", qos=1)
    with Wire(site.port) as low:
        low.connect()
        for number in range(20):
            low.publish("alerts/n", b"%d" % number, qos=1)
        up.stop()
        for number in range(20, 60):
            low.publish("alerts/n", b"%d" % number, qos=1)
        up.start()
        wait_for_line(site, "connected", times=2)
        for number in range(60, 80):
            low.publish("alerts/n", b"%d" % number, qos=1)
    with Wire(up.port) as high:
        high.connect()
        for number in range(20):
            high.publish("down/n", b"%d" % number, qos=1)
    with Wire(up.port) as keeper:
        keeper.connect("keeper", clean_start=False, properties={"session_expiry_interval": 1000})
        seen = [payload for _, payload, _ in heard(keeper, 80)]
        assert list(dict.fromkeys(seen)) == [b"%d" % number for number in range(80)]
    with Wire(site.port) as below:
        below.connect("below", clean_start=False, properties={"session_expiry_interval": 1000})
        assert {payload for _, payload, _ in heard(below, 20)} == {b"%d" % number for number in range(20)}


def test_a_killed_exchange_sends_up_what_it_had_acknowledged(joined):
    up, site = joined
    up.stop()
    with Wire(site.port) as low:
        low.connect()
        for number in range(30):
            low.publish("alerts/k", b"%d" % number, qos=1)
    site.kill()
    up.start()
    with member(up.port, "alerts/#") as above:
        site.start()
        seen = {payload for _, payload, _ in heard(above, 30)}
        assert seen == {b"%d" % number for number in range(30)}


def test_no_client_can_take_the_bridges_session(joined):
    _, site = joined
    for version in (V3, V5):
        with Wire(site.port, version) as thief:
            assert thief.connect("$upstream", clean_start=False).reason in (2, 0x85)


def test_two_exchanges_can_be_joined(tmp_path):
    (tmp_path / "up").mkdir()
    (tmp_path / "site").mkdir()
    with firelane(tmp_path / "up") as up, firelane(tmp_path / "site", *bridge(up.port)) as site:
        wait_for_line(site, "connected")
        with member(up.port) as above, member(site.port) as below, Wire(site.port) as low, Wire(up.port) as high:
            low.connect()
            high.connect()
            low.publish("alerts/a", b"a", qos=2)
            assert heard(above, 1) == [("alerts/a", b"a", 2)]
            high.publish("b", b"b", qos=1)
            assert set(heard(below, 2)) == {("alerts/a", b"a", 2), ("b", b"b", 1)}
            below.expect_nothing(0.3)
            above.waiting.clear()


def test_a_broker_that_cannot_be_had_is_told_once(tmp_path):
    with firelane(tmp_path, *bridge(1)) as site:
        wait_for_line(site, "upstream 127.0.0.1:1")
        time.sleep(2)
        assert site.output.read_text().count("upstream") == 1
