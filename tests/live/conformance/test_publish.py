"""PUBLISH (section 3.3): what a subscriber gets is what the publisher sent."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import V3, V5, Kind, Publish
from live.conformance.statements import statement, statement3


@statement("MQTT-4.3.1-1", "MQTT-3.3.1-2", "MQTT-2.2.1-2", "MQTT-2.2.2-1", "MQTT-3.3.2-1", "MQTT-3.3.2-3")
@statement3("MQTT-4.3.1-1", "MQTT-3.3.1-2", "MQTT-2.3.1-5", "MQTT-3.3.2-1", "MQTT-3.3.2-3")
def test_a_qos_0_message_arrives_as_it_was_sent(join, topic, version):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(f"{topic}/+")
    publisher.publish(f"{topic}/a", b"\0payload\xff")
    assert subscriber.receive() == Publish(topic=f"{topic}/a", payload=b"\0payload\xff")


@statement("MQTT-1.5.5-1")
@pytest.mark.parametrize("length", [0, 100, 127, 128, 129, 16_383, 16_384, 200_000])
def test_payloads_of_all_lengths_arrive_whole(join, topic, version, length):
    wire = join(version)
    wire.subscribe(topic)
    payload = bytes(number % 251 for number in range(length))
    wire.publish(topic, payload)
    assert wire.take().payload == payload


@pytest.mark.parametrize(("sent_in", "read_in"), [(V3, V5), (V5, V3)])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_pass_from_one_version_to_the_other(join, topic, sent_in, read_in, qos):
    publisher, subscriber = join(sent_in), join(read_in)
    subscriber.subscribe(topic, qos=2)
    publisher.publish(topic, b"across", qos=qos, properties={"content_type": "text/plain"})
    message = subscriber.take()
    assert (message.topic, message.payload, message.qos) == (topic, b"across", qos)


@statement("MQTT-3.3.1-3")
@statement3("MQTT-3.3.1-3")
@pytest.mark.parametrize("qos", [1, 2])
def test_the_publishers_dup_is_not_passed_on(join, topic, version, qos):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    publisher.publish(topic, b"again", qos=qos, duplicate=True)
    assert not subscriber.take().duplicate


@statement("MQTT-4.7.3-3")
@statement3("MQTT-4.7.3-3")
def test_a_topic_name_may_have_65_535_bytes(join, topic, version):
    longest = topic + "x" * (65_535 - len(topic))
    wire = join(version)
    assert wire.subscribe(longest).reasons == [0]
    wire.publish(longest, b"long")
    assert wire.take().topic == longest


@statement("MQTT-4.5.0-1")
@statement3("MQTT-4.5.0-1")
def test_every_subscriber_that_matches_gets_the_message_and_nobody_else(join, topic, version):
    publisher, *others = (join(version) for _ in range(5))
    filters = (f"x/{topic}", f"x/{topic}/#", f"+/{topic}", f"x/{topic}/x")
    for subscriber, topic_filter in zip(others, filters, strict=True):
        subscriber.subscribe(topic_filter)
    publisher.publish(f"x/{topic}", b"news")
    for subscriber in others[:3]:
        assert subscriber.take().payload == b"news"
    others[3].expect_nothing()


@statement("MQTT-3.3.4-1")
@statement3("MQTT-3.3.4-1")
def test_a_qos_0_message_is_not_answered(join, topic, version):
    wire = join(version)
    wire.publish(topic, b"nobody listens")
    wire.expect_nothing()


def test_several_packets_in_one_segment_are_all_read(join, topic, version):
    wire = join(version)
    wire.subscribe(topic)
    one = b"".join(b"\x30" + bytes((len(body),)) + body for body in bodies(topic, version))
    wire.send_raw(one)
    assert [wire.expect(Kind.PUBLISH).payload for _ in range(20)] == [b"%d" % number for number in range(20)]


def bodies(topic, version):
    head = len(topic).to_bytes(2, "big") + topic.encode() + (b"\0" if version == V5 else b"")
    return [head + b"%d" % number for number in range(20)]
