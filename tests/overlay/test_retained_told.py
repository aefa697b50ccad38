"""What is retained at one site is right at others, also if it has QoS 0 and lines and edges come and go."""

import asyncio
from time import monotonic

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from relays import relay
from sites import sites, stock, until

from firelane.exchange.journal.retained import ORIGIN
from firelane.overlay import edge as module
from firelane.overlay.local import seen
from firelane.overlay.local.seen import Seen
from firelane.overlay.messages.stamp import Stamp
from firelane.overlay.paths.path import Path

TOPICS = [f"t/{number}" for number in range(20)]


def kept(here, edge):
    """What an edge retains of the topics."""
    found = [here.exchanges[edge].broker.retained.get(topic.encode()) for topic in TOPICS]
    return [None if one is None else one.payload for one in found]


def by_way_of(monkeypatch, edge, routers):
    """An edge's lines to these routers go by way of relays."""

    def elsewhere(name, locator, *given, **options):
        return Path(name, routers.get(locator, locator) if name == edge else locator, *given, **options)

    monkeypatch.setattr(module, "Path", elsewhere)


def test_what_has_changed_while_an_edge_was_stopped_is_right_after_its_start(tmp_path):
    async def main():
        async with asyncio.timeout(60), sites(tmp_path, edges=("a", "c")) as here:
            with (
                stock(here, "c", "lasting-0", wants="t/#", qos=0, keep=True),
                stock(here, "c", "lasting-1", wants="+/1", qos=1, keep=True),
                stock(here, "a", "ann") as ann,
            ):
                await until(lambda: len(here.brokers["a"]._interest.wishes_of("c")) == 2)
                for payload in (b"old", b"new", b"newer"):
                    for topic in TOPICS:
                        ann.publish(topic, payload, retain=True)
                    if payload == b"old":
                        await until(lambda: kept(here, "c") == [b"old"] * len(TOPICS))
                    await here.stop("c")
                    await until(lambda expected=payload: kept(here, "a") == [expected] * len(TOPICS))
                    await here.start("edge", "c")
                    await until(lambda expected=payload: kept(here, "c") == [expected] * len(TOPICS))

    asyncio.run(main())


@pytest.mark.parametrize("broken", [True, False], ids=["broken", "slow"])
def test_a_line_that_is_broken_or_slow_while_a_client_subscribes_costs_nothing_that_is_retained(
    tmp_path, monkeypatch, broken
):
    async def main():
        heard = []
        async with asyncio.timeout(60), relay() as far, sites(tmp_path, edges=("a",), routers=("r1",)) as here:
            locator = here.brokers["r1"].locator
            far.before(locator)
            by_way_of(monkeypatch, "c", {locator: far.locator})
            await here.start("edge", "c")
            await here.joined()
            with stock(here, "a", "ann") as ann, stock(here, "c", "cleo", got=heard) as cleo:
                ann.publish("t/1", b"now", retain=True)
                await until(lambda: here.exchanges["a"].broker.retained.get(b"t/1") is not None)
                await asyncio.sleep(0.2)
                far.pause()
                if broken:
                    await far.close()
                cleo.subscribe("t/1")
                await asyncio.sleep(0.7)
                far.resume()
                await until(lambda: heard == [("t/1", b"now")])

    asyncio.run(main())


def test_an_edge_whose_line_takes_its_time_when_it_starts_is_told_what_is_retained(tmp_path, monkeypatch):
    async def main():
        heard = []
        async with asyncio.timeout(60), relay() as slow, sites(tmp_path, edges=("a",), routers=("r1",)) as here:
            locator = here.brokers["r1"].locator
            slow.before(locator)
            by_way_of(monkeypatch, "c", {locator: slow.locator})
            with stock(here, "a", "ann") as ann:
                ann.publish("t/1", b"now", retain=True)
                await until(lambda: here.exchanges["a"].broker.retained.get(b"t/1") is not None)
            slow.pause()
            await here.start("edge", "c")
            with stock(here, "c", "cleo", got=heard, wants="t/#"):
                await asyncio.sleep(0.5)
                slow.resume()
                await until(lambda: heard == [("t/1", b"now")])

    asyncio.run(main())


