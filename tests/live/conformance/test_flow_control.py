"""Receive maximum and maximum packet size (sections 3.1.2.11, 3.2.2.3, 3.3.4 and 4.9), in both directions."""

from __future__ import annotations

import pytest

from firelane.mqtt import fields
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Disconnect, Kind, Publish
from firelane.mqtt.reasons import Reason
from live.conformance.statements import differs, statement
from live.wire import unique


def payloads(messages):
    return [message.payload for message in messages]


@differs("sends two messages for one that is acknowledged")
@statement("MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2")
def test_no_more_than_receive_maximum_messages_are_under_way(join, topic):
    publisher, subscriber = join(), join(properties={"receive_maximum": 2})
    subscriber.subscribe(topic, qos=2)
    for number in range(5):
        publisher.publish(topic, b"%d" % number, qos=1)
    first, second = subscriber.expect(Kind.PUBLISH), subscriber.expect(Kind.PUBLISH)
    subscriber.expect_nothing()
    subscriber.send(Ack(kind=Kind.PUBACK, packet_id=first.packet_id))
    third = subscriber.expect(Kind.PUBLISH)
    assert payloads([first, second, third]) == [b"0", b"1", b"2"]
    subscriber.expect_nothing()


@statement("MQTT-3.3.4-10", "MQTT-4.9.0-3")
def test_a_full_window_holds_up_nothing_but_messages(join, topic):
    publisher, subscriber = join(), join(properties={"receive_maximum": 1})
    subscriber.subscribe(f"{topic}/+", qos=1)
    for number in range(2):
        publisher.publish(f"{topic}/a", b"%d" % number, qos=1)
    subscriber.expect(Kind.PUBLISH)
    subscriber.ping()
    assert subscriber.subscribe(f"{topic}/b").reasons == [0]
    assert subscriber.unsubscribe(f"{topic}/b").reasons == [0]
    assert subscriber.publish(topic, qos=1).reason in (Reason.SUCCESS, Reason.NO_MATCHING_SUBSCRIBERS)


@statement("MQTT-3.3.4-9", "MQTT-4.9.0-2")
def test_a_qos_2_message_is_under_way_until_pubcomp(join, topic):
    publisher, subscriber = join(), join(properties={"receive_maximum": 1})
    subscriber.subscribe(topic, qos=2)
    for number in range(2):
        publisher.publish(topic, b"%d" % number, qos=2)
    message = subscriber.expect(Kind.PUBLISH)
    subscriber.send(Ack(kind=Kind.PUBREC, packet_id=message.packet_id))
    subscriber.expect(Kind.PUBREL)
    subscriber.expect_nothing()
    subscriber.send(Ack(kind=Kind.PUBCOMP, packet_id=message.packet_id))
    assert subscriber.take().payload == b"1"


@statement("MQTT-3.3.4-9", "MQTT-4.9.0-2")
@pytest.mark.parametrize(("qos", "kind"), [(1, Kind.PUBACK), (2, Kind.PUBREC)])
def test_a_refused_message_is_no_longer_under_way(join, topic, qos, kind):
    publisher, subscriber = join(), join(properties={"receive_maximum": 1})
    subscriber.subscribe(topic, qos=2)
    for number in range(2):
        publisher.publish(topic, b"%d" % number, qos=qos)
    message = subscriber.expect(Kind.PUBLISH)
    subscriber.send(Ack(kind=kind, packet_id=message.packet_id, reason=Reason.UNSPECIFIED_ERROR))
    assert subscriber.expect(Kind.PUBLISH).payload == b"1"


@statement("MQTT-3.3.4-9")
def test_the_receive_maximum_holds_for_what_waited_too(join, topic):
    client_id, kept = unique("c"), {"session_expiry_interval": 60}
    subscriber = join(client_id=client_id, properties=kept)
    subscriber.subscribe(topic, qos=1)
    subscriber.disconnect()
    publisher = join()
    for number in range(5):
        publisher.publish(topic, b"%d" % number, qos=1)
    subscriber = join(client_id=client_id, clean_start=False, properties=kept | {"receive_maximum": 3})
    first = [subscriber.expect(Kind.PUBLISH) for _ in range(3)]
    subscriber.expect_nothing()
    for message in first:
        subscriber.send(Ack(kind=Kind.PUBACK, packet_id=message.packet_id))
    assert payloads(first + [subscriber.take() for _ in range(2)]) == [b"%d" % number for number in range(5)]


