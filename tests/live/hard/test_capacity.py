"""How much the exchange carries: connections, subscribers of one topic, retained messages, passwords to check."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from firelane.exchange.clients.access import hashed
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, Connect, Kind, Publish
from live.brokers import firelane
from live.hard.crowd import crowd
from live.hard.witness import MB, Witness, memory_bytes

CONNECTION_BYTES = 50_000
BAD_PASSWORD = 4  # in a CONNACK of MQTT 3.1.1


@pytest.mark.slow
def test_idle_connections_take_at_most_50_kilobytes_each(broker):
    each_bytes, took_s = asyncio.run(idle(broker, 500))
    print(f"\n500 connections in {took_s:.1f} s, {each_bytes / 1000:.1f} kB each")
    assert each_bytes < CONNECTION_BYTES


@pytest.mark.soak
def test_five_thousand_idle_connections_open_within_ten_seconds(broker):
    each_bytes, took_s = asyncio.run(idle(broker, 5000))
    print(f"\n5000 connections in {took_s:.1f} s, {each_bytes / 1000:.1f} kB each")
    assert each_bytes < CONNECTION_BYTES
    assert took_s < 10


async def idle(broker, count):
    before, started = memory_bytes(broker), time.monotonic()
    async with crowd(broker.port, count):
        took_s = time.monotonic() - started
        await asyncio.sleep(0.5)
        return (memory_bytes(broker) - before) / count, took_s


@pytest.mark.slow
def test_a_thousand_subscribers_of_one_topic_all_get_every_message(broker, witness):
    received = asyncio.run(fan_out(broker, subscribers=1000, messages=20))
    assert received == [[b"%d" % number for number in range(20)]] * 1000
    assert witness.grown_bytes < 60 * MB


async def fan_out(broker, subscribers, messages):
    async with crowd(broker.port, subscribers + 1) as (publisher, *members):
        await asyncio.gather(*(member.subscribe("all") for member in members))
        for number in range(messages):
            publisher.send(Publish(topic="all", payload=b"%d" % number))
        async with asyncio.timeout(60):
            taken = await asyncio.gather(*(member.take(messages) for member in members))
        return [[one.payload for one in several] for several in taken]


@pytest.mark.slow
def test_all_retained_messages_come_to_a_new_subscriber(broker, witness, join):
    replay(broker, join, 20_000)
    print(f"\n{witness.grown_bytes / 20_000:.0f} bytes each")


@pytest.mark.soak
def test_also_a_hundred_thousand_and_after_a_restart(broker, join):
    before = memory_bytes(broker)
    replay(broker, join, 100_000)
    print(f"\n{(memory_bytes(broker) - before) / 100_000:.0f} bytes each")
    broker.restart()
    client = join()
    client.subscribe("retained/#")
    assert len({client.expect(Kind.PUBLISH).topic for _ in range(100_000)}) == 100_000


def replay(broker, join, count):
    publisher, client = join(version=V3), join()
    publisher.patience_s = client.patience_s = 60
    for start in range(0, count, 1000):
        kept = [Publish(topic=f"retained/{one % 100}/{one}", payload=b"%d" % one, retain=True)
                for one in range(start, start + 1000)]  # fmt: skip
        publisher.send_raw(b"".join(encode(one, V3) for one in kept))
    publisher.ping()
    client.subscribe("retained/#")
    received = [client.expect(Kind.PUBLISH) for _ in range(count)]
    assert all(one.retain and one.topic.endswith(f"/{one.payload.decode()}") for one in received)
    assert len({one.topic for one in received}) == count


@pytest.mark.slow
def test_a_storm_of_passwords_holds_nobody_up(tmp_path):
    users = {f"user{number}": {"password": hashed(b"%d" % number)} for number in range(10)}
    with firelane(tmp_path, "--set", f"exchange.users={json.dumps(users)}") as broker, Witness(broker) as witness:
        witness.wait()
        quiet_s = witness.slowest_s
        answers = asyncio.run(log_in(broker.port, 10))
        print(f"\nslowest before {quiet_s * 1000:.0f} ms, during {witness.slowest_s * 1000:.0f} ms")
    assert answers == [0, BAD_PASSWORD] * 10


async def log_in(port, count):
    """All users at once, each with the right password and with a wrong one; what they are told."""

    async def one(number, password):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        user = f"user{number}"
        writer.write(encode(Connect(client_id=user + password, version=V3, user=user, password=password.encode()), V3))
        answer = await reader.readexactly(4)
        writer.close()
        return answer[3]

    async with asyncio.timeout(60):
        return await asyncio.gather(*(one(number, word) for number in range(count) for word in (str(number), "wrong")))
