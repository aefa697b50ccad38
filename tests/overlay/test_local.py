"""An edge's own exchange as the overlay uses it: what a crash leaves behind, and what clients may write."""

import asyncio

import pytest
from sites import until

from firelane.client import Client
from firelane.exchange.journal.retained import ORIGIN, OVERLAY_HAD
from firelane.exchange.lanes.message import Message
from firelane.exchange.protocol.connecting import OVERLAY
from firelane.exchange.run import running
from firelane.exchange.sockets.inside import Inside
from firelane.mqtt.packets import Publish
from firelane.overlay.local.local import Local, _parted
from firelane.overlay.local.wanting import Wanting
from firelane.overlay.messages.actions import Deliver
from firelane.overlay.messages.stamp import NAME, Stamp, stamped, taken_off
from firelane.overlay.registry import Wish
from firelane.scenario.load import from_data


def exchange(tmp_path, **settings):
    scenario = from_data({"name": "local", "exchange": {"anonymous": "always", "system_interval": 0, **settings}})
    return running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=tmp_path, tell=lambda line: None)


def wanted(*filters):
    found = Wanting()
    found.update({one: Wish(qos=1) for one in filters})
    return found


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
            local = Local(served, got=lambda copy: None, safe=lambda stamp: safe.append(stamp.number))
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
            local = Local(served, got=heard.append, safe=lambda stamp: safe.append(stamp.number))
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
            local = Local(served, got=lambda copy: None, safe=lambda stamp: safe.append(stamp.number))
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
            local = Local(served, got=got.append, wanting=wanted("#"), safe=lambda stamp: None)
            local.enter()
            local.deliver(message(1, topic="state/far", retain=True))
            assert served.broker.retained.get(b"state/far") is not None
            await ann.publish("state/near", b"own", qos=1, retain=True)
            local.want({"state/#": Wish(qos=1)}, {"state/#"})
            await until(lambda: got)
            await asyncio.sleep(0.2)
            local.leave()

    asyncio.run(main())
    assert [copy.topic for copy in got] == ["state/near"]


@pytest.mark.parametrize("lately", [False, True])
def test_what_is_retained_elsewhere_and_nobody_wants_is_not_kept_here(tmp_path, lately):
    """But if somebody wanted it at the last look: who comes back before the next one is not told again."""
    safe = []

    async def main():
        async with asyncio.timeout(20), exchange(tmp_path) as served:
            local = Local(served, got=print, wanting=wanted("#" if lately else "other"), safe=safe.append)
            local.enter()
            local.deliver(message(1, topic="state/far", retain=True))
            await until(lambda: safe)
            assert (served.broker.retained.get(b"state/far") is not None) is lately
            local.leave()

    asyncio.run(main())


def test_what_is_told_again_is_known_to_be_after_a_restart(tmp_path):
    """It waits in the log for another edge, and must not seem new to those that have had it."""
    got = []

    async def main():
        async with asyncio.timeout(20):
            async with exchange(tmp_path) as served, Client(served.addresses["mqtt"]) as ann:
                await ann.publish("state/near", b"own", qos=1, retain=True)
                await run_until_told(served, got)
            async with exchange(tmp_path) as served:
                await run_until_told(served, got)

    asyncio.run(main())
    numbers = {copy.first or copy.number for copy in got}
    assert len(got) >= 2
    assert len(numbers) == 1


async def run_until_told(served, got):
    """An edge's own side of its exchange, as others want all of it; nobody acknowledges."""
    before, local = len(got), Local(served, got=got.append, safe=lambda stamp: None)
    local.enter()
    local.want({"state/#": Wish(qos=1)}, set())
    await until(lambda: len(got) > before)
    await asyncio.sleep(0.2)
    local.leave()


def test_a_clients_own_property_is_not_taken_for_a_stamp():
    stamp = Stamp("a", 1, 2, 0, 0, 1)
    properties = stamped({"user_property": [(NAME, "nonsense"), ("x", "y")]}, stamp)
    assert taken_off(properties) == (stamp, {"user_property": [("x", "y")]})


def test_retained_messages_that_are_told_again_wait_for_an_identifier_and_are_kept(tmp_path):
    """As many as are told at once when somebody begins to want everything of several sites."""
    safe = []

    async def main():
        async with asyncio.timeout(20), exchange(tmp_path) as served:
            local = Local(
                served, got=lambda copy: None, wanting=wanted("#"), safe=lambda stamp: safe.append(stamp.number)
            )
            local.enter()
            del local._free[5:]
            for number in range(1, 21):
                local.deliver(
                    Deliver(f"state/{number}", b"x", {}, Stamp("far", 1, 100 + number, 0, 0, 1, True, number))
                )
            await until(lambda: len(safe) == 20)
            assert all(served.broker.retained.get(b"state/%d" % number) for number in range(1, 21))
            local.leave()

    asyncio.run(main())


def test_what_is_wanted_elsewhere_is_asked_for_in_portions(tmp_path):
    """Fifty thousand filters at once would hold up everybody for seconds."""

    async def main():
        async with asyncio.timeout(30), exchange(tmp_path) as served:
            local = Local(served, got=print, safe=print)
            local.enter()
            held = local._inside.session.subscriptions
            filters = {f"far/{number}": Wish(qos=1) for number in range(4000)}
            local.want(filters, set(filters))
            assert 0 < len(held) <= 500
            most = 0
            while len(held) < len(filters):
                before = len(held)
                local.ask_on()
                most = max(most, len(held) - before)
            assert most <= 500
            local.want({}, set())
            while held:
                local.ask_on()
            local.leave()

    asyncio.run(main())


@pytest.mark.parametrize("said", ["x y z", "far 1f z", "far ", "", "far 1 2 3"])
def test_what_cannot_be_read_of_where_a_message_is_from_is_of_this_site(said):
    message = Message(b"t", b"x", 1, True, None, 1)
    message.take_properties({"user_property": [(ORIGIN, said)]}, 0.0)
    assert _parted(message) == ("", 0, None)


def test_whether_all_that_is_retained_was_told_is_known(tmp_path):
    got = []

    async def main():
        async with asyncio.timeout(20), exchange(tmp_path) as served, Client(served.addresses["mqtt"]) as ann:
            for number in range(50):
                await ann.publish(f"state/{number}", b"own", qos=1, retain=True)
            local = Local(served, got=got.append, safe=print)
            local.enter()
            local.hold(True)  # else it would be told at once
            filters = {"state/#": Wish(qos=1)} | {f"far/{number}": Wish(qos=1) for number in range(600)}
            local.want(filters, set(filters))
            assert local._unsaid
            assert not local.has_told("far/599")  # it is not asked for yet
            local.ask_on()
            assert not local.has_told("state/#")
            local.hold(False)
            await until(lambda: local.has_told("state/#") and local.has_told("far/599"))
            await asyncio.sleep(0)
            assert len(got) == 50
            local.leave()

    asyncio.run(main())
