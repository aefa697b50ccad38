"""Shared subscriptions (section 4.8.2): a group shares the messages of a filter among its members."""

from __future__ import annotations

import time
from itertools import chain

import pytest

from firelane.mqtt.packets import Ack, Kind, Subscribe
from firelane.mqtt.packets import Subscription as To
from firelane.mqtt.reasons import Reason
from live.conformance.statements import differs, statement
from live.wire import PATIENCE_S, unique


def members(join, topic, *, qos=0, count=2, expiry_s=0):
    """Clients that share a subscription."""
    wires = []
    for _ in range(count):
        client_id = unique("c")
        wires.append(join(client_id=client_id, properties={"session_expiry_interval": expiry_s}))
        wires[-1].client_id = client_id
        wires[-1].subscribe(f"$share/group/{topic}", qos=qos)
    return wires


def chosen(wires):
    """The member that gets the next message, the message, and the other members."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for wire in wires:
            wire.ping()
            if wire.waiting:
                return wire, wire.expect(Kind.PUBLISH), [other for other in wires if other is not wire]
    raise TimeoutError("no member of the group got the message")


@statement("MQTT-4.8.2-1", "MQTT-4.8.2-2")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_goes_to_one_member_of_every_group(join, topic, qos):
    group = members(join, f"{topic}/#", qos=qos, count=3)
    lone, plain, publisher = join(), join(), join()
    lone.subscribe(f"$share/other/{topic}/+", qos=qos)
    plain.subscribe(f"{topic}/a", qos=qos)
    sent = [b"%d" % number for number in range(30)]
    for payload in sent:
        publisher.publish(f"{topic}/a", payload, qos=qos)
    shares = [[message.payload for message in wire.take_all()] for wire in group]
    assert sorted(chain(*shares), key=int) == sent
    assert [message.payload for message in lone.take_all()] == sent
    assert [message.payload for message in plain.take_all()] == sent


def test_the_topic_name_of_a_shared_message_is_the_publishers(join, topic):
    (wire,) = members(join, f"{topic}/+", count=1)
    wire.publish(f"{topic}/a")
    assert wire.take().topic == f"{topic}/a"


def test_a_member_that_leaves_the_group_gets_nothing_more(join, topic):
    one, other = members(join, topic)
    assert one.unsubscribe(f"$share/group/{topic}").reasons == [Reason.SUCCESS]
    for _ in range(10):
        other.publish(topic)
    assert len(other.take_all()) == 10
    one.expect_nothing()


ACCEPTED = differs("accepts such filters")
SHARED_WRONG = [
    *(pytest.param(one, marks=ACCEPTED) for one in ("$share/", "$share/g", "$share/g/", "$share//t")),
    "$share/g+/t",
    "$share/#/t",
]


@statement("MQTT-4.8.2-1", "MQTT-4.8.2-2")
@pytest.mark.parametrize("topic_filter", SHARED_WRONG)
def test_a_shared_filter_of_the_wrong_form_is_refused(join, topic_filter):
    wire = join()
    wire.send(Subscribe(packet_id=1, subscriptions=[To(filter=topic_filter)]))
    wire.expect_closed(Reason.TOPIC_FILTER_INVALID)


@differs("accepts no local on shared subscriptions")
@statement("MQTT-3.8.3-4")
def test_a_shared_subscription_cannot_be_no_local(join, topic):
    wire = join()
    wire.send(Subscribe(packet_id=1, subscriptions=[To(filter=f"$share/g/{topic}", no_local=True)]))
    wire.expect_closed(Reason.PROTOCOL_ERROR)


@statement("MQTT-4.8.2-3")
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_a_shared_message_respects_the_granted_qos(join, topic, granted):
    (wire,) = members(join, topic, qos=granted, count=1)
    wire.publish(topic, qos=2)
    assert wire.take().qos == granted


@statement("MQTT-4.8.2-4")
def test_a_broken_delivery_is_completed_when_the_member_returns(join, topic):
    group = members(join, topic, qos=2, expiry_s=60)
    join().publish(topic, b"mine", qos=2)
    one, message, (other,) = chosen(group)
    one.drop()
    other.expect_nothing()
    one = join(client_id=one.client_id, clean_start=False, properties={"session_expiry_interval": 60})
    again = one.take()
    assert (again.payload, again.packet_id, again.duplicate) == (b"mine", message.packet_id, True)


@statement("MQTT-4.8.2-5")
def test_a_delivery_broken_for_good_goes_to_nobody_else(join, topic):
    group = members(join, topic, qos=2)
    join().publish(topic, b"mine", qos=2)
    one, _, (other,) = chosen(group)
    one.drop()
    other.expect_nothing(0.3)


@statement("MQTT-4.8.2-6")
@pytest.mark.parametrize(("qos", "kind"), [(1, Kind.PUBACK), (2, Kind.PUBREC)])
def test_a_message_that_a_member_refuses_goes_to_nobody_else(join, topic, qos, kind):
    group = members(join, topic, qos=qos)
    join().publish(topic, b"unwanted", qos=qos)
    one, message, (other,) = chosen(group)
    one.send(Ack(kind=kind, packet_id=message.packet_id, reason=Reason.QUOTA_EXCEEDED))
    one.expect_nothing()
    other.expect_nothing(0.3)
