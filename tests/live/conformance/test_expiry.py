"""Message expiry (section 3.3.2.3.3): what is too old is not delivered, and what is delivered says how old it is."""

from __future__ import annotations

import time

import pytest

from firelane.mqtt.packets import Ack, Kind, Publish
from live.conformance.statements import differs, statement
from live.wire import unique

KEPT = {"clean_start": False, "properties": {"session_expiry_interval": 60}}


def expiring(seconds):
    return {"message_expiry_interval": seconds}


@statement("MQTT-3.3.2-6")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_passed_on_at_once_keeps_its_expiry(join, topic, qos):
    wire = join()
    wire.subscribe(topic, qos=qos)
    wire.publish(topic, qos=qos, properties=expiring(1000))
    assert 990 <= wire.take().properties["message_expiry_interval"] <= 1000


@statement("MQTT-3.3.2-5", "MQTT-3.3.2-6")
def test_messages_expire_while_a_client_is_away_and_the_others_have_less_left(join, topic):
    client_id, publisher = unique("c"), join()
    wire = join(client_id=client_id, **KEPT)
    wire.subscribe(topic, qos=1)
    wire.disconnect()
    for payload, seconds in ((b"short", 1), (b"long", 1000)):
        publisher.publish(topic, payload, qos=1, properties=expiring(seconds))
    publisher.publish(topic, b"for ever", qos=1)
    time.sleep(2.2)
    wire = join(client_id=client_id, **KEPT)
    long, for_ever = wire.take(), wire.take()
    assert (long.payload, for_ever.payload) == (b"long", b"for ever")
    assert 990 <= long.properties["message_expiry_interval"] <= 998
    assert "message_expiry_interval" not in for_ever.properties


@statement("MQTT-3.3.2-5", "MQTT-3.3.2-6")
def test_retained_messages_expire_too(join, topic):
    publisher, early, late = join(), join(), join()
    for name, seconds in (("short", 1), ("long", 1000)):
        publisher.publish(f"{topic}/{name}", b"kept", qos=1, retain=True, properties=expiring(seconds))
    early.subscribe(f"{topic}/+")
    assert sorted(early.take().topic for _ in range(2)) == [f"{topic}/long", f"{topic}/short"]
    time.sleep(2.2)
    late.subscribe(f"{topic}/+")
    message = late.take()
    assert message.topic == f"{topic}/long"
    assert message.properties["message_expiry_interval"] <= 998
    late.expect_nothing()


@differs("stops sending behind an expired message")
@statement("MQTT-3.3.2-5")
def test_messages_behind_a_full_window_expire(join, topic):
    publisher, wire = join(), join(properties={"receive_maximum": 1})
    wire.subscribe(topic, qos=1)
    publisher.publish(topic, b"first", qos=1)
    publisher.publish(topic, b"short", qos=1, properties=expiring(1))
    publisher.publish(topic, b"last", qos=1)
    first = wire.expect(Kind.PUBLISH)
    time.sleep(2.2)
    wire.send(Ack(kind=Kind.PUBACK, packet_id=first.packet_id))
    assert wire.take().payload == b"last"


@differs("forgets messages under way when they expire")
@statement("MQTT-4.3.3-7")
def test_a_message_already_sent_does_not_expire(join, topic):
    lost, superseded, publisher = unique("c"), unique("c"), join()
    wires = [join(client_id=client_id, **KEPT) for client_id in (lost, superseded)]
    for wire in wires:
        wire.subscribe(topic, qos=2)
    for qos in (1, 2):
        publisher.publish(topic, b"under way", qos=qos, properties=expiring(1))
    first = [wire.expect(Kind.PUBLISH).packet_id for wire in wires for _ in range(2)]
    wires[0].drop()
    time.sleep(2.2)
    wires = [join(client_id=client_id, **KEPT) for client_id in (lost, superseded)]
    again = [wire.expect(Kind.PUBLISH) for wire in wires for _ in range(2)]
    assert [message.packet_id for message in again] == first
    assert all(message.duplicate for message in again)


@statement("MQTT-4.3.3-13")
def test_the_handshake_goes_on_though_the_message_has_expired(join, topic):
    wire = join()
    wire.send(Publish(topic=topic, payload=b"", qos=2, packet_id=7, properties=expiring(1)))
    wire.expect(Kind.PUBREC)
    time.sleep(1.5)
    wire.send(Ack(kind=Kind.PUBREL, packet_id=7))
    assert wire.expect(Kind.PUBCOMP) == Ack(kind=Kind.PUBCOMP, packet_id=7)


def test_subscribers_of_3_1_1_are_spared_expired_messages_too(join, topic):
    client_id = unique("c")
    wire = join(4, client_id, clean_start=False)
    wire.subscribe(topic, qos=1)
    wire.disconnect()
    publisher = join()
    publisher.publish(topic, b"short", qos=1, properties=expiring(1))
    publisher.publish(topic, b"for ever", qos=1)
    time.sleep(2.2)
    assert join(4, client_id, clean_start=False).take().payload == b"for ever"
