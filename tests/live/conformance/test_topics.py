"""Topic names and filters (section 4.7): what matches what, and what is not a name or a filter at all."""

from __future__ import annotations

import time

import pytest

from firelane.mqtt.packets import V3, V5, Disconnect, Suback, Subscribe
from firelane.mqtt.packets import Subscription as To
from firelane.mqtt.reasons import Reason
from live.conformance.statements import statement, statement3

MATCHES = [  # filter, topic, whether it matches; T is a first level of the test's own
    ("T", "T", True),
    ("T", "T/", False),
    ("T/", "T/", True),
    ("T/#", "T", True),
    ("T/#", "T/", True),
    ("T/#", "T/a/b/c", True),
    ("T/#", "Tx/a", False),
    ("T/+", "T", False),
    ("T/+", "T/", True),
    ("T/+", "T/a", True),
    ("T/+", "T/a/b", False),
    ("T/+/c", "T/b/c", True),
    ("T/+/c", "T//c", True),
    ("T/+/+", "T/a/b", True),
    ("T/+/#", "T/a", True),
    ("T/+/#", "T", False),
    ("+/T", "a/T", True),
    ("+/T", "/T", True),
    ("+/T/#", "/T", True),
    ("/+/T", "/a/T", True),
    ("+/+/T", "/a/T", True),
    ("/T", "T", False),
    ("T/A", "T/a", False),
    ("T/a b", "T/a b", True),
    ("T/é", "T/e\u0301", False),
    ("T/\ufeffa", "T/\ufeffa", True),
    ("T/a", "T/\ufeffa", False),
    ("T/$a/+", "T/$a/b", True),
    ("T/+/b", "T/$a/b", True),
]


@statement("MQTT-3.3.2-3", "MQTT-4.7.3-4", "MQTT-1.5.4-3", "MQTT-4.7.1-1", "MQTT-4.7.1-2")
@statement3("MQTT-3.3.2-3", "MQTT-4.7.3-4", "MQTT-1.5.3-3", "MQTT-4.7.1-2", "MQTT-4.7.1-3")
@pytest.mark.parametrize(("topic_filter", "name", "matches"), MATCHES)
def test_filters_match_names_letter_by_letter_and_level_by_level(join, topic, version, topic_filter, name, matches):
    wire = join(version)
    wire.subscribe(topic_filter.replace("T", topic))
    wire.publish(name.replace("T", topic), qos=1)
    if matches:
        assert wire.take().topic == name.replace("T", topic)
    else:
        wire.expect_nothing(0.02)


@statement("MQTT-4.7.2-1")
@statement3("MQTT-4.7.2-1")
def test_leading_wildcards_do_not_match_what_begins_with_a_dollar(join):
    informed, wires = join(), [join(version) for version in (V3, V5)]
    for wire in wires:
        wire.subscribe("#", "+/#", "+/broker/#")
    informed.subscribe("$SYS/#")
    assert informed.take().topic.startswith("$SYS/")
    time.sleep(1.2)  # in which the broker publishes what it counts
    for wire in wires:
        assert not any(message.topic.startswith("$") for message in wire.take_all())


@statement("MQTT-4.7.1-1", "MQTT-4.7.1-2")
@statement3("MQTT-4.7.1-2", "MQTT-4.7.1-3")
@pytest.mark.parametrize("topic_filter", ["a#", "a/#/b", "#/", "a/b#", "a+", "+a/b", "a/+b", "##", "++"])
def test_a_wildcard_out_of_place_is_no_filter(join, version, topic_filter):
    wire = join(version)
    wire.send(Subscribe(packet_id=1, subscriptions=[To(filter=topic_filter)]))
    wire.expect_closed(Reason.TOPIC_FILTER_INVALID)


@statement("MQTT-3.3.2-2", "MQTT-4.7.0-1")
@statement3("MQTT-3.3.2-2", "MQTT-4.7.1-1")
@pytest.mark.parametrize("name", ["#", "+", "a/#", "a/+/b", "a+"])
def test_a_wildcard_is_no_part_of_a_name(join, version, name):
    wire = join(version)
    wire.publish(name)
    wire.expect_closed(Reason.TOPIC_NAME_INVALID)


@statement("MQTT-4.7.3-1")
@statement3("MQTT-4.7.3-1")
def test_an_empty_filter_is_refused(join, version):
    wire = join(version)
    wire.send(Subscribe(packet_id=1, subscriptions=[To(filter="")]))
    wire.expect_closed(Reason.TOPIC_FILTER_INVALID)


@statement("MQTT-4.7.3-1")
@statement3("MQTT-4.7.3-1")
def test_an_empty_name_is_refused(join, version):
    wire = join(version)
    wire.publish("")
    wire.expect_closed(Reason.PROTOCOL_ERROR)


def test_names_and_filters_may_have_200_levels(join, topic, version):
    deep = topic + "/" * 199
    wire = join(version)
    wire.subscribe(deep)
    wire.publish(deep)
    assert wire.take().topic == deep


def test_names_and_filters_of_far_more_levels_are_refused(join, topic, version):
    too_deep = topic + "/" * 249
    publisher, subscriber = join(version), join(version)
    publisher.publish(too_deep)
    publisher.expect_closed(Reason.TOPIC_NAME_INVALID)
    subscriber.send(Subscribe(packet_id=1, subscriptions=[To(filter=too_deep)]))
    answer = subscriber.receive()
    if isinstance(answer, Suback):
        assert answer.reasons == [Reason.TOPIC_FILTER_INVALID if version == V5 else 0x80]
    else:
        assert answer is None or isinstance(answer, Disconnect)
