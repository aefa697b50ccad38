"""An edge's connection to a router that is narrow, strict or slow."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from sites import sites, until

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connack, Kind, Subscription
from firelane.overlay import path as paths
from firelane.overlay.interest import Wish
from firelane.overlay.path import Credentials, Path, Sent

SLOW_HZ, PORTION_BYTES = 20, 10_000


def run(main):
    async def limited():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(limited())


@asynccontextmanager
async def slow_peer(*, answers=True):
    """Takes 200 kB a second and no more, and answers pings when it comes to them."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    listener.bind(("127.0.0.1", 0))

    async def serve(reader, writer):
        writers.append(writer)
        await reader.read(2)
        writer.write(encode(Connack(session_present=False, reason=0), V5))
        tail = b""
        while portion := await reader.read(PORTION_BYTES):
            if tail.endswith(b"\xc0") or b"\xc0\x00" in portion:
                writer.write(bytes((Kind.PINGRESP << 4, 0)) if answers else b"")
            tail = portion
            await asyncio.sleep(1 / SLOW_HZ)

    writers = []
    server = await asyncio.start_server(serve, sock=listener, limit=PORTION_BYTES)
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.1)


@asynccontextmanager
async def connected(locator):
    problems = []
    path = Path("a", locator, Credentials(), got=lambda packet: None, up=lambda: None, down=problems.append)
    task = asyncio.create_task(path.run())
    try:
        await until(lambda: path.connected)
        yield path, problems
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_a_large_message_on_a_thin_uplink_does_not_make_a_router_seem_dead(monkeypatch):
    monkeypatch.setattr(paths, "SILENT_S", 1.0)

    async def main():
        async with slow_peer() as locator, connected(locator) as (path, problems):
            assert path.publish("t", bytes(800_000), 0, {}) is Sent.YES  # four seconds of it
            await asyncio.sleep(4.0)
            assert problems == []
            assert path.connected

    run(main)


def test_a_peer_that_reads_and_never_answers_is_dead(monkeypatch):
    monkeypatch.setattr(paths, "SILENT_S", 1.0)

    async def main():
        async with slow_peer(answers=False) as locator, connected(locator) as (_, problems):
            await until(lambda: problems)
            assert "said nothing" in problems[0]

    run(main)


def test_a_router_that_gives_few_subscriptions_still_carries_the_rest(tmp_path):
    async def main():
        async with sites(tmp_path, edges=(), routers=()) as here:
            await here.start("router", "r1", limits={"subscriptions": 10})
            await here.start("edge", "a")
            await here.start("edge", "b")
            heard = []
            async with here.client("b") as ben, here.client("a") as ann:
                for n in range(30):
                    await ben.subscribe(f"t/{n}", lambda topic, payload: heard.append(topic), qos=1)
                await until(lambda: all(here.brokers["a"]._interest.of(f"t/{n}") for n in range(30)))
                for n in range(30):
                    await ann.publish(f"t/{n}", b"x", qos=1)
                await until(lambda: len(set(heard)) == 30, 30.0)
            assert here.brokers["b"].statistics()["filters_refused"] >= 20
            assert sum("refuses filters" in line for line in here.lines) == 1

    run(main)


@pytest.mark.parametrize("qos", [0, 1])
def test_a_message_that_is_too_large_for_routers_is_counted_and_not_kept_for_ever(tmp_path, qos):
    async def main():
        async with sites(tmp_path, edges=(), routers=()) as here:
            await here.start("router", "r1", limits={"packet": "10 kB"})
            await here.start("edge", "a")
            await here.start("edge", "b")
            heard = []
            async with here.client("b") as ben, here.client("a") as ann:
                await ben.subscribe("t", lambda topic, payload: heard.append(len(payload)), qos=1)
                await until(lambda: here.brokers["a"]._interest.of("t"))
                await until(lambda: all(here.brokers["a"].statistics()["routers"].values()))
                for size in (100, 50_000, 200):
                    await ann.publish("t", bytes(size), qos=qos)
                await until(lambda: heard == [100, 200])
                said = here.brokers["a"].statistics()
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
            assert said["dropped"]["too large"] == 1
            assert said["routers"] == {"r1": True}

    run(main)


def test_filters_are_asked_for_in_packets_of_a_bounded_size():
    wishes = {f"{n:04}/" + "x" * 5000: Wish(qos=1) for n in range(50)} | {f"{n}": Wish(qos=0) for n in range(1200)}
    packets = paths._asking(wishes, [*wishes])
    assert max(len(encode(one, V5)) for one in packets) < 32_000
    asked = [one for packet in packets[: len(packets) // 2] for one in packet.subscriptions]
    assert [one.filter for one in asked] == [*wishes]
    assert all(isinstance(one, Subscription) for one in asked)
    assert [one for packet in packets[len(packets) // 2 :] for one in packet.filters] == [*wishes]
