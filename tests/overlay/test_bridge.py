"""DDS endpoints of different sites meet: two domains stand for two local networks, endpoints are processes."""

import asyncio
import time

import pytest
from bridges import LONG_S, bridged
from sites import sites, until

from firelane.overlay.bridge import bridge

PLACES = [{"x": 0.1, "y": -2.0}, {"x": 1e300, "y": 0.0}]


def run(main):
    asyncio.run(main())


def test_typed_samples_with_key_and_sequence_go_both_ways(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            with (
                here.endpoint("a", topic="traffic", reliable=True) as out_a,
                here.endpoint("b", topic="traffic", reliable=True) as out_b,
                here.endpoint("a", topic="traffic", reads=True, reliable=True) as in_a,
                here.endpoint("b", topic="traffic", reads=True, reliable=True) as in_b,
            ):
                for one in (out_a, out_b, in_a, in_b):
                    await one.here()
                await until(lambda: here.told("a")["read"] == here.told("b")["read"] == 1, LONG_S)
                for n in range(20):
                    out_a.send(matched=2, number=n % 3, name=f"Lövdalen {n}", path=PLACES)
                    out_b.send(matched=2, number=100 + n, name=f"to a {n}")
                await until(lambda: len(in_a.samples) >= 40 and len(in_b.samples) >= 40, LONG_S)
                await asyncio.sleep(0.5)  # in which what went round in circles would come again
        for got in (in_a.samples, in_b.samples):
            assert len(got) == 40
            for number in range(3):  # DDS keeps the order of each instance
                wanted = [{"number": number, "name": f"Lövdalen {n}", "path": PLACES} for n in range(number, 20, 3)]
                assert [one for one in got if one["number"] == number] == wanted
            of_b = sorted((one for one in got if one["number"] >= 100), key=lambda one: one["number"])
            assert of_b == [{"number": 100 + n, "name": f"to a {n}", "path": []} for n in range(20)]

    run(main)


@pytest.mark.slow
def test_killed_endpoints_leave_the_registry_and_instances_end(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            with (
                here.endpoint("a", topic="traffic", reliable=True) as writer,
                here.endpoint("b", topic="traffic", reads=True, reliable=True) as killed,
                here.endpoint("b", topic="traffic", reads=True, reliable=True) as reader,
            ):
                await until_known(here, "dds/0/traffic", {"a": 1}, {"b": 2})
                await until(lambda: here.told("a")["read"] == 1, LONG_S)
                for _ in range(10):  # often enough for the exchange to know how often
                    writer.send(matched=1, number=1, name="x")
                    await asyncio.sleep(0.1)
                await until(lambda: len(reader.samples) == len(killed.samples) == 10, LONG_S)
                killed.kill()
                await until_known(here, "dds/0/traffic", {"a": 1}, {"b": 1})
                writer.kill()
                await until_known(here, "dds/0/traffic", {}, {"b": 1})
                await until(lambda: [one["number"] for one in reader.ended] == [1], LONG_S)
                await until(lambda: here.told("b")["written"] == 0, LONG_S)
                reader.kill()
                await until_known(here, "dds/0/traffic", {}, {})
                await until(lambda: not here.brokers["a"]._interest.of("dds/0/traffic"), LONG_S)

    run(main)


@pytest.mark.slow
def test_what_is_kept_for_late_readers_is_there_for_those_of_other_sites(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            with here.endpoint("a", topic="state", reliable=True, kept=True) as writer:
                for number, name in ((1, "old"), (2, "two"), (1, "new"), (3, "three")):
                    writer.send(number=number, name=name)
                await until(lambda: len(writer.said) == 5, LONG_S)
                writer.send(do="dispose", number=3)
                with here.endpoint("b", topic="state", reads=True, reliable=True, kept=True) as first:
                    await until(lambda: last_of(first.samples) == {1: "new", 2: "two"}, LONG_S)
                    with here.endpoint("b", topic="state", reads=True, reliable=True, kept=True) as second:
                        await until(lambda: last_of(second.samples) == {1: "new", 2: "two"}, LONG_S)
                    writer.send(do="dispose", number=1)
                    await until(lambda: first.ended[-1:] and first.ended[-1]["number"] == 1, LONG_S)
                    retained = here.exchanges["b"].broker.retained
                    await until(lambda: len(list(retained.matching("dds/0/state/+"))) == 2, LONG_S)  # 2, and the type
                await until(lambda: here.told("a")["read"] == 0, LONG_S)  # nobody wants it any more
                writer.send(number=2, name="later")
                with here.endpoint("b", topic="state", reads=True, reliable=True, kept=True) as third:
                    await until(lambda: last_of(third.samples).get(2) == "later", LONG_S)

    run(main)


def last_of(samples):
    return {one["number"]: one["name"] for one in samples}


@pytest.mark.slow
def test_a_type_without_a_key_best_effort_and_in_partitions(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            of = {"topic": "rt/notes", "kind": "Note"}  # the name has a level's separator in it
            with (
                here.endpoint("a", **of, partitions=["east", "west"]) as writer,
                here.endpoint("b", **of, reads=True, partitions=["w*"]) as west,
                here.endpoint("b", **of, reads=True, partitions=["north"]) as north,
                here.endpoint("b", **of, reads=True) as plain,
            ):
                for one in (writer, west, north, plain):
                    await one.here()
                await until(
                    lambda: here.told("a")["read"] == 1 and here.told("b")["readers"] == {"rt/notes": 3}, LONG_S
                )
                for n in range(1000):  # best effort: until one has come
                    writer.send(text=f"n{n}", values=[n, -n])
                    await asyncio.sleep(0.05)
                    if west.samples:
                        break
                assert all(one["text"] == f"n{one['values'][0]}" for one in west.samples)
                assert west.samples[0]["values"][0] == -west.samples[0]["values"][1]
                await asyncio.sleep(0.3)
                assert north.samples == plain.samples == []
                assert here.told("b")["written"] == 1

    run(main)


@pytest.mark.slow
def test_what_does_not_fit_is_told_once_and_counted(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            with (
                here.endpoint("a", topic="t", deadline_s=2.0) as writer,
                here.endpoint("b", topic="t", reads=True, reliable=True, deadline_s=0.5) as strict,
                here.endpoint("b", topic="t", reads=True) as lenient,
            ):
                for one in (writer, strict, lenient):
                    await one.here()
                await until(lambda: here.told("a")["read"] == 1 and here.told("b")["readers"] == {"t": 2}, LONG_S)
                session = here.exchanges["b"].broker.sessions["$dds"]
                assert session.subscriptions["dds/0/t"].lane.need.max_delay_s == 0.5
                assert session.subscriptions["dds/0/t"].qos == 1
                for _ in range(1000):
                    writer.send(number=1, name="x")
                    await asyncio.sleep(0.05)
                    if len(lenient.samples) > 2:
                        break
                lines = [line for line in here.lines if "gets nothing" in line]
                assert len(lines) == 1
                wanted = "asks for reliable, but best-effort is offered; for a deadline of 0.5 s, but 2 s is offered"
                assert wanted in lines[0]
                assert lines[0].startswith('b: DDS topic "t": a reader of ')
                assert here.told("b")["told"] == {"mismatches": 1}
                assert strict.samples == []

    run(main)


@pytest.mark.slow
def test_writers_that_do_not_show_that_they_are_alive_leave_the_registry(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            with (
                here.endpoint("a", topic="t", reliable=True, manual_s=3.0) as writer,
                here.endpoint("b", topic="t", reads=True, reliable=True, manual_s=5.0) as reader,
            ):
                await until_known(here, "dds/0/t", {"a": 1}, {"b": 1})
                await until(lambda: here.told("a")["read"] == 1, LONG_S)
                writer.send(matched=1, number=1, name="x")
                await until(lambda: len(reader.samples) == 1, LONG_S)
                await until_known(here, "dds/0/t", {}, {"b": 1})  # it is there, but says nothing
                await until(lambda: [one["number"] for one in reader.ended] == [1], LONG_S)
                writer.send(number=1, name="y")
                await until(lambda: [one["name"] for one in reader.samples] == ["x", "y"], LONG_S)
                await until(lambda: here.told("a")["writers"] == {"t": 1}, LONG_S)

    run(main)


@pytest.mark.slow
def test_mqtt_clients_see_samples_and_can_send_some(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            got = []
            with (
                here.endpoint("a", topic="traffic", reliable=True) as writer,
                here.endpoint("b", topic="traffic", reads=True, reliable=True) as reader,
            ):
                async with here.client("a") as near, here.client("b") as far:
                    await far.subscribe("dds/#", lambda topic, payload: got.append((topic, payload)), qos=1)
                    await until(lambda: here.told("a")["read"] == 1 and here.told("b")["readers"], LONG_S)
                    writer.send(matched=1, number=7, name="ab")
                    await until(lambda: [one for one in got if one[0] == "dds/0/traffic" and one[1]], LONG_S)
                    sample = next(payload for topic, payload in got if topic == "dds/0/traffic" and payload)
                    # XCDR 1, little-endian, as the standard has it: header, int32, string with its end, empty sequence
                    assert sample == bytes.fromhex("00010000 07000000 03000000 61620000 00000000")
                    await until(lambda: len(reader.samples) == 1, LONG_S)
                    for junk in (b"", b"\0", b"no sample", bytes(range(40)), sample[:-5], sample[:8] + b"\xff" * 12):
                        await near.publish("dds/0/traffic", junk, qos=1)
                        await near.publish("dds/0/traffic/type:f2", junk, qos=1)
                    await near.publish(
                        "dds/0/traffic", bytes.fromhex("00010000 08000000 02000000 63000000 00000000"), qos=1
                    )
                    await until(lambda: len(reader.samples) >= 2, LONG_S)
                    assert reader.samples == [
                        {"number": 7, "name": "ab", "path": []},
                        {"number": 8, "name": "c", "path": []},
                    ]
                    counts = here.told("b")["in"]
                    assert counts["dropped: not of its type"] == 5
                    assert counts["bad types"] == 5

    run(main)


@pytest.mark.slow
def test_of_two_bridges_on_one_network_one_stands_by_until_the_other_is_gone(tmp_path):
    async def main():
        async with bridged(tmp_path, edges=("a", "b", "c")) as here:
            await here.stop("c")
            await here.start("edge", "c")
            here.domains["c"] = here.domains["b"]
            await here.bridge("c")
            with (
                here.endpoint("a", topic="t", reliable=True) as writer,
                here.endpoint("b", topic="t", reads=True, reliable=True) as reader,
            ):
                await until(lambda: here.told("c")["stands_by"] and here.told("a")["read"] == 1, LONG_S)
                for n in range(10):
                    writer.send(matched=1, number=n)
                await until(lambda: len(reader.samples) >= 10, LONG_S)
                await here.stop("b")
                await until(lambda: here.told("c")["readers"] == {"t": 1}, LONG_S)
                await until(lambda: "c" in here.brokers["a"]._interest.of("dds/0/t"), LONG_S)
                for n in range(10, 20):
                    writer.send(number=n)
                await until(lambda: len(reader.samples) >= 20, LONG_S)
                await asyncio.sleep(0.3)
                assert sorted(one["number"] for one in reader.samples) == list(range(20))

    run(main)


@pytest.mark.slow
def test_a_site_that_goes_takes_its_writers_with_it_and_is_back_with_them(tmp_path, monkeypatch):
    monkeypatch.setattr(bridge, "AWAY_S", 0.5)

    async def main():
        async with bridged(tmp_path) as here:
            with (
                here.endpoint("a", topic="state", reliable=True, kept=True) as writer,
                here.endpoint("b", topic="state", reads=True, reliable=True, kept=True) as reader,
            ):
                await until(lambda: here.told("a")["read"] == 1, LONG_S)
                writer.send(number=1, name="x")
                await until(lambda: len(reader.samples) == 1, LONG_S)
                await here.stop("a")
                await until(lambda: [one["number"] for one in reader.ended] == [1], LONG_S)
                assert here.told("b")["written"] == 0
                await here.start("edge", "a")
                await here.bridge("a")
                await until(lambda: len(reader.samples) == 2, LONG_S)  # as it is kept at the writer
                await here.stop("a")
                writer.kill()
                await here.start("edge", "a")
                assert kept(here, "a") == kept(here, "b") == 1
                await here.bridge("a")
                await until(lambda: kept(here, "a") == kept(here, "b") == 0, LONG_S)

    run(main)


def kept(here, site):
    found = here.exchanges[site].broker.retained.matching("dds/0/state/+")
    return sum(b"/a:" in one.message.topic for one in found)


@pytest.mark.slow
def test_what_nobody_elsewhere_wants_is_not_read(tmp_path):
    async def main():
        async with bridged(tmp_path) as here:
            with (
                here.endpoint("a", topic="t", reliable=True) as writer,
                here.endpoint("a", topic="t", reads=True, reliable=True) as reader,
            ):
                await until_known(here, "dds/0/t", {"a": 1}, {"a": 1})
                writer.send(matched=1, number=1)
                await until(lambda: len(reader.samples) == 1, LONG_S)
                assert here.told("a")["read"] == 0
                async with here.client("b") as far:
                    await far.subscribe("dds/+/t", lambda topic, payload: None)
                    await until(lambda: here.told("a")["read"] == 1, LONG_S)
                await until(lambda: here.told("a")["read"] == 0, LONG_S)

    run(main)


@pytest.mark.slow
def test_endpoints_that_are_no_clients_count_and_do_not_linger(tmp_path):
    async def main():
        async with asyncio.timeout(LONG_S), sites(tmp_path, edges=("a",), routers=()) as here, here.client("a") as ann:
            edge = here.brokers["a"]
            while edge._local.endpoints()[0] != {"t": 1}:  # the exchange knows that somebody publishes
                await ann.publish("t", b"x", qos=1)
                await asyncio.sleep(0.05)
            edge.declare_endpoints({"t": 3, "u": 2}, {"v": 4})
            assert edge._local.endpoints()[:2] == ({"t": 3, "u": 2}, {"v": 4})
            rates = edge._local.endpoints()[2]
            assert rates["t"] > 0
            assert "u" not in rates  # nothing has been written yet, so how often is not known
            edge.declare_endpoints({"t": 0}, {})  # they have gone, though messages came a moment ago
            assert edge._local.endpoints()[:2] == ({}, {})
            edge.declare_endpoints({"t": 3, "u": 2}, {})
            edge._local._origins._looked_at -= 100.0  # what was written is long ago
            assert edge._local.endpoints()[2] == {"t": 0.0}

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("site", ["a", "b"])
def test_a_bridge_whose_session_was_ended_by_an_operator_begins_anew(tmp_path, site):
    async def main():
        async with bridged(tmp_path) as here:
            with (
                here.endpoint("a", topic="t", reliable=True) as writer,
                here.endpoint("b", topic="t", reads=True, reliable=True) as reader,
            ):
                await until(lambda: here.told("a")["read"] == 1, LONG_S)
                writer.send(matched=1, number=1)
                await until(lambda: len(reader.samples) == 1, LONG_S)
                exchange = here.exchanges[site]
                assert exchange.broker.kick("$dds", time.monotonic())
                exchange.server.settle()
                await until(lambda: here.told(site)["told"] == {"failed": 1}, LONG_S)
                async with asyncio.timeout(LONG_S):
                    while reader.samples[-1]["number"] == 1:  # it may come again; what nobody wants is not carried
                        writer.send(number=2)
                        await asyncio.sleep(0.1)

    run(main)


@pytest.mark.slow
def test_a_topic_whose_reader_has_a_deadline_comes_directly_too(tmp_path):
    async def main():
        async with bridged(tmp_path, overlay={"direct": {"from": ["*"]}}) as here:
            with (
                here.endpoint("a", topic="t", reliable=True, deadline_s=0.5) as writer,
                here.endpoint("b", topic="t", reads=True, reliable=True, deadline_s=1.0) as reader,
            ):
                await until(lambda: here.told("a")["read"] == 1, LONG_S)
                paths = lambda: here.brokers["a"].statistics()["direct"]["paths"]  # noqa: E731
                await until(lambda: paths().get("b", {}).get("connected"), LONG_S)
                await here.stop("r1")
                writer.send(matched=1, number=1)
                await until(lambda: [one["number"] for one in reader.samples] == [1], LONG_S)

    run(main)


async def until_known(here, topic, publishers, subscribers):
    """Wait until the registry has so many endpoints of a topic, by edge."""
    async with asyncio.timeout(LONG_S):
        while True:
            known = (await here.brokers["a"].registry.status()).topics.get(topic)
            found = ({}, {}) if known is None else (dict(known.pub), dict(known.sub))
            if found == (publishers, subscribers):
                return
            await asyncio.sleep(0.05)
