"""What needs, groups and names of clients mean across sites."""

from __future__ import annotations

import asyncio
import time

import pytest
from sites import sites, until

from firelane.control import controlling
from firelane.exchange.protocol.connecting import OVERLAY

WAN_BPS = 400_000
MEASURED_S, SETTLED_S = 4.0, 1.0
READING, PICTURE = bytes(300), bytes(8000)  # by their size alone readings would go first


def run(main):
    async def limited():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(limited())


def wanted(here, edge, topic):
    return lambda: bool(here.brokers[edge]._interest.of(topic))


@pytest.mark.slow
def test_an_alarm_for_another_site_keeps_its_lane_on_an_uplink_that_is_twice_full(tmp_path):
    """The subscriber far away says what it is worth; the edge where it is published plans its uplink by that."""
    wan = {
        "links": {"wan": {"bandwidth": WAN_BPS, "buffer": 50}},
        "subscribers": {"uplink": {"match": {"client_id": "$overlay"}, "link": "wan"}},
    }
    sent, came, bulk = [], [], []

    async def main():
        async with sites(tmp_path, edges=(), routers=("r1",)) as here:
            await here.start("edge", "a", scenario=wan)
            await here.start("edge", "b")
            exchange = here.exchanges["a"]
            async with (
                controlling(exchange, here.scenarios["a"], tell=here.lines.append),
                here.client("b") as chief,
                here.client("a") as field,
            ):
                await chief.subscribe(
                    "alarm",
                    lambda topic, payload: came.append((float(payload.split()[0]), time.monotonic())),
                    properties=[("weight", "100"), ("max-delay", "0.2")],
                )
                for n in range(10):
                    await chief.subscribe(f"bulk/{n}", lambda topic, payload: bulk.append(topic))
                await until(lambda: wanted(here, "a", "alarm")() and wanted(here, "a", "bulk/9")())
                lanes = exchange.broker.sessions[OVERLAY].lanes
                planned_at, turns = None, 0
                while planned_at is None or time.monotonic() < planned_at + MEASURED_S:
                    for n in range(10):
                        await field.publish(f"bulk/{n}", READING)
                    if turns % 10 == 0:
                        sent.append(time.monotonic())
                        await field.publish("alarm", b"%.6f " % sent[-1] + PICTURE)
                    turns += 1
                    await asyncio.sleep(0.03)
                    if planned_at is None and all(lanes[f"bulk/{n}"].threshold for n in range(10)):  # some is dropped
                        planned_at = time.monotonic() + SETTLED_S  # what was queued before is gone by then
                await asyncio.sleep(0.5)
                assert len(bulk) < 0.7 * 10 * turns  # there was too much
                late_s = [arrived - at for at, arrived in came if planned_at < at]
                assert len(late_s) == sum(planned_at < at for at in sent)
                assert sorted(late_s)[len(late_s) // 2] < 0.4

    run(main)


def test_a_shared_group_is_of_one_site(tmp_path):
    heard = {"b1": [], "b2": [], "a1": []}

    async def main():
        async with sites(tmp_path) as here, here.client("a") as ann:
            clients = [(name, here.client(name[0])) for name in heard]
            for name, client in clients:
                await client.__aenter__()
                await client.subscribe(
                    "$share/crew/t", lambda topic, payload, name=name: heard[name].append(payload), qos=1
                )
            await until(wanted(here, "a", "t"))
            for n in range(40):
                await ann.publish("t", b"%d" % n, qos=1)
            await until(lambda: len(heard["a1"]) == 40 and len(heard["b1"]) + len(heard["b2"]) == 40)
            await asyncio.sleep(0.2)
            for _, client in clients:
                await client.__aexit__(None, None, None)

    run(main)
    every = [b"%d" % n for n in range(40)]
    assert heard["a1"] == every
    assert sorted(heard["b1"] + heard["b2"]) == sorted(every)
    assert heard["b1"]
    assert heard["b2"]


def test_the_same_client_id_at_two_sites_is_two_clients(tmp_path):
    heard = {"a": [], "b": []}

    async def main():
        async with (
            sites(tmp_path) as here,
            here.client("a", client_id="same") as one,
            here.client("b", client_id="same") as other,
        ):
            for name, client in (("a", one), ("b", other)):
                await client.subscribe("t", lambda topic, payload, name=name: heard[name].append(payload))
            await until(lambda: wanted(here, "a", "t")() and wanted(here, "b", "t")())
            await one.publish("t", b"from a")
            await other.publish("t", b"from b")
            await until(lambda: all(len(some) == 2 for some in heard.values()))

    run(main)


def test_what_a_broker_says_of_itself_stays_with_it(tmp_path):
    heard = []

    async def main():
        async with sites(tmp_path) as here, here.client("b") as ben, here.client("a") as ann:
            await ben.subscribe("$SYS/#", lambda topic, payload: heard.append(topic))
            await ben.subscribe("#", lambda topic, payload: heard.append(topic))
            await until(wanted(here, "a", "t"))
            assert not here.brokers["a"]._interest.of("$SYS/broker/uptime")
            await ann.publish("$own/thing", b"x")
            await ann.publish("t", b"x")
            await until(lambda: "t" in heard)

    run(main)
    assert heard.count("t") == 1
    assert not any(topic.startswith("$own") for topic in heard)
