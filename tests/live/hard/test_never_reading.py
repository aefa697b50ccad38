"""Clients that take nothing: what they are owed waits within bounds, and they harm nobody but themselves."""

from __future__ import annotations

import time

import pytest

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, Kind, Ping, Publish
from live.hard.witness import MB, open_files
from live.wire import Wire

pytestmark = pytest.mark.slow

PAYLOAD = bytes(100_000)
TOPIC = "flood"


@pytest.fixture
def deaf(broker):
    """A subscriber that reads no messages."""
    with Wire(broker.port) as wire:
        wire.connect("deaf")
        wire.subscribe(TOPIC, qos=1)
        yield wire


def test_what_is_published_at_qos_0_to_one_that_never_reads_is_dropped(broker, witness, join, deaf):
    publisher = join()
    for _ in range(1000):
        publisher.publish(TOPIC, PAYLOAD)
    publisher.ping()
    assert witness.grown_bytes < 40 * MB  # 16 MB may wait for one client; 100 MB were sent


def test_what_is_published_at_qos_1_waits_in_the_log_and_comes_later(broker, witness, join, deaf):
    publisher = join()
    count = 1000
    for _ in range(count):
        publisher.publish(TOPIC, PAYLOAD, qos=1)
    assert witness.grown_bytes < 60 * MB  # 16 MB may wait in memory; 100 MB were sent
    for _ in range(count):
        assert deaf.take().payload == PAYLOAD


@pytest.mark.parametrize(
    "question", [Ping(Kind.PINGREQ), Publish(topic="a", payload=b"", qos=1, packet_id=1)], ids=["ping", "publish"]
)
def test_a_client_that_reads_no_answers_is_asked_nothing_more(broker, witness, join, question):
    client = join(version=V3)
    taken_bytes = send_what_is_taken(client.socket, encode(question, V3) * 10_000, most_bytes=50 * MB)
    assert taken_bytes < 50 * MB
    assert witness.grown_bytes < 10 * MB  # 1 MB beyond one packet may wait for it


def test_a_client_that_reads_nothing_is_gone_when_its_keep_alive_is_over(broker, witness, join, deaf):
    before = open_files(broker)
    with Wire(broker.port) as wire:
        wire.connect(keep_alive_s=1)
        wire.subscribe(TOPIC)
        publisher = join()
        for _ in range(100):
            publisher.publish(TOPIC, PAYLOAD)
        publisher.ping()
        deadline = time.monotonic() + 30
        while open_files(broker) > before + 1:  # the publisher
            assert time.monotonic() < deadline
            time.sleep(0.1)


def send_what_is_taken(to, data, most_bytes, patience_s=2.0):
    """Send again and again until the broker takes no more for a while."""
    to.settimeout(patience_s)
    sent = 0
    try:
        while sent < most_bytes:
            sent += to.send(data)
    except (TimeoutError, ConnectionError):
        pass
    return sent
