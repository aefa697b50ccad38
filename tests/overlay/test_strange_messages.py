"""A message at a router that is no good note or stamp does not cost an edge its connection."""

import asyncio
import json

import pytest
from sites import sites, stock, until

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Publish
from firelane.overlay.edge import EdgeBroker
from firelane.overlay.messages.actions import Watch
from firelane.overlay.messages.addressing import TOPIC
from firelane.overlay.messages.notes import FOR, TO
from firelane.overlay.messages.stamp import NAME, Stamp
from firelane.overlay.messages.strange import Strange


def deep(boot):
    return Publish(topic=f"{FOR}b", payload=b"[" * 200_000)


def asks(boot):
    missing = [{"topic": "mine", "last": 0, "before": 1}]
    said = {"format": 1, "edge": "#", "boot": 1, "of": boot, "missing": missing}
    return Publish(topic=f"{FOR}b", payload=json.dumps(said).encode())


def origin(boot):
    stamp = Stamp("x/#", 1, 2**40, 0, 0, 1).text()
    return Publish(topic=f"{TO}b", payload=b"x", properties={"user_property": [(NAME, stamp), (TOPIC, "fire")]})


@pytest.mark.parametrize("make", [deep, asks, origin])
def test_a_note_or_stamp_that_is_no_good_does_not_cost_a_connection(tmp_path, make):
    async def main():
        got = []
        async with asyncio.timeout(40), sites(tmp_path, routers=("r",)) as here:
            with (
                stock(here, "b", "ben", got=got, wants="#", qos=1),
                stock(here, "a", "ann", wants="mine", qos=1),
            ):
                await until(lambda: bool(here.brokers["a"]._interest.of("fire")))
                await until(lambda: bool(here.brokers["b"]._interest.of("mine")))
                with stock(here, "b", "bob") as bob:
                    bob.publish("mine", b"x", qos=1)
                    await asyncio.sleep(0.3)
                host, port = here.exchanges["r"].addresses["mqtt"].removeprefix("mqtt://").split(":")
                _, mallory = await asyncio.open_connection(host, int(port))
                mallory.write(encode(Connect(client_id="mallory", version=V5), V5))
                mallory.write(encode(make(here.brokers["b"]._boot), V5))
                await asyncio.sleep(1.0)
                mallory.close()
                ups = [line for line in here.lines if line.startswith("b: router")]
                assert len(ups) == 1, ups

    asyncio.run(main())


def bare_edge():
    """An edge that has entered, of which only what counts strange things is there."""
    edge = EdgeBroker.__new__(EdgeBroker)
    edge._entered, edge._strange, edge._tell = True, Strange(), lambda line: None
    return edge


def test_what_others_write_makes_no_more_counters_than_there_are_kinds():
    edge = bare_edge()
    for n in range(1000):
        for text in (f"2 beef {n:x} 0 0 1 a", f"1 beef {n:x} 0 0 9 a", f"nonsense {n}"):
            edge._arrived("r", Publish(topic="t", payload=b"", properties={"user_property": [(NAME, text)]}))
        many = {"user_property": [(NAME, "1")] * (n % 50 + 2)}
        edge._arrived("r", Publish(topic="t", payload=b"", properties=many))
        for payload in (b'{"format": 2}', b"%d" % n, b'{"format": 1, "edge": "%d/"}' % n):
            edge._arrived("r", Publish(topic=f"{FOR}b", payload=payload))
        edge._arrived_directly("a", b"", {"user_property": [(NAME, f"1 1 {n + 1:x} 0 0 1 c"), (TOPIC, "t")]})
    counts = edge._strange.counts
    assert sum(counts.values()) == 8000
    assert len(counts) <= 6
    assert len(edge._strange.last) <= len(counts)
    assert edge._strange.last["no stamp of another site"] == "'nonsense 999' is no stamp of another site"


def test_bugs_are_counted_by_kind_and_told_once():
    edge, said = bare_edge(), []
    edge._tell = said.append

    def fails(action):
        raise ValueError(f"topic {action.topic}")

    edge._do_one = fails
    edge._do(Watch(f"t/{n}") for n in range(100))
    assert dict(edge._strange.counts) == {"a bug: ValueError (Watch)": 100}
    assert edge._strange.last == {"a bug: ValueError (Watch)": "ValueError: topic t/99"}
    assert said == ["a bug, sorry: ValueError: topic t/0"]


@pytest.mark.parametrize(("qos", "waits"), [(0, False), (1, False), (2, False), (1, True), (2, True)])
def test_a_message_that_cannot_be_delivered_here_is_told_and_not_kept_elsewhere_for_good(tmp_path, qos, waits):
    async def main():
        got = []
        async with asyncio.timeout(40), sites(tmp_path, routers=("r",)) as here:
            edge = here.brokers["b"]
            local, room = edge._local, [not waits]
            is_room, deliver = local._is_room, local._deliver

            def fails(action):
                if action.payload == b"1":
                    raise ValueError(action.topic)
                deliver(action)

            local._deliver = fails
            local._is_room = lambda action: room[0] and is_room(action)
            with stock(here, "b", "ben", got=got, wants="fire", qos=2), stock(here, "a", "ann") as ann:
                await until(lambda: bool(here.brokers["a"]._interest.of("fire")))
                for n in range(3):
                    ann.publish("fire", b"%d" % n, qos=qos)
                await until(lambda: len(got) == 2 or len(local._waiting) == 3)
                room[0] = True
                await until(lambda: len(got) == 2)
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0, within_s=4.0)
            assert got == [("fire", b"0"), ("fire", b"2")]
            assert edge.statistics()["strange"] == {"a bug: ValueError (Deliver)": 1}
            assert any("a bug, sorry" in line for line in here.lines)

    asyncio.run(main())
