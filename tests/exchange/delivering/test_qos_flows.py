"""QoS 0, 1 and 2 in both directions, and what is sent again after a connection was lost."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import V5, Ack, Disconnect, Kind
from firelane.mqtt.reasons import Reason


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_reaches_its_subscriber_as_it_was_sent(desk, version, qos):
    ann, ben = desk.join("ann", version), desk.join("ben", version)
    ann.subscribe("a/+", qos=2)
    ben.publish("a/b", b"hello", qos=qos)
    (message,) = ann.messages()
    assert (message.topic, message.payload, message.qos) == ("a/b", b"hello", qos)
    assert not message.duplicate
    assert not message.retain


@pytest.mark.parametrize(("published", "subscribed"), [(0, 2), (1, 0), (2, 1), (1, 2), (2, 0)])
def test_a_copy_has_the_lower_of_the_two_qos(desk, published, subscribed):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=subscribed)
    ben.publish("a", b"1", qos=published)
    assert [one.qos for one in ann.messages()] == [min(published, subscribed)]


def test_a_publisher_is_answered_step_by_step(desk, version):
    ben = desk.join("ben", version)
    one = ben.publish("a", b"1", qos=1)
    two = ben.publish("a", b"2", qos=2)
    assert ben.acks() == [(Kind.PUBACK, one), (Kind.PUBREC, two)]
    ben.ack(Kind.PUBREL, two)
    assert ben.acks() == [(Kind.PUBCOMP, two)]


def test_a_publisher_in_mqtt_5_is_told_that_nobody_wants_it(desk):
    ben = desk.join("ben")
    ben.publish("a", b"1", qos=1)
    assert ben.take(Ack).reason == Reason.NO_MATCHING_SUBSCRIBERS
    desk.join("ann").subscribe("a", qos=1)
    ben.publish("a", b"1", qos=1)
    assert ben.take(Ack).reason == Reason.SUCCESS


def test_a_qos_2_message_sent_again_is_taken_once_until_it_is_released(desk, version):
    ann, ben = desk.join("ann", version), desk.lasting("ben", version)
    ann.subscribe("a", qos=2)
    ben.publish("a", b"1", qos=2, packet_id=7)
    ben.publish("a", b"1", qos=2, packet_id=7, duplicate=True)
    ben.drop()
    ben = desk.lasting("ben", version)
    ben.publish("a", b"1", qos=2, packet_id=7, duplicate=True)
    assert ben.acks() == [(Kind.PUBREC, 7)]
    ben.ack(Kind.PUBREL, 7)
    ben.publish("a", b"2", qos=2, packet_id=7)
    assert ann.take_in() == [b"1", b"2"]


def test_a_release_of_something_unknown_is_answered_all_the_same(desk):
    ben = desk.join("ben")
    ben.ack(Kind.PUBREL, 99)
    assert ben.take(Ack) == Ack(kind=Kind.PUBCOMP, packet_id=99, reason=Reason.PACKET_IDENTIFIER_NOT_FOUND)
    ben.ack(Kind.PUBREC, 98)
    assert ben.take(Ack) == Ack(kind=Kind.PUBREL, packet_id=98, reason=Reason.PACKET_IDENTIFIER_NOT_FOUND)


def test_a_subscriber_is_led_through_qos_2(desk, version):
    ann, ben = desk.join("ann", version), desk.join("ben", version)
    ann.subscribe("a", qos=2)
    ben.publish("a", b"1", qos=2)
    (message,) = ann.messages()
    ann.ack(Kind.PUBREC, message.packet_id)
    assert ann.acks() == [(Kind.PUBREL, message.packet_id)]
    assert desk.session("ann").totals.delivered == 1
    ann.ack(Kind.PUBREC, message.packet_id)
    assert ann.acks() == [(Kind.PUBREL, message.packet_id)]
    ann.ack(Kind.PUBCOMP, message.packet_id)
    assert not desk.session("ann").in_flight


def test_what_was_in_flight_is_sent_again_as_a_duplicate_under_its_identifier(desk, version):
    ann, ben = desk.lasting("ann", version), desk.join("ben")
    ann.subscribe("a", qos=2)
    for number, qos in enumerate([1, 2, 0, 1, 2]):
        ben.publish("a", b"%d" % number, qos=qos)
    first = [one for one in ann.messages() if one.qos]
    ann.drop()
    ann = desk.lasting("ann", version)
    assert ann.connack.session_present
    again = ann.messages()
    assert [(one.packet_id, one.payload, one.qos) for one in again] == [
        (one.packet_id, one.payload, one.qos) for one in first
    ]
    assert all(one.duplicate for one in again)
    assert not any(one.duplicate for one in first)


def test_what_was_released_is_released_again_and_not_sent_again(desk, version):
    ann, ben = desk.lasting("ann", version), desk.join("ben")
    ann.subscribe("a", qos=2)
    ben.publish("a", b"1", qos=2)
    (message,) = ann.messages()
    ann.ack(Kind.PUBREC, message.packet_id)
    ann.drop()
    ann = desk.lasting("ann", version)
    assert ann.messages() == []
    assert ann.acks() == [(Kind.PUBREL, message.packet_id)]
    ann.ack(Kind.PUBCOMP, message.packet_id)
    assert not desk.session("ann").in_flight


def test_new_messages_follow_those_sent_again(desk):
    ann, ben = desk.lasting("ann", V5), desk.join("ben")
    ann.subscribe("a", qos=1)
    ben.publish("a", b"1", qos=1)
    ann.drop()
    ben.publish("a", b"2", qos=1)
    ben.publish("a", b"3", qos=1)
    assert desk.lasting("ann", V5).payloads() == [b"1", b"2", b"3"]


def test_a_refused_message_counts_as_delivered_and_frees_its_identifier(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    ben.publish("a", b"1", qos=2)
    ann.ack(Kind.PUBREC, ann.messages()[0].packet_id, reason=Reason.QUOTA_EXCEEDED)
    assert ann.acks() == []
    assert not desk.session("ann").in_flight
    assert desk.session("ann").totals.delivered == 1


def test_an_identifier_in_use_is_passed_over(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=1)
    ben.publish("a", b"1", qos=1)
    desk.session("ann").last_packet_id = 65_535
    ben.publish("a", b"2", qos=1)
    assert [one.packet_id for one in ann.messages()] == [1, 2]


def test_acknowledgements_of_nothing_change_nothing(desk, version):
    ann, ben = desk.join("ann", version), desk.join("ben")
    ann.subscribe("a", qos=2)
    ben.publish("a", b"1", qos=2)
    ben.publish("a", b"2", qos=1)
    two, one = ann.messages()
    for kind, packet_id in [(Kind.PUBACK, 900), (Kind.PUBCOMP, 901), (Kind.PUBCOMP, two.packet_id)]:
        ann.ack(kind, packet_id)
    ann.ack(Kind.PUBREC, one.packet_id)  # a message of QoS 1
    assert set(desk.session("ann").in_flight) == {one.packet_id, two.packet_id}
    assert desk.session("ann").totals.delivered == 0
    ann.ack(Kind.PUBREC, two.packet_id)
    ann.ack(Kind.PUBREC, two.packet_id, reason=0x80)
    ann.ack(Kind.PUBACK, two.packet_id)
    assert set(desk.session("ann").in_flight) == {one.packet_id, two.packet_id}


@pytest.mark.parametrize("qos", [1, 2])
def test_an_answer_to_what_was_not_yet_sent_again_is_taken_once(desk, qos):
    ann, ben = desk.lasting("ann", V5), desk.join("ben")
    ann.subscribe("a", qos=2)
    desk.join("other", clean_start=False, session_expiry_interval=1000).subscribe("a", qos=2)
    for number in range(3):
        ben.publish("a", b"%d" % number, qos=qos)
    first = ann.messages()
    ann.drop()
    ann = desk.lasting("ann", V5, receive_maximum=1)
    for one in reversed(first):  # with a window of one, only the first was sent again
        ann.ack(Kind.PUBACK if qos == 1 else Kind.PUBREC, one.packet_id)
    if qos == 2:
        for one in reversed(first):
            ann.ack(Kind.PUBCOMP, one.packet_id)
    assert desk.session("ann").totals.delivered == 3
    assert desk.session("ann").owed == 0
    assert desk.session("other").owed == 3
    ben.publish("a", b"next", qos=qos)
    assert ann.payloads() == [b"0", b"next"]


def test_identifiers_of_both_directions_do_not_touch(desk, version):
    ann = desk.join("ann", version)
    ann.subscribe("a", qos=2)
    packet_id = ann.publish("a", b"1", qos=2, packet_id=1)
    (message,) = ann.messages()
    assert message.packet_id == packet_id
    assert ann.acks() == [(Kind.PUBREC, 1)]
    ann.ack(Kind.PUBREC, 1)
    assert ann.acks() == [(Kind.PUBREL, 1)]
    ann.ack(Kind.PUBREL, 1)
    ann.ack(Kind.PUBCOMP, 1)
    assert ann.acks() == [(Kind.PUBCOMP, 1)]
    assert not desk.session("ann").in_flight
    assert not desk.session("ann").received


def test_more_unacknowledged_than_agreed_ends_a_connection_of_mqtt_5(make_desk):
    desk = make_desk(limits={"inflight": 2}, prompt=False)
    ben = desk.join("ben")
    for packet_id in (1, 2):
        ben.publish("a", b"", qos=2, packet_id=packet_id)
    ben.publish("a", b"", qos=2, packet_id=2, duplicate=True)  # not one more
    ben.publish("a", b"", qos=2, packet_id=2, duplicate=True)
    assert not ben.closed
    ben.publish("a", b"", qos=2, packet_id=3)
    assert ben.closed
    assert ben.take(Disconnect).reason == Reason.RECEIVE_MAXIMUM_EXCEEDED


def test_a_released_exchange_makes_room_for_another(make_desk):
    desk = make_desk(limits={"inflight": 2})
    ben = desk.join("ben")
    for packet_id in range(1, 20):
        ben.publish("a", b"", qos=2, packet_id=packet_id)
        ben.publish("a", b"", qos=2, packet_id=packet_id, duplicate=True)
        ben.ack(Kind.PUBREL, packet_id)
        ben.publish("a", b"", qos=1, packet_id=packet_id)
    assert not ben.closed
