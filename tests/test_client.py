"""The MQTT client by itself: addresses, and a broker that answers nonsense or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import pytest
import uvloop

from firelane import client
from firelane.client import Client, ClientError, address
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Connack, Connect, Kind, Publish, Suback, Subscribe, Unsubscribe


@pytest.mark.parametrize(
    ("url", "found"),
    [("mqtt://site", ("site", 1883, False)), ("mqtts://site", ("site", 8883, True)),
     ("mqtt://[::1]:99", ("::1", 99, False)), ("mqtt://10.0.0.1:1", ("10.0.0.1", 1, False))],
)  # fmt: skip
def test_addresses_are_taken_apart(url, found):
    assert address(url) == found


@pytest.mark.parametrize("url", ["", "site", "http://site", "mqtt://", "mqtt://site:port", "mqtt://site:99999"])
def test_what_is_no_address_is_told_in_a_line(url):
    with pytest.raises(ClientError, match="write mqtt"):
        address(url)


def served(reply: bytes | None, run=asyncio.run):
    """Runs a client against somebody who accepts connections and says this, or nothing and hangs up."""

    async def serve(reader, writer):
        await reader.read(100)
        if reply is not None:
            writer.write(reply)
            await writer.drain()
            await reader.read(100)
        writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            async with asyncio.timeout(20), Client(f"mqtt://127.0.0.1:{port}"):
                pass
        finally:
            server.close()
            await asyncio.sleep(0.1)  # for both ends to hang up

    run(main())


@pytest.mark.parametrize("reply", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x20\x03\x00\x87\x00", b"\xff" * 50])
def test_a_broker_that_does_not_let_anybody_in_is_told_in_a_line(reply, monkeypatch):
    monkeypatch.setattr(client, "ANSWER_S", 2.0)
    with pytest.raises(ClientError, match=r"broker") as raised:
        served(reply)
    assert "\n" not in str(raised.value)


class Desk:
    """A broker by hand: every connection is let in, and `answer` says what to do with each packet that comes."""

    def __init__(self, answer, **welcome):
        self.answer, self.welcome = answer, welcome
        self.packets, self.connections = [], 0
        self.writers = []

    async def serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        buffer = b""
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                buffer += data
                while (place := frame(buffer, 0, 10_000_000)) is not None and place[1] <= len(buffer):
                    packet = decode(buffer[0], buffer[place[0] : place[1]], V5)
                    buffer = buffer[place[1] :]
                    self.packets.append(packet)
                    if isinstance(packet, Connect):
                        writer.write(encode(Connack(session_present=False, reason=0, properties=self.welcome), V5))
                    elif await self.answer(self, packet, writer) == "mute":
                        await asyncio.sleep(60)
        writer.close()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"mqtt://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *problem):
        self.server.close()
        for one in self.writers:
            one.close()
        await asyncio.sleep(0.05)

    def of(self, kind):
        return [one for one in self.packets if isinstance(one, kind)]


async def fair(desk, packet, writer):
    """What a broker answers."""
    match packet:
        case Publish(qos=1):
            writer.write(encode(Ack(kind=Kind.PUBACK, packet_id=packet.packet_id), V5))
        case Subscribe():
            writer.write(encode(Suback(kind=Kind.SUBACK, packet_id=packet.packet_id, reasons=[0]), V5))
        case Unsubscribe():
            writer.write(encode(Suback(kind=Kind.UNSUBACK, packet_id=packet.packet_id, reasons=[0]), V5))


@pytest.fixture
def guarded():
    """A loop that never yields cannot be ended by asyncio.timeout."""

    def give_up(*_):
        raise AssertionError("the event loop hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_connection_that_is_lost_under_a_message_of_qos_1_is_made_again_and_nothing_hangs(guarded):
    async def once(desk, packet, writer):
        if desk.connections == 1:
            writer.close()
        else:
            await fair(desk, packet, writer)

    async def main():
        async with Desk(once) as desk, Client(desk.url) as client, asyncio.timeout(10):
            await client.publish("a", b"1", qos=1)
            assert [one.payload for one in desk.of(Publish)] == [b"1", b"1"]
            assert client.connected

    asyncio.run(main())


def test_somebody_who_fails_with_what_comes_harms_nobody_else():
    async def echo(desk, packet, writer):
        await fair(desk, packet, writer)
        if isinstance(packet, Subscribe):
            writer.write(encode(Publish(topic="a", payload=b"1"), V5) * 2)

    def fail(topic, payload):
        raise ValueError("a fault of the application's")

    async def main():
        told, got, faults = [], [], []
        asyncio.get_running_loop().set_exception_handler(lambda loop, fault: faults.append(fault["exception"]))
        async with Desk(echo) as desk, Client(desk.url, tell=told.append) as client, asyncio.timeout(10):
            await client.subscribe("a", fail)
            await client.subscribe("#", lambda topic, payload: got.append(payload))
            while len(got) < 2:
                await asyncio.sleep(0.01)
            assert desk.connections == 1
            assert client.failed == 4 == len(faults)
            assert "not taken" in told[0]

    asyncio.run(main())


def test_a_subscription_that_is_refused_the_next_time_leaves_the_others_alone():
    async def moody(desk, packet, writer):
        if isinstance(packet, Subscribe) and desk.connections > 1 and packet.subscriptions[0].filter == "bad":
            writer.write(encode(Suback(kind=Kind.SUBACK, packet_id=packet.packet_id, reasons=[0x83]), V5))
        else:
            await fair(desk, packet, writer)

    async def main():
        told = []
        async with Desk(moody) as desk, Client(desk.url, tell=told.append) as client, asyncio.timeout(10):
            for one in ("bad", "good"):
                await client.subscribe(one, lambda topic, payload: None)
            desk.writers[0].close()
            while len(desk.of(Subscribe)) < 4:
                await asyncio.sleep(0.01)
            await client.publish("a", b"1", qos=1)
            assert desk.connections == 2
            assert any("refuses subscribing to bad" in one for one in told)

    asyncio.run(main())


def test_two_may_share_a_filter_if_they_ask_alike():
    async def main():
        first, second = [], []
        mine = lambda topic, payload: first.append(payload)  # noqa: E731
        async with Desk(fair) as desk, Client(desk.url) as client, asyncio.timeout(10):
            await client.subscribe("a", mine)
            await client.subscribe("a", lambda topic, payload: second.append(payload))
            with pytest.raises(ClientError, match="already"):
                await client.subscribe("a", print, properties=(("tolerance", "1"),))
            desk.writers[0].write(encode(Publish(topic="a", payload=b"1"), V5))
            while not second:
                await asyncio.sleep(0.01)
            assert first == [b"1"]
            await client.unsubscribe("a", mine)
            assert not desk.of(Unsubscribe)
            desk.writers[0].write(encode(Publish(topic="a", payload=b"2"), V5))
            while len(second) < 2:
                await asyncio.sleep(0.01)
            assert first == [b"1"]
            await client.unsubscribe("a")
            assert [one.filters for one in desk.of(Unsubscribe)] == [["a"]]

    asyncio.run(main())


def test_who_waits_for_room_does_not_wait_for_a_broker_that_is_dead(monkeypatch):
    monkeypatch.setattr(client, "KEEP_ALIVE_S", 2)

    async def stuck(desk, packet, writer):
        return "mute" if desk.connections == 1 else await fair(desk, packet, writer)

    async def main():
        async with Desk(stuck) as desk, Client(desk.url) as here, asyncio.timeout(15):
            for _ in range(30):  # more than sockets take
                await here.publish("a", bytes(900_000))
            await here.publish("a", b"1", qos=1)
            assert desk.connections == 2

    asyncio.run(main())


def test_what_a_broker_would_not_take_is_refused_here_and_not_sent_for_ever():
    async def main():
        async with Desk(fair, maximum_packet_size=1000) as desk, Client(desk.url) as client, asyncio.timeout(10):
            for qos in (0, 1):
                with pytest.raises(ClientError, match="1000"):
                    await client.publish("a", bytes(1000), qos=qos)
            with pytest.raises(ClientError, match="QoS"):
                await client.publish("a", b"", qos=2)
            assert client.most_bytes < 1000
            await client.publish("a", bytes(client.most_bytes), qos=1)
            assert len(desk.of(Publish)) == 1

    asyncio.run(main())


def test_what_was_retained_is_left_out_for_who_wants_news_only():
    async def main():
        news, everything = [], []
        async with Desk(fair) as desk, Client(desk.url) as client, asyncio.timeout(10):
            await client.subscribe("a", lambda topic, payload: news.append(payload), retained=False)
            await client.subscribe("#", lambda topic, payload: everything.append(payload))
            for retain in (True, False):
                desk.writers[0].write(encode(Publish(topic="a", payload=b"%d" % retain, retain=retain), V5))
            while len(everything) < 2:
                await asyncio.sleep(0.01)
            assert news == [b"0"]

    asyncio.run(main())


def test_it_works_on_the_loop_of_uvloop_too():
    """Its transports are none of asyncio's classes."""
    served(b"\x20\x03\x00\x00\x00", uvloop.run)
