"""An edge's own exchange as the overlay uses it: what a crash leaves behind, and what clients may write."""

import asyncio

from sites import until

from firelane.client import Client
from firelane.exchange.connecting import OVERLAY
from firelane.exchange.inside import Inside
from firelane.exchange.retained import OVERLAY_HAD
from firelane.exchange.run import running
from firelane.mqtt.packets import Publish
from firelane.overlay.actions import Deliver
from firelane.overlay.interest import Wish
from firelane.overlay.local import Local
from firelane.overlay.stamp import NAME, Stamp, stamped, taken_off
from firelane.scenario.load import from_data


def exchange(tmp_path, **settings):
    scenario = from_data({"name": "local", "exchange": {"anonymous": "always", "system_interval": 0, **settings}})
    return running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=tmp_path, tell=lambda line: None)


def message(number, qos=2, topic="t", retain=False):
    return Deliver(topic, b"%d" % number, {}, Stamp("far", 1, number, 0, 0, qos, retain))


def test_what_a_crash_left_between_the_steps_of_qos_2_does_not_swallow_what_comes_next(tmp_path):
    """Its identifiers are in use until they are released, so nothing new may go under them."""
    heard, safe = [], []

    async def main():
        async with asyncio.timeout(20), exchange(tmp_path) as served, Client(served.addresses["mqtt"]) as ben:
            await ben.subscribe("t", lambda topic, payload: heard.append(int(payload)), qos=1)
            former = Inside(served.server, OVERLAY, lambda packet: None)
            former.enter()
            former.say(*(Publish(topic="t", payload=b"%d" % n, qos=2, packet_id=n) for n in (1, 2, 3)))
            await until(lambda: len(heard) == 3)
            former.leave()  # without PUBREL
            local = Local(served, got=lambda copy: None, safe=lambda origin, number: safe.append(number))
            local.enter()
            await asyncio.sleep(0.1)
            for number in range(10, 20):
                local.deliver(message(number))
            await until(lambda: len(safe) == 10)
            local.leave()

    asyncio.run(main())
    assert heard == [1, 2, 3, *range(10, 20)]
    assert sorted(safe) == list(range(10, 20))


def test_limits_of_clients_do_not_end_it(tmp_path):
    heard, safe = [], []

    async def main():
        limits = {"inflight": 5, "packet": "1 kB", "publish_rate": 5}
        async with asyncio.timeout(20), exchange(tmp_path, limits=limits, keep_alive="1 s") as served:
            local = Local(served, got=heard.append, safe=lambda origin, number: safe.append(number))
            local.enter()
            for number in range(1, 50):
                local.deliver(message(number))
            big = Deliver("t", bytes(5000), {}, Stamp("far", 1, 50, 49, 0, 2))
            local.deliver(big)
            await until(lambda: len(safe) == 50)
            await asyncio.sleep(2.0)  # longer than it may be silent
            local.deliver(message(51))
            await until(lambda: len(safe) == 51)
            local.leave()

    asyncio.run(main())


def test_what_has_come_is_not_marked_before_it_is_taken_in(tmp_path):
    """While the log takes nothing more a message waits, and what is written down of it with it."""
    safe, heard = [], []

    async def main():
        async with asyncio.timeout(20), exchange(tmp_path) as served:
            local = Local(served, got=lambda copy: None, safe=lambda origin, number: safe.append(number))
            local.enter()
            async with Client(served.addresses["mqtt"]) as ben:
                await ben.subscribe("t", lambda topic, payload: heard.append(payload), qos=1)
                marks = f"{OVERLAY_HAD}#"
                journal = served.broker.journal
                journal.__class__ = type("Full", (type(journal),), {"__slots__": (), "refusing": True})
                local.deliver(message(1))
                await asyncio.sleep(0.1)
                assert (safe, heard, list(served.broker.retained.matching(marks))) == ([], [], [])
                journal.__class__ = type(journal).__base__
                await until(lambda: safe == [1])
                assert len(list(served.broker.retained.matching(marks))) == 1
            local.leave()

    asyncio.run(main())


def test_retained_messages_of_other_edges_are_not_sent_out_as_its_own(tmp_path):
    got = []

    async def main():
        async with asyncio.timeout(20), exchange(tmp_path) as served, Client(served.addresses["mqtt"]) as ann:
            local = Local(served, got=got.append, safe=lambda origin, number: None)
            local.enter()
            local.deliver(message(1, topic="state/far", retain=True))
            await ann.publish("state/near", b"own", qos=1, retain=True)
            local.want({"state/#": Wish(qos=1)}, {"state/#"})
            await until(lambda: got)
            await asyncio.sleep(0.2)
            local.leave()

    asyncio.run(main())
    assert [copy.topic for copy in got] == ["state/near"]


def test_a_clients_own_property_is_not_taken_for_a_stamp():
    stamp = Stamp("a", 1, 2, 0, 0, 1)
    properties = stamped({"user_property": [(NAME, "nonsense"), ("x", "y")]}, stamp)
    assert taken_off(properties) == (stamp, {"user_property": [("x", "y")]})
