"""Packets that are too large, too deep, unfinished or no packets at all: told, closed, and nobody else notices."""

from __future__ import annotations

import random
import socket
import ssl
import time
from contextlib import ExitStack

import pytest

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, V5, Connect, Kind, Publish, Subscribe, Subscription
from firelane.mqtt.reasons import Reason
from live.brokers import firelane
from live.hard.ports import port_of, tls_and_websocket
from live.hard.witness import MB, Witness, open_files
from live.wire import Wire

pytestmark = pytest.mark.slow

HUGE = bytes((Kind.PUBLISH << 4, 0xFF, 0xFF, 0xFF, 0x7F))  # 268 435 455 bytes are to follow
BOUND_BYTES = 20 * MB


def test_a_packet_over_the_limit_is_refused(broker, witness, join):
    for _ in range(20):
        client = join()
        client.send(Publish(topic="a", payload=bytes(2 * MB)))
        client.expect_closed(Reason.PACKET_TOO_LARGE)
    assert witness.grown_bytes < BOUND_BYTES


@pytest.mark.settings("exchange.limits.packet=256MB")
def test_a_promise_of_256_megabytes_takes_no_memory(broker, witness, join):
    for client in [join() for _ in range(20)]:
        client.send_raw(HUGE[:4] + b"\x70")
    witness.wait()
    assert witness.grown_bytes < BOUND_BYTES


def test_and_with_the_default_limit_it_is_refused_at_once(broker, witness, join):
    for client in [join() for _ in range(20)]:
        client.send_raw(HUGE)
        client.expect_closed(Reason.PACKET_TOO_LARGE)


def test_topics_and_filters_of_thousands_of_levels_are_refused(broker, witness, join):
    deep = "/" * 65_535
    for _ in range(20):
        client = join()
        client.send(Publish(topic=deep, payload=b""))
        client.expect_closed(Reason.TOPIC_NAME_INVALID)
        client = join()
        client.send(Subscribe(packet_id=1, subscriptions=[Subscription(filter="+" + deep[1:], qos=0)] * 10))
        assert client.receive().reasons == [Reason.TOPIC_FILTER_INVALID] * 10
    assert witness.grown_bytes < BOUND_BYTES


def test_a_flood_of_user_properties_is_refused(broker, witness, join):
    for properties in ({"user_property": [("", "")] * 150_000}, {"user_property": [("a", "b" * 60_000)] * 15}):
        for _ in range(10):
            client = join()
            client.subscribe("a")
            client.send(Publish(topic="a", payload=b"", properties=properties))
            answer = client.receive()
            assert getattr(answer, "reason", Reason.QUOTA_EXCEEDED) == Reason.QUOTA_EXCEEDED
    assert witness.grown_bytes < BOUND_BYTES


def test_topic_aliases_beyond_the_limit_or_never_set_are_refused(broker, witness, join):
    for alias, topic, reason in (
        (101, "a", Reason.TOPIC_ALIAS_INVALID),
        (0, "a", Reason.TOPIC_ALIAS_INVALID),
        (7, "", Reason.PROTOCOL_ERROR),
    ):
        client = join()
        client.send(Publish(topic=topic, payload=b"", properties={"topic_alias": alias}))
        client.expect_closed(reason)


def test_nobody_publishes_as_the_exchange(broker, witness, join):
    watcher, client = join(), join()
    watcher.subscribe("$SYS/fake/#", "$SYS")
    assert client.publish("$SYS/fake/load", b"0", qos=1).reason == Reason.NOT_AUTHORIZED
    assert client.publish("$SYS", b"0", qos=2).reason == Reason.NOT_AUTHORIZED
    client.publish("$SYS/fake/load", b"0", retain=True)
    watcher.expect_nothing()


def test_random_bytes_only_close_their_own_connection(broker, witness):
    chance = random.Random(1)
    before = open_files(broker)
    hellos = (b"", encode(Connect(client_id="r", version=V5), V5), encode(Connect(client_id="r", version=V3), V3))
    for number in range(600):
        with Wire(broker.port) as client:
            client.send_raw(hellos[number % 3] + chance.randbytes(chance.choice((1, 2, 5, 50, 5000))))
    broken_packets(broker, chance)
    deadline = time.monotonic() + 30
    while open_files(broker) > before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert witness.grown_bytes < BOUND_BYTES


def broken_packets(broker, chance):
    """Valid packets with some bytes changed."""
    for version in (V3, V5):
        properties = {"user_property": [("a", "b")], "message_expiry_interval": 5} if version == V5 else {}
        packets = [
            encode(Publish(topic="a/b", payload=b"12", qos=2, packet_id=3, properties=properties), version),
            encode(Subscribe(packet_id=2, subscriptions=[Subscription(filter="a/+", qos=2)]), version),
            encode(Connect(client_id="r", version=version, user="u", password=b"p"), version),
        ]
        for _ in range(300):
            with Wire(broker.port) as client:
                hello = encode(Connect(client_id="broken", version=version), version)
                several = bytearray(b"".join(chance.choices(packets, k=3)))
                for _ in range(chance.randint(1, 4)):
                    several[chance.randrange(len(several))] = chance.randrange(256)
                client.send_raw(hello + several)


def test_other_protocols_on_the_ports_for_tls_and_websockets_are_let_go(tmp_path):
    with firelane(tmp_path, *tls_and_websocket(tmp_path)) as broker, Witness(broker) as witness:
        before = open_files(broker)
        ports = [port_of(broker, "mqtts"), port_of(broker, "ws")]
        with ExitStack() as open_ones:
            for port in ports:
                clients = [open_ones.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                           for _ in strange_words()]  # fmt: skip
                for client, words in zip(clients, strange_words(), strict=True):
                    client.sendall(words)
                for client in clients:
                    assert_closed(client)
        for _ in range(10):  # and a TLS client that leaves in the middle
            with socket.create_connection(("127.0.0.1", ports[0]), timeout=20) as client:
                context = ssl.create_default_context()
                with pytest.raises(ssl.SSLError):
                    context.wrap_socket(client, server_hostname="elsewhere")
        witness.wait()
        assert open_files(broker) <= before
        assert witness.grown_bytes < BOUND_BYTES


def strange_words():
    upgrade = (
        b"GET /mqtt HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
    yield encode(Connect(client_id="plain", version=V5), V5)
    yield b"GET / HTTP/1.0\r\n\r\n"
    yield b"\x00" * 1000
    yield random.Random(2).randbytes(10_000)
    yield upgrade + b"\xff" * 100
    yield upgrade + b"\x81\x85\0\0\0\0hello"  # text
    yield upgrade + b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"  # a frame of eight exabytes
    yield upgrade + b"\x82\x85\0\0\0\0hello"  # binary, but no CONNECT


def assert_closed(client):
    """The other side hangs up, whatever it says before."""
    try:
        while client.recv(65_536):
            pass
    except ConnectionError:
        pass
