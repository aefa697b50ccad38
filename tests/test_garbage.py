"""Garbage is searched for when memory has grown, and an exchange makes hardly any."""

import asyncio
import gc
import socket
import sys
from contextlib import contextmanager

import pytest
import uvloop

from firelane import garbage
from firelane.exchange.run import running
from firelane.garbage import Garbage, searched_rarely
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Connect, Disconnect, Kind, Publish, Subscribe, Subscription
from firelane.scenario.model import Scenario

CLIENTS = 200


@pytest.fixture
def spare_blocks(monkeypatch):
    monkeypatch.setattr(garbage, "GROWN", 1.0)
    monkeypatch.setattr(garbage, "SPARE_BLOCKS", 20_000)
    gc.collect()
    return garbage.SPARE_BLOCKS


@contextmanager
def unsearched():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def make_garbage(objects):
    for _ in range(objects):
        one = []
        one.append(one)


def test_what_gathers_is_found_once_it_is_too_much_and_not_before(spare_blocks):
    with unsearched():
        started, bin_, searched = sys.getallocatedblocks(), Garbage(), []
        for _ in range(10):
            make_garbage(spare_blocks // 8)
            searched.append(bin_.search_if_grown())
            assert sys.getallocatedblocks() < started + 2 * spare_blocks
    assert not searched[0]
    assert 1 <= sum(searched) <= 5


def test_a_peak_that_is_over_does_not_allow_for_more(spare_blocks):
    with unsearched():
        bin_, peak = Garbage(), [[] for _ in range(5 * spare_blocks)]
        assert bin_.search_if_grown()
        peak.clear()
        assert not bin_.search_if_grown()
        make_garbage(2 * spare_blocks)
        assert bin_.search_if_grown()


def test_large_things_count_too(monkeypatch):
    """Of more than 512 bytes Python does not know."""
    monkeypatch.setattr(garbage, "GROWN", 1.0)
    monkeypatch.setattr(garbage, "SPARE_BYTES", 50_000_000)
    with unsearched():
        bin_ = Garbage()
        for _ in range(300):  # more than what others may have left behind to be used again
            one = [bytearray(b"x" * 1_000_000)]
            one.append(one)
        assert bin_.search_if_grown()


def test_what_is_still_needed_counts_as_what_there_was(spare_blocks):
    with unsearched():
        bin_, kept = Garbage(), [[] for _ in range(spare_blocks)]
        assert bin_.search_if_grown()
        assert not bin_.search_if_grown()
        assert len(kept) == spare_blocks


def test_a_process_that_serves_searches_by_itself_and_leaves_everything_as_it_was(spare_blocks, monkeypatch):
    monkeypatch.setattr(garbage, "CHECK_EVERY_S", 0.01)

    async def story():
        async with searched_rarely():
            assert not gc.isenabled()
            searches = gc.get_stats()[2]["collections"]
            await asyncio.sleep(0.05)
            assert gc.get_stats()[2]["collections"] == searches
            make_garbage(spare_blocks)
            await asyncio.sleep(0.05)
            assert gc.get_stats()[2]["collections"] == searches + 1

    asyncio.run(story())
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_clients_that_come_and_go_leave_no_garbage_behind(tmp_path):
    """So it does no harm to search rarely: 200 clients, orderly and not, with all three levels of quality."""

    async def story():
        scenario = Scenario(name="churn")
        async with running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=tmp_path, tell=print) as exchange:
            port = int(exchange.addresses["mqtt"].rpartition(":")[2])
            await asyncio.to_thread(come_and_go, port, range(10))  # what is made once, such as machine code
            with unsearched():
                await asyncio.to_thread(come_and_go, port, range(CLIENTS))
                while exchange.server.drivers:
                    await asyncio.sleep(0.01)
                assert exchange.broker.counts.publish_received >= 3 * CLIENTS
                return gc.collect()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(story()) < CLIENTS


def come_and_go(port, numbers):
    for number in numbers:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
            one.sendall(encode(Connect(client_id=f"c{number}", version=V5), V5))
            wants = [Subscription(filter=f"room/{number}/+", qos=2), Subscription(filter="#")]
            one.sendall(encode(Subscribe(packet_id=1, subscriptions=wants), V5))
            for qos in (0, 1, 2):
                topic = f"room/{number}/{qos}"
                one.sendall(encode(Publish(topic=topic, payload=b"21", qos=qos, packet_id=qos and qos + 1), V5))
            one.sendall(encode(Ack(kind=Kind.PUBREL, packet_id=3), V5))
            if number % 2:
                one.sendall(encode(Disconnect(), V5))
                while one.recv(1 << 16):
                    pass
            else:
                one.recv(1 << 16)
