"""Retained messages (section 3.3.1.3) and the subscription options about them."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import Publish
from firelane.mqtt.packets import Subscription as To
from live.conformance.statements import differs, statement, statement3
from live.wire import unique


@statement("MQTT-3.3.1-5", "MQTT-3.3.1-9")
@statement3("MQTT-3.3.1-5", "MQTT-3.3.1-6", "MQTT-3.3.1-8")
def test_a_new_subscription_gets_the_last_retained_message_marked_so(join, topic, version):
    join(version).publish(topic, b"old", retain=True)
    join(version).publish(topic, b"new", retain=True)
    wire = join(version)
    wire.subscribe(topic)
    assert wire.take() == Publish(topic=topic, payload=b"new", retain=True)
    wire.expect_nothing()


@statement("MQTT-3.3.1-9")
@statement3("MQTT-3.3.1-6")
def test_a_wildcard_gets_the_retained_message_of_every_topic_it_matches(join, topic, version):
    publisher, wire = join(version), join(version)
    for name in ("a", "b/c", "b"):
        publisher.publish(f"{topic}/{name}", retain=True, payload=b"kept")
    publisher.ping()
    wire.subscribe(f"{topic}/+")
    assert sorted(wire.take().topic for _ in range(2)) == [f"{topic}/a", f"{topic}/b"]
    wire.subscribe(f"{topic}/b/#")
    assert sorted(wire.take().topic for _ in range(2)) == [f"{topic}/b", f"{topic}/b/c"]
    wire.expect_nothing()


@statement("MQTT-3.3.1-5")
@statement3("MQTT-3.3.1-5")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_qos_of_a_retained_message_is_kept_with_it(join, topic, version, qos):
    join(version).publish(topic, b"kept", qos=qos, retain=True)
    wire = join(version)
    wire.subscribe(topic, qos=2)
    assert wire.take().qos == qos


@statement3("MQTT-3.3.1-7")
def test_a_qos_0_retained_message_drops_the_one_before(join, topic, version):
    publisher, wire = join(version), join(version)
    publisher.publish(topic, b"old", qos=1, retain=True)
    publisher.publish(topic, b"new", qos=0, retain=True)
    publisher.ping()
    wire.subscribe(topic, qos=2)
    assert wire.take().payload == b"new"
    wire.expect_nothing()


@statement("MQTT-3.3.1-6", "MQTT-3.3.1-7")
@statement3("MQTT-3.3.1-10", "MQTT-3.3.1-11")
def test_an_empty_retained_message_is_delivered_and_removes_the_retained_one(join, topic, version):
    publisher, present = join(version), join(version)
    publisher.publish(topic, b"kept", qos=1, retain=True)
    present.subscribe(topic)
    present.take()
    publisher.publish(topic, b"", qos=1, retain=True)
    assert present.take().payload == b""
    future = join(version)
    future.subscribe(topic)
    future.expect_nothing()


@statement("MQTT-3.3.1-8")
@statement3("MQTT-3.3.1-12")
def test_a_message_without_retain_leaves_the_retained_one_alone(join, topic, version):
    publisher, wire = join(version), join(version)
    publisher.publish(topic, b"kept", qos=1, retain=True)
    publisher.publish(topic, b"passing", qos=1)
    publisher.publish(topic, b"", qos=1)
    publisher.publish(f"{topic}/other", b"passing", qos=1)
    wire.subscribe(f"{topic}/#")
    assert wire.take().payload == b"kept"
    wire.expect_nothing()


@statement("MQTT-3.3.1-12")
@statement3("MQTT-3.3.1-9")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_established_subscription_gets_messages_without_retain(join, topic, version, qos):
    wire = join(version)
    wire.subscribe(topic, qos=qos)
    wire.publish(topic, b"news", qos=qos, retain=True)
    assert not wire.take().retain


@statement("MQTT-3.3.1-13")
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_retain_as_published_forwards_retain_as_it_came(join, topic, retain, qos):
    wire = join()
    wire.subscribe(To(filter=topic, qos=qos, retain_as_published=True))
    wire.publish(topic, b"news", qos=qos, retain=retain)
    assert wire.take().retain == retain


@statement("MQTT-3.3.1-9", "MQTT-3.3.1-10", "MQTT-3.3.1-11")
@pytest.mark.parametrize(("handling", "times"), [(0, 2), (1, 1), (2, 0)])
def test_retain_handling_says_when_retained_messages_are_sent(join, topic, handling, times):
    wire = join()
    wire.publish(topic, b"kept", qos=1, retain=True)
    for turn in range(2):
        wire.subscribe(To(filter=topic, retain_handling=handling))
        if turn < times:
            assert wire.take().retain
        wire.expect_nothing()


@statement("MQTT-3.3.1-10")
def test_retain_handling_1_sends_them_again_after_unsubscribing(join, topic):
    wire = join()
    wire.publish(topic, b"kept", qos=1, retain=True)
    for _ in range(2):
        wire.subscribe(To(filter=topic, retain_handling=1))
        assert wire.take().retain
        wire.unsubscribe(topic)


@statement3("MQTT-3.1.2-7")
def test_retained_messages_outlive_the_session_of_their_publisher(join, topic, version):
    client_id = unique("c")
    publisher = join(version, client_id)
    publisher.publish(topic, b"kept", qos=1, retain=True)
    publisher.disconnect()
    wire = join(version, client_id)
    wire.subscribe(topic)
    assert wire.take().payload == b"kept"


@differs("sends retained messages to shared subscriptions")
def test_a_shared_subscription_gets_no_retained_messages(join, topic):
    wire = join()
    wire.publish(topic, b"kept", qos=1, retain=True)
    wire.subscribe(f"$share/g/{topic}")
    wire.expect_nothing()