def test_what_is_retained_while_a_site_has_no_line_is_told_when_it_has_one(tmp_path, monkeypatch):
    async def main():
        async with asyncio.timeout(60), relay() as line, sites(tmp_path, edges=("c",), routers=("r1",)) as here:
            locator = here.brokers["r1"].locator
            line.before(locator)
            by_way_of(monkeypatch, "a", {locator: line.locator})
            await here.start("edge", "a")
            await here.joined()
            with stock(here, "c", "cleo", wants="t/#"), stock(here, "a", "ann") as ann:
                await until(lambda: bool(here.brokers["a"]._interest.of("t/1")))
                line.pause()
                await line.close()
                await until(lambda: not here.brokers["a"]._paths["r1"][0].connected)
                for topic in TOPICS:
                    ann.publish(topic, b"meanwhile", retain=True)
                await until(lambda: kept(here, "a") == [b"meanwhile"] * len(TOPICS))
                line.resume()
                await until(lambda: kept(here, "c") == [b"meanwhile"] * len(TOPICS))

    asyncio.run(main())


def test_of_what_two_sites_retain_a_start_brings_back_nothing_older(tmp_path):
    """Also if the site that retains the older one hears of the start last."""

    async def main():
        heard = []
        async with asyncio.timeout(60), sites(tmp_path, edges=("a", "b", "c"), routers=("r1",)) as here:
            with stock(here, "a", "cleo", got=heard, wants="t/1", qos=1, keep=True):
                await until(lambda: all(here.brokers[name]._interest.of("t/1") for name in "bc"))
                async with here.client("b") as ben, here.client("c") as cid:
                    await ben.publish("t/1", b"old", qos=1, retain=True)
                    await until(lambda: len(heard) == 1)
                    await cid.publish("t/1", b"new", qos=1, retain=True)
                    await until(lambda: len(heard) == 2)
            await until(lambda: not any(here.brokers[name].statistics()["kept"] for name in "bc"))
            await here.stop("a")
            here.brokers["b"]._learnt_at = monotonic() + 0.5
            await here.start("edge", "a")
            await here.joined()
            await asyncio.sleep(2.0)
            with stock(here, "a", "cleo", got=heard, keep=True):
                await asyncio.sleep(0.5)
            assert here.exchanges["a"].broker.retained.get(b"t/1").payload == b"new"
        assert heard == [("t/1", b"old"), ("t/1", b"new")]

    asyncio.run(main())


def told(number, first=0, boot=1, origin="b"):
    return Stamp(origin, boot, number, 0, 0, 1, True, first)


def test_what_was_known_before_a_start_is_what_was_written_down():
    first = Seen()
    first.read({})
    first.came(told(7))
    first.came(told(5))
    first.came(told(9, first=8))
    first.came(told(4, origin="c", boot=3))
    (mark,) = first.marks(10.0)
    assert first.marks(20.0) == []
    second = Seen()
    second.read({mark.topic.encode(): mark})
    assert [second.before(told(number)) for number in (7, 8, 9)] == [True, True, False]
    assert second.before(told(30, first=8))
    assert not second.before(told(1, boot=2))
    assert second.before(told(4, origin="c", boot=3))
    assert not second.before(told(4, origin="d"))


def test_it_is_written_once_a_second_at_most_and_bounded(monkeypatch):
    monkeypatch.setattr(seen, "MOST_SITES", 3)
    one = Seen()
    written = 0
    for tenth in range(1, 101):
        one.came(told(tenth, origin=f"e{tenth % 7}"))
        written += len(one.marks(100 + tenth / 10))
    assert written == 10
    assert len(one._now) == 3


def test_a_will_is_of_this_site_whatever_properties_it_has(tmp_path):
    async def main():
        heard = []
        properties = Properties(PacketTypes.WILLMESSAGE)
        properties.UserProperty = [(ORIGIN, "b 1f")]
        async with asyncio.timeout(40), sites(tmp_path, routers=("r1",)) as here:
            host, port = here.exchanges["a"].addresses["mqtt"].removeprefix("mqtt://").split(":")
            dies = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="dies", protocol=paho.MQTTv5)
            dies.will_set("t/1", b"gone", qos=1, retain=True, properties=properties)
            dies.connect(host, int(port))
            dies.loop_start()
            await until(dies.is_connected)
            dies._sock_close()
            dies.loop_stop()
            await until(lambda: here.exchanges["a"].broker.retained.get(b"t/1") is not None)
            with stock(here, "b", "ben", got=heard, wants="t/1", qos=1):
                await until(lambda: heard == [("t/1", b"gone")])
            await here.stop("a")
            await here.start("edge", "a")
            await here.joined()
            assert here.exchanges["a"].broker.retained.get(b"t/1") is not None

    asyncio.run(main())
