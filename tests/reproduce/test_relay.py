"""The relay that stands for a WAN: late by what it is told, in order, and never holding more than it may."""

from __future__ import annotations

import asyncio
import time

import pytest

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect
from firelane.reproduce import relay
from firelane.reproduce.relay import HOST, LEAST_TIMEOUT_S, Relay, Wan, client_of


def hello(client_id):
    return encode(Connect(client_id=client_id, version=V5), V5)


async def echo(reader, writer):
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def there_and_back(port, client_id, more=b""):
    """How long it takes until all that was said is echoed."""
    reader, writer = await asyncio.open_connection(HOST, port)
    began = time.monotonic()
    said = hello(client_id) + more
    writer.write(said)
    heard = await asyncio.wait_for(reader.readexactly(len(said)), 20)
    writer.close()
    assert heard == said
    return time.monotonic() - began


def run(story, **options):
    async def whole():
        server = await asyncio.start_server(echo, HOST, 0)
        async with Relay(**options) as one:
            one.target = server.sockets[0].getsockname()[1]
            await story(one)
        server.close()

    asyncio.run(asyncio.wait_for(whole(), 60))


def test_what_passes_is_late_by_the_delay_of_its_client_both_ways():
    async def story(one):
        one.links["edge:far"] = Wan(delay_s=0.3)
        assert await there_and_back(one.port, "edge:far") >= 0.6
        assert 0.04 <= await there_and_back(one.port, "edge:near") < 0.6
        assert one.passed["edge:far"].bytes == 2 * len(hello("edge:far"))

    run(story, other=Wan(delay_s=0.02))


def test_what_is_lost_comes_a_retransmission_timeout_later():
    async def story(one):
        one.links["edge:bad"] = Wan(delay_s=0.05, loss=1.0)
        late_s = await there_and_back(one.port, "edge:bad")
        assert late_s >= 2 * (0.05 + 2 * 0.05 + LEAST_TIMEOUT_S)
        assert one.passed["edge:bad"].lost == 2

    run(story)


def test_as_many_segments_are_lost_as_was_asked_for():
    async def story(one):
        one.links["edge:bad"] = Wan(loss=0.3)
        relay_way = relay._Way(lambda: Wan(loss=0.3), passed := relay.Passed(), one.chance, relay._Side())
        for _ in range(4000):
            relay_way.send(b"x")
        # Binomial: 1200 with a standard deviation of 29; four of them.
        assert abs(passed.lost - 1200) < 116

    run(story)


def test_much_data_comes_in_order_and_the_sender_waits(monkeypatch):
    monkeypatch.setattr(relay, "MOST_HELD_BYTES", 100_000)
    most = []
    send = relay._Way.send

    def noted(self, data):
        send(self, data)
        most.append(self.held_bytes)

    monkeypatch.setattr(relay._Way, "send", noted)

    async def story(one):
        await there_and_back(one.port, "edge:a", bytes(range(256)) * 8000)

    run(story, other=Wan(delay_s=0.01))
    assert max(most) < 100_000 + 300_000  # what one read may bring beyond it


def test_nobody_behind_it_is_told_by_hanging_up():
    async def story(one):
        one.target = 1
        reader, writer = await asyncio.open_connection(HOST, one.port)
        writer.write(hello("edge:a"))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(reader.readexactly(1), 10)
        writer.close()

    run(story)


def test_whose_a_connection_is_is_known_when_its_hello_is_whole():
    said = hello("edge:berlin")
    assert [client_of(said[:length]) for length in range(len(said))] == [None] * len(said)
    assert client_of(said) == "edge:berlin"
    assert client_of(said + b"more") == "edge:berlin"
    assert client_of(b"GET / HTTP/1.1\r\n\r\n" * 10) == ""
