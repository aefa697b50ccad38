"""Clients that ask for more than their share: of memory, of connections, of the exchange's attention."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, V5, Ack, Connect, Kind, Publish, Subscribe, Subscription, Unsubscribe
from firelane.mqtt.reasons import Reason
from live.hard.witness import MB, open_files
from live.wire import Wire

pytestmark = pytest.mark.slow

ROUTES_BYTES = 80 * MB  # 64 MB of routes are remembered, and something comes and goes


def test_thousands_of_distinct_long_topics_fill_no_memory(broker, witness, join):
    client = join()
    for number in range(4000):
        client.publish(f"{number}-" + "a" * 60_000)
    client.ping()
    assert witness.grown_bytes < ROUTES_BYTES  # 240 MB of topics were named


def test_nor_do_topics_with_aliases(broker, witness, join):
    client = join()
    for number in range(2000):
        topic = f"{number}-" + "a" * 60_000
        client.send(Publish(topic=topic, payload=b"", properties={"topic_alias": number % 100 + 1}))
    client.ping()
    assert witness.grown_bytes < ROUTES_BYTES  # beside the routes 100 aliases of 60 kB


def test_nor_do_thousands_of_distinct_topics_of_many_levels(broker, witness, join):
    client = join(version=V3)
    client.patience_s = 60
    for hundred in range(300):
        several = [Publish(topic=f"{hundred}/{one}" + "/b" * 100, payload=b"") for one in range(100)]
        client.send_raw(b"".join(encode(one, V3) for one in several))
    client.ping()
    assert witness.grown_bytes < ROUTES_BYTES


def test_a_publisher_faster_than_the_disk_is_slowed_down(broker, witness, join):
    away, publisher = join("away", properties={"session_expiry_interval": 3600}), join(version=V3)
    away.subscribe("a", qos=1)
    away.drop()
    message, count = Publish(topic="a", payload=bytes(900_000), qos=1), 300
    sending = threading.Thread(
        target=lambda: [publisher.send(replace(message, packet_id=one + 1)) for one in range(count)]
    )
    sending.start()  # and waits for no answer, as MQTT 3.1.1 allows
    assert all(publisher.receive().kind is Kind.PUBACK for _ in range(count))
    sending.join()
    assert witness.grown_bytes < 80 * MB  # 32 MB may not be on disk yet; 270 MB were sent


@pytest.mark.settings("exchange.limits.retained=1000")
def test_retained_messages_over_the_limit_are_not_kept(broker, witness, join):
    client = join()
    for number in range(20_000):
        client.publish(f"retained/{number}", bytes(1000), retain=True)
    client.ping()
    client.subscribe("retained/#")
    assert 900 <= len(client.take_all(1.0)) <= 1000  # the exchange's own about itself count too
    assert witness.grown_bytes < 20 * MB  # most of it is what is known of the rates of 20 000 topics


def test_subscriptions_beyond_the_limit_are_refused(broker, witness, join):
    client = join()
    reasons = []
    for hundred in range(50):
        reasons += client.subscribe(*(f"a/+/{hundred}/{one}/#" for one in range(100))).reasons
    assert reasons == [0] * 1000 + [Reason.QUOTA_EXCEEDED] * 4000
    assert witness.grown_bytes < 20 * MB


def test_a_storm_of_wildcard_subscriptions_holds_nobody_up(broker, witness, join):
    publisher, client = join(version=V3), join()
    publisher.patience_s = 60
    publisher.send_raw(b"".join(encode(Publish(topic=f"{one}/b", payload=b""), V3) for one in range(50_000)))
    publisher.ping()
    storm = b"".join(
        encode(Subscribe(packet_id=1, subscriptions=[Subscription(filter=f"+/{one}/c", qos=0)] * 10), V5)
        + encode(Unsubscribe(packet_id=1, filters=[f"+/{one}/c"]), V5)
        for one in range(100)
    )
    client.patience_s = 60
    client.send_raw(storm)
    for _ in range(100):
        client.expect(Kind.SUBACK)
        client.expect(Kind.UNSUBACK)


def test_a_storm_of_wildcard_subscriptions_over_many_retained_messages_holds_nobody_up(broker, witness, join):
    publisher, client = join(version=V3), join()
    publisher.patience_s = client.patience_s = 60
    kept = Publish(topic="", payload=b"1", retain=True)
    publisher.send_raw(b"".join(encode(replace(kept, topic=f"{one}/b"), V3) for one in range(20_000)))
    publisher.ping()
    client.subscribe(*(f"+/{one}/c" for one in range(100)))
    assert client.subscribe("19999/b").reasons == [0]
    assert client.take().payload == b"1"  # after all the others were looked for in vain


def test_storms_of_connections_leave_nothing_behind(broker, witness):
    before = open_files(broker)
    for round_ in range(10):
        with ExitStack() as open_ones:
            clients = [open_ones.enter_context(Wire(broker.port)) for _ in range(100)]
            for number, client in enumerate(clients):
                client.send(Connect(client_id=f"storm{number % 50}", version=V5))
            if round_ % 2:
                for client in clients[50:]:
                    client.expect(Kind.CONNACK)
    deadline = time.monotonic() + 30
    while open_files(broker) > before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert witness.grown_bytes < 20 * MB


@pytest.mark.settings("exchange.limits.connections=100")
def test_connections_beyond_the_limit_are_refused(broker, witness):
    with ExitStack() as open_ones:
        clients = [open_ones.enter_context(Wire(broker.port)) for _ in range(150)]
        reasons = [client.connect().reason for client in clients]
        assert reasons.count(0) == 98  # the witness has two
        assert reasons.count(Reason.QUOTA_EXCEEDED) == 52
        address = ("127.0.0.1", broker.port)
        far_too_many = [open_ones.enter_context(socket.create_connection(address)) for _ in range(300)]
        witness.wait()
        assert sum(is_closed(one) for one in far_too_many) >= 200
    assert witness.grown_bytes < 20 * MB


def is_closed(client):
    client.settimeout(0.01)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_who_never_acknowledges_gets_no_more_than_the_window(broker, witness, join):
    publisher, client = join(), join()
    client.subscribe("window", qos=1)
    for _ in range(1000):
        publisher.publish("window", bytes(10_000), qos=1)
    client.ping()
    assert len(client.waiting) == 100
    assert witness.grown_bytes < 40 * MB


def test_who_never_releases_qos_2_messages_is_stopped(broker, witness, join):
    """MQTT 5 has a limit; in 3.1.1 there are only so many packet identifiers."""
    client = join()
    for packet_id in range(1, 102):
        client.send(Publish(topic="a", payload=b"", qos=2, packet_id=packet_id))
    received = [client.receive() for _ in range(100)]
    assert all(one.kind is Kind.PUBREC for one in received)
    client.expect_closed(Reason.RECEIVE_MAXIMUM_EXCEEDED)
    client = join(version=V3, clean_start=False)
    client.patience_s, identifiers = 60, range(1, 65_536)
    for start in range(0, 65_535, 1000):
        several = identifiers[start : start + 1000]
        message = Publish(topic="a", payload=bytes(100), qos=2)
        client.send_raw(b"".join(encode(replace(message, packet_id=one), V3) for one in several))
        assert all(client.receive().kind is Kind.PUBREC for _ in several)
    assert witness.grown_bytes < 60 * MB
    client.send_raw(b"".join(encode(Ack(kind=Kind.PUBREL, packet_id=one), V3) for one in identifiers))
    assert all(client.receive().kind is Kind.PUBCOMP for _ in identifiers)
