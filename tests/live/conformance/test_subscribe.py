"""SUBSCRIBE and UNSUBSCRIBE (sections 3.8 to 3.11), overlapping subscriptions and their identifiers (3.3.4)."""

from __future__ import annotations

from itertools import chain

import pytest

from firelane.mqtt.packets import V5, Ack, Kind
from firelane.mqtt.packets import Subscription as To
from firelane.mqtt.reasons import Reason
from live.conformance.statements import differs, statement, statement3
from live.wire import unique


@statement("MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-2.2.1-6")
@statement3("MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-2.3.1-7")
def test_a_subscribe_is_answered_with_a_suback_of_the_same_identifier(join, topic, version):
    assert join(version).subscribe(topic, packet_id=60_000).packet_id == 60_000


@statement("MQTT-3.8.4-5", "MQTT-3.8.4-6", "MQTT-3.8.4-7", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
@statement3("MQTT-3.8.4-4", "MQTT-3.8.4-5", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
def test_several_filters_are_granted_in_one_suback_in_their_order(join, topic, version):
    wire = join(version)
    wanted = [To(filter=f"{topic}/{place}", qos=qos) for place, qos in enumerate((2, 0, 1))]
    assert wire.subscribe(*wanted).reasons == [2, 0, 1]
    for place in range(3):
        wire.publish(f"{topic}/{place}", qos=2)
    assert sorted((m.topic[-1], m.qos) for m in (wire.take() for _ in range(3))) == [("0", 2), ("1", 0), ("2", 1)]


@statement("MQTT-3.8.4-8")
@statement3("MQTT-3.8.4-6")
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_a_message_comes_with_the_lower_of_published_and_granted_qos(join, topic, version, published, granted):
    wire = join(version)
    wire.subscribe(topic, qos=granted)
    wire.publish(topic, qos=published)
    assert wire.take().qos == min(published, granted)


@statement("MQTT-3.8.4-3")
@statement3("MQTT-3.8.4-3")
def test_the_same_filter_again_replaces_the_subscription(join, topic, version):
    wire = join(version)
    wire.subscribe(topic, qos=2)
    wire.subscribe(topic, qos=0)
    wire.publish(topic, b"one copy", qos=2)
    assert wire.take().qos == 0
    wire.expect_nothing()


@statement("MQTT-3.8.4-4")
@statement3("MQTT-3.8.4-3")
def test_replacing_a_subscription_resends_retained_messages(join, topic, version):
    wire = join(version)
    wire.publish(topic, b"kept", retain=True)
    for _ in range(2):
        wire.subscribe(topic)
        assert wire.take().payload == b"kept"


@statement("MQTT-3.8.4-4")
@statement3("MQTT-3.8.4-3")
def test_replacing_a_subscription_loses_nothing(join, topic, version):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=1)
    for number in range(30):
        publisher.publish(topic, b"%d" % number, qos=1)
        if number % 10 == 5:
            subscriber.subscribe(topic, qos=1)
    assert [subscriber.take().payload for _ in range(30)] == [b"%d" % number for number in range(30)]


@statement("MQTT-3.3.4-2")
@statement3("MQTT-3.3.5-1")
@pytest.mark.parametrize(
    "order", [(0, 2), pytest.param((2, 0), marks=differs("takes the QoS of one of them", version=4))]
)
def test_overlapping_subscriptions_deliver_at_the_highest_qos(join, topic, version, order):
    wire = join(version)
    for topic_filter, qos in zip((f"{topic}/#", f"{topic}/a"), order, strict=True):
        wire.subscribe(topic_filter, qos=qos)
    wire.publish(f"{topic}/a", qos=2)
    assert max(message.qos for message in wire.take_all()) == 2


@differs("sends a copy for every subscription, as it may", version=5)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_overlapping_subscriptions_deliver_one_copy(join, topic, version, qos):
    wire = join(version)
    wire.subscribe(f"{topic}/#", f"{topic}/a", qos=qos)
    wire.publish(f"{topic}/a", qos=qos)
    assert len(wire.take_all()) == 1


@statement("MQTT-3.3.4-3", "MQTT-3.3.4-4", "MQTT-3.3.4-5")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_identifiers_of_all_subscriptions_that_match_come_with_the_message(join, topic, qos):
    wire = join()
    wire.subscribe(f"{topic}/#", qos=qos, subscription_identifier=[1])
    wire.subscribe(f"{topic}/+", qos=qos, subscription_identifier=[268_435_455])
    wire.subscribe(f"{topic}/a", qos=qos)
    wire.subscribe(f"{topic}/b", qos=qos, subscription_identifier=[3])
    wire.publish(f"{topic}/a", qos=qos)
    copies = [message.properties.get("subscription_identifier", []) for message in wire.take_all()]
    assert sorted(chain(*copies)) == [1, 268_435_455]
    assert len(copies) in (1, 3)


def test_a_subscription_without_identifier_brings_none(join, topic):
    wire = join()
    wire.subscribe(topic, subscription_identifier=[5])
    wire.subscribe(topic)
    wire.publish(topic)
    assert "subscription_identifier" not in wire.take().properties


def test_the_identifier_stays_with_the_session(join, topic):
    client_id, kept = unique("c"), {"clean_start": False, "properties": {"session_expiry_interval": 60}}
    wire = join(client_id=client_id, **kept)
    wire.subscribe(topic, qos=1, subscription_identifier=[5])
    wire.drop()
    join().publish(topic, qos=1)
    assert join(client_id=client_id, **kept).take().properties["subscription_identifier"] == [5]


@statement("MQTT-3.8.3-3")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_local_withholds_ones_own_messages_only(join, topic, qos):
    one, other = join(), join()
    one.subscribe(To(filter=topic, qos=qos, no_local=True))
    one.publish(topic, b"mine", qos=qos)
    other.publish(topic, b"theirs", qos=qos)
    assert one.take().payload == b"theirs"
    one.expect_nothing()


@statement("MQTT-3.10.4-2", "MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-2.2.1-6", "MQTT-3.11.3-2")
@statement3("MQTT-3.10.4-2", "MQTT-3.10.4-4", "MQTT-2.3.1-7")
def test_after_unsubscribing_nothing_more_comes(join, topic, version):
    wire = join(version)
    wire.subscribe(topic)
    answer = wire.unsubscribe(topic, packet_id=1234)
    assert answer.packet_id == 1234
    assert answer.reasons == ([Reason.SUCCESS] if version == V5 else [])
    wire.publish(topic)
    wire.expect_nothing()


@statement("MQTT-3.10.4-5")
@statement3("MQTT-3.10.4-5")
def test_unsubscribing_from_what_was_not_subscribed_is_answered_too(join, topic, version):
    answer = join(version).unsubscribe(topic, packet_id=1234)
    assert answer.packet_id == 1234
    assert answer.reasons == ([Reason.NO_SUBSCRIPTION_EXISTED] if version == V5 else [])


@statement("MQTT-3.10.4-6", "MQTT-3.11.3-1", "MQTT-3.11.3-2")
@statement3("MQTT-3.10.4-6")
def test_several_filters_are_unsubscribed_with_one_answer_in_their_order(join, topic, version):
    wire = join(version)
    wire.subscribe(f"{topic}/a", f"{topic}/b", f"{topic}/c")
    answer = wire.unsubscribe(f"{topic}/a", f"{topic}/x", f"{topic}/b")
    assert answer.reasons == ([0, Reason.NO_SUBSCRIPTION_EXISTED, 0] if version == V5 else [])
    for letter in "abc":
        wire.publish(f"{topic}/{letter}")
    assert wire.take().topic == f"{topic}/c"
    wire.expect_nothing()


@statement("MQTT-3.10.4-1")
@statement3("MQTT-3.10.4-1")
def test_unsubscribing_compares_filters_letter_by_letter(join, topic, version):
    wire = join(version)
    wire.subscribe(f"{topic}/a", f"{topic}/+/c")
    wire.unsubscribe(f"{topic}/+", f"{topic}/#", f"{topic}/A", f"{topic}/b/c")
    for name in ("a", "b/c"):
        wire.publish(f"{topic}/{name}")
        assert wire.take().topic == f"{topic}/{name}"


@statement("MQTT-3.10.4-3")
@statement3("MQTT-3.10.4-3")
def test_a_delivery_under_way_is_completed_after_unsubscribing(join, topic, version):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    publisher.publish(topic, b"under way", qos=2)
    message = subscriber.expect(Kind.PUBLISH)
    subscriber.unsubscribe(topic)
    subscriber.send(Ack(kind=Kind.PUBREC, packet_id=message.packet_id))
    assert subscriber.expect(Kind.PUBREL) == Ack(kind=Kind.PUBREL, packet_id=message.packet_id)
