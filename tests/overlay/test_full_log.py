"""An edge whose log is full goes on: nothing comes twice for it, and what makes room is still heard."""

import asyncio
from contextlib import asynccontextmanager

import paho.mqtt.client as paho
import pytest
from sites import until

from firelane.client import Client
from firelane.exchange.journal.retained import OVERLAY_NUMBERS
from firelane.exchange.run import running
from firelane.overlay.local.local import MOST_WAITING_BYTES, Local
from firelane.overlay.messages.actions import Acknowledge, Deliver
from firelane.overlay.messages.receiving import Receiving
from firelane.overlay.messages.stamp import Stamp
from firelane.overlay.registry import Wish
from firelane.scenario.load import from_data

HOST = "127.0.0.1"
SIZE = 20_000


@asynccontextmanager
async def edge(folder, log, **callbacks):
    """An exchange with a small log, and the overlay inside it."""
    settings = {"anonymous": "always", "system_interval": 0, "limits": {"log": log}}
    scenario = from_data({"name": "edge", "exchange": settings})
    said = {"got": lambda copy: None, "safe": lambda stamp: None, **callbacks}
    async with (
        asyncio.timeout(60),
        running(scenario, host=HOST, mqtt_port=0, data_dir=folder, tell=lambda _: None) as served,
    ):
        yield served, Local(served, **said)


async def fill(served, topic):
    """Publish until the log takes no more."""
    async with Client(served.addresses["mqtt"]) as ann:
        while not served.broker.journal.refusing:
            await ann.publish(topic, bytes(SIZE), qos=1)


async def ben_has_gone(served):
    """A client that wants `t` and is away: what is published there stays in the log."""
    host, port = served.addresses["mqtt"].removeprefix("mqtt://").split(":")
    answered = []
    ben = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="ben", clean_session=False)
    ben.on_connect = lambda client, *_: client.subscribe("t", 1)
    ben.on_subscribe = lambda *_: answered.append(True)
    ben.connect(host, int(port))
    ben.loop_start()
    await until(lambda: answered)
    ben.disconnect()
    ben.loop_stop()


def message(number, topic="t", qos=1, size=SIZE, retain=False):
    return Deliver(topic, bytes(size), {}, Stamp("far", 1, number, number - 1 if qos else 0, 0, qos, retain))


def numbers_mark(served):
    kept = served.broker.retained.get(OVERLAY_NUMBERS.encode())
    return kept and kept.payload


def test_starts_with_a_full_log_do_not_begin_to_number_anew(tmp_path):
    """What is owed is sent again; under another boot it would be taken for something new."""
    boots = []

    async def main():
        for start in range(4):
            async with edge(tmp_path, "1 MB") as (served, local):
                local.enter()
                boots.append(local.boot)
                await until(lambda: numbers_mark(served))
                if not start:
                    await ben_has_gone(served)
                    await fill(served, "t")
                assert served.broker.journal.refusing
                local.leave()

    asyncio.run(main())
    assert len(set(boots)) == 1


def test_of_qos_2_is_known_what_came_though_the_log_was_full_then(tmp_path):
    safe = []

    async def main():
        async with edge(tmp_path, "1 MB", safe=lambda stamp: safe.append(stamp.number)) as (served, local):
            local.enter()
            await ben_has_gone(served)
            for number in range(1, 100):
                local.deliver(message(number, qos=2))
                await asyncio.sleep(0.01)
            await until(lambda: safe and len(local._unsafe) + len(local._waiting) == 99 - len(safe))
            assert 10 < len(safe) < 90
            local._inside.leave()  # nothing more is said, as after a crash
        async with edge(tmp_path, "1 MB") as (_, local):
            assert local.enter() == {("far", "t"): (safe[-1], 1)}
            local.leave()

    asyncio.run(main())


@pytest.mark.parametrize(("count", "size"), [(40, SIZE), (150, SIZE), (2, 2_000_000)], ids=["few", "many", "large"])
def test_acknowledgements_of_others_make_room_whatever_comes_meanwhile(tmp_path, count, size):
    safe, copies = [], []

    async def main():
        async with edge(tmp_path, "6 MB", got=copies.append, safe=lambda s: safe.append(s.number)) as (served, local):
            local.enter()
            local.want({"out": Wish(qos=1)}, set())
            await ben_has_gone(served)
            await fill(served, "out")
            for number in range(1, count + 1):
                local.deliver(message(number, size=size))
            await asyncio.sleep(0.3)
            assert not safe
            for copy in copies:
                local.acknowledge(Acknowledge(copy.packet_id, copy.qos))
            async with asyncio.timeout(10):
                while len(safe) < count:
                    await asyncio.sleep(0.02)
                    local.go_on()
            local.leave()

    asyncio.run(main())
    assert safe == list(range(1, count + 1))


def test_what_needs_no_log_goes_on_beside_much_that_waits_for_room(tmp_path):
    live = []

    async def main():
        async with edge(tmp_path, "4 MB") as (served, local):
            local.enter()
            await ben_has_gone(served)
            await fill(served, "t")
            async with Client(served.addresses["mqtt"]) as bob:
                await bob.subscribe("live", lambda topic, payload: live.append(payload))
                for number in range(1, 150):
                    local.deliver(message(number))
                for number in range(1000, 1100):
                    local.deliver(message(number, topic="live", qos=0, size=1000))
                local.want({"new/#": Wish(qos=1)}, {"new/#"})
                await until(lambda: len(live) == 100)
                assert "new/#" in local._inside.session.subscriptions
                assert local._inside.connection.deferred_bytes < 1_000_000
            local.leave()

    asyncio.run(main())


def test_no_more_is_taken_than_may_wait(tmp_path):
    """It comes again, as it is not acknowledged."""
    room = [True]
    receiving = Receiving("here", 1, has_room=lambda: room[0])
    arrived = [receiving.arrived("t", b"", {}, Stamp("far", 1, 1, 0, 0, 1), "r", 0.0)]
    room[0] = False
    second = Stamp("far", 1, 2, 1, 0, 1)
    arrived += [receiving.arrived("t", b"", {}, one, "r", 0.0) for one in (second, second)]
    plain = Stamp("far", 1, 3, 0, 0, 0)
    arrived.append(receiving.arrived("t", b"", {}, plain, "r", 0.0))  # needs none
    kept = Stamp("far", 1, 4, 0, 0, 0, retain=True)
    arrived.append(receiving.arrived("kept", b"", {}, kept, "r", 0.0))
    assert receiving.arrived("t", b"", {}, Stamp("far", 1, 1, 0, 0, 1), "r", 0.0) == []
    assert receiving.counts == {"no room": 3, "again": 1}
    room[0] = True
    arrived.append(receiving.arrived("t", b"", {}, second, "r", 0.0))
    assert [[one.stamp.number for one in some] for some in arrived] == [[1], [], [], [3], [], [2]]


def test_an_edge_says_whether_there_is_room(tmp_path):
    async def main():
        async with edge(tmp_path, "1 MB") as (served, local):
            local.enter()
            await ben_has_gone(served)
            await fill(served, "t")
            number = 0
            while local.has_room and number < 1000:
                number += 1
                local.deliver(message(number, size=1_000_000))
            assert MOST_WAITING_BYTES / 1e6 <= number <= MOST_WAITING_BYTES / 1e6 + 2
            local.leave()

    asyncio.run(main())