@differs("refuses the message with quota exceeded and keeps the connection")
@statement("MQTT-3.3.4-7", "MQTT-4.9.0-1")
def test_a_client_that_exceeds_the_servers_receive_maximum_is_thrown_out(join, topic):
    wire = join()
    most = wire.connack.properties.get("receive_maximum", 65_535)
    messages = [Publish(topic=topic, payload=b"", qos=2, packet_id=number) for number in range(1, most + 2)]
    wire.send_raw(b"".join(encode(message, V5) for message in messages))
    while isinstance(packet := wire.receive(), Ack) and packet.reason < 0x80:
        pass  # those within the maximum may be acknowledged
    assert isinstance(packet, Disconnect)
    assert packet.reason == Reason.RECEIVE_MAXIMUM_EXCEEDED
    wire.expect_closed()


@statement("MQTT-3.2.2-15", "MQTT-4.13.1-1")
def test_a_packet_above_the_servers_maximum_size_ends_the_connection(join, topic):
    wire = join()
    most = wire.connack.properties["maximum_packet_size"]
    wire.send_raw(b"\x30" + fields.variable(most) + fields.string(topic) + b"\0")
    wire.expect_closed(Reason.PACKET_TOO_LARGE)


def test_a_packet_of_the_servers_maximum_size_passes(join, topic):
    wire = join()
    most = wire.connack.properties["maximum_packet_size"]
    wire.subscribe(topic)
    empty = len(encode(Publish(topic=topic, payload=bytes(100_000)), V5)) - 100_000
    wire.publish(topic, bytes(most - empty))
    assert len(wire.take().payload) == most - empty


@differs("sends one byte too many, and at QoS 1 and 2 nothing more once a message was too large")
@statement("MQTT-3.1.2-24", "MQTT-3.1.2-25")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_too_large_for_the_client_counts_as_delivered(join, topic, qos):
    publisher, subscriber = join(), join(properties={"maximum_packet_size": 100, "receive_maximum": 1})
    subscriber.subscribe(topic, qos=2)
    fits = 100 - (len(encode(Publish(topic=topic, payload=bytes(80), qos=qos), V5)) - 80)
    for payload in (bytes(101), bytes(fits + 1), bytes(fits), b"small"):
        publisher.publish(topic, payload, qos=qos)
    assert payloads(subscriber.take() for _ in range(2)) == [bytes(fits), b"small"]
    assert subscriber.largest_bytes == 100


@statement("MQTT-3.1.2-24")
def test_others_get_a_message_that_is_too_large_for_one(join, topic):
    small, large, publisher = join(properties={"maximum_packet_size": 100}), join(), join()
    for wire in (small, large):
        wire.subscribe(topic)
    publisher.publish(topic, bytes(200))
    assert len(large.take().payload) == 200
    small.expect_nothing()


CAUSES = {
    "PUBACK": lambda wire, topic: wire.publish(topic, qos=1),
    "PUBREC": lambda wire, topic: wire.publish(topic, qos=2),
    "PUBREL": lambda wire, topic: wire.send(Ack(kind=Kind.PUBREC, packet_id=99)),
    "PUBCOMP": lambda wire, topic: wire.send(Ack(kind=Kind.PUBREL, packet_id=99)),
    "SUBACK": lambda wire, topic: wire.subscribe(topic, f"{topic}/b", f"$share/g/{topic}"),
    "UNSUBACK": lambda wire, topic: wire.unsubscribe(topic),
    "DISCONNECT": lambda wire, topic: wire.send_raw(b"\x36\x07\0\1a\0\1\0x"),
}


@statement("MQTT-3.4.2-2", "MQTT-3.4.2-3", "MQTT-3.5.2-2", "MQTT-3.5.2-3", "MQTT-3.6.2-2", "MQTT-3.6.2-3")
@statement("MQTT-3.7.2-2", "MQTT-3.7.2-3", "MQTT-3.9.2-1", "MQTT-3.9.2-2", "MQTT-3.11.2-1", "MQTT-3.11.2-2")
@statement("MQTT-3.14.2-3", "MQTT-3.14.2-4", "MQTT-3.1.2-24")
@pytest.mark.parametrize("cause", CAUSES)
def test_reason_strings_and_user_properties_that_do_not_fit_are_left_out(join, topic, cause):
    small, usual = join(properties={"maximum_packet_size": 40}), join()
    for wire in (small, usual):
        CAUSES[cause](wire, topic)
        if cause != "DISCONNECT":
            wire.ping()
        else:
            wire.receive()
    assert small.largest_bytes <= 40
