"""Nothing is promised before the log has it, not even on a new connection."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import Kind, Suback


@pytest.fixture
def desk(make_desk):
    return make_desk(prompt=False)


# ------------------------------------------------------------------------------------------------ before the commit


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_hears_nothing_before_the_log_has_its_message(desk, version, qos):
    desk.subscriber()
    ben = desk.join("ben", version)
    packet_id = ben.publish("a", b"1", qos=qos)
    assert ben.acks() == []
    desk.write()  # on disk, but nobody knows yet
    assert ben.acks() == []
    desk.tell()
    assert ben.acks() == [(Kind.PUBACK if qos == 1 else Kind.PUBREC, packet_id)]


def test_acknowledgements_come_in_the_order_of_the_messages(desk):
    desk.subscriber()
    ben = desk.join("ben")
    ids = [ben.publish("a", b"x", qos=1) for _ in range(3)]
    desk.write(2)
    desk.tell()
    assert ben.acks() == [(Kind.PUBACK, one) for one in ids[:2]]
    later = ben.publish("nobody", b"x", qos=1)
    desk.commit()
    assert ben.acks() == [(Kind.PUBACK, one) for one in (ids[2], later)]


def test_what_can_be_promised_is_not_held_up_by_others(desk):
    desk.subscriber()
    ben, bea = desk.join("ben"), desk.lasting("bea")
    desk.commit()
    one = ben.publish("a", b"1", qos=1)
    two = bea.publish("a", b"2", qos=1)
    ben.ack(Kind.PUBREL, 99)  # to be answered after the first, which comes before the second in the log
    desk.write(1)
    desk.tell()
    assert ben.acks() == [(Kind.PUBACK, one), (Kind.PUBCOMP, 99)]
    assert bea.acks() == []
    desk.commit()
    assert bea.acks() == [(Kind.PUBACK, two)]


def test_a_subscription_that_lasts_is_confirmed_after_the_commit(desk, version):
    ann = desk.lasting("ann", version)
    assert ann.subscribe("a") is None
    desk.commit()
    assert ann.take(Suback).reasons == [0]
    assert ann.unsubscribe("a") is None
    desk.commit()
    assert ann.take(Suback).kind is Kind.UNSUBACK


def test_a_subscription_that_does_not_last_is_confirmed_at_once(desk, version):
    assert desk.join("ann", version).subscribe("a").reasons == [0]


def test_qos_1_goes_out_before_the_commit(desk):
    ann = desk.subscriber()
    desk.join("ben").publish("a", b"1", qos=1)
    assert ann.payloads() == [b"1"]


def test_qos_2_goes_out_after_the_log_knows_under_which_identifier(desk):
    ann = desk.subscriber()
    desk.join("ben").publish("a", b"1", qos=2)
    assert ann.messages() == []
    desk.commit()
    assert ann.payloads() == [b"1"]


def test_nothing_overtakes_a_qos_2_message_that_waits_for_the_log(desk):
    ann = desk.subscriber()
    ben = desk.join("ben")
    for number, qos in enumerate([2, 0, 1, 2, 0]):
        ben.publish("a", b"%d" % number, qos=qos)
    assert ann.messages() == []
    desk.commit()
    assert ann.payloads() == [b"%d" % number for number in range(5)]


def test_pubrel_goes_out_after_the_log_knows_of_pubrec(desk):
    ann = desk.subscriber()
    desk.join("ben").publish("a", b"1", qos=2)
    desk.commit()
    (message,) = ann.messages()
    ann.ack(Kind.PUBREC, message.packet_id)
    assert ann.acks() == []
    ann.ack(Kind.PUBREC, message.packet_id)
    assert ann.acks() == []
    desk.commit()
    assert set(ann.acks()) == {(Kind.PUBREL, message.packet_id)}


def test_pubcomp_goes_out_after_the_log_knows_of_pubrel(desk):
    desk.subscriber()
    ben = desk.lasting("ben")
    packet_id = ben.publish("a", b"1", qos=2)
    desk.commit()
    ben.take_all()
    ben.ack(Kind.PUBREL, packet_id)
    assert ben.acks() == []
    desk.commit()
    assert ben.acks() == [(Kind.PUBCOMP, packet_id)]


def test_a_session_that_does_not_last_waits_for_nothing(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    packet_id = ben.publish("a", b"1", qos=2)
    assert ben.acks() == [(Kind.PUBREC, packet_id)]
    assert ann.take_in() == [b"1"]


def test_with_durability_memory_nobody_waits(make_desk):
    desk = make_desk(prompt=False, durability="memory")
    ann, ben = desk.lasting("ann"), desk.lasting("ben")
    assert ann.subscribe("a", qos=2) is not None
    packet_id = ben.publish("a", b"1", qos=2)
    assert ben.acks() == [(Kind.PUBREC, packet_id)]
    ben.ack(Kind.PUBREL, packet_id)
    assert ben.acks() == [(Kind.PUBCOMP, packet_id)]
    assert ann.take_in() == [b"1"]


# ------------------------------------------------------------------------------------------------ a new connection


def test_a_message_sent_again_on_a_new_connection_is_not_promised_before_the_commit(desk, version):
    desk.subscriber()
    ben = desk.lasting("ben", version)
    desk.commit()
    ben.publish("a", b"1", qos=2, packet_id=7)
    ben.drop()
    ben = desk.lasting("ben", version)
    ben.publish("a", b"1", qos=2, packet_id=7, duplicate=True)
    assert ben.acks() == []
    desk.crash()
    ben = desk.lasting("ben", version)
    ben.publish("a", b"1", qos=2, packet_id=7, duplicate=True)
    ann = desk.lasting("ann")
    desk.commit()
    assert ann.payloads() == [b"1"]


def test_pubcomp_is_not_sent_on_a_new_connection_before_the_commit(desk, version):
    ben = desk.lasting("ben", version)
    ben.publish("a", b"1", qos=2, packet_id=7)
    desk.commit()
    ben.ack(Kind.PUBREL, 7)
    ben.drop()
    ben = desk.lasting("ben", version)
    ben.ack(Kind.PUBREL, 7)
    assert ben.acks() == []
    desk.commit()
    assert ben.acks() == [(Kind.PUBCOMP, 7)]


def test_qos_2_is_not_sent_on_a_new_connection_before_the_commit(desk, version):
    ann = desk.subscriber(version=version)
    desk.join("ben").publish("a", b"1", qos=2)
    desk.join("ben").publish("a", b"2", qos=1)
    ann.drop()
    ann = desk.lasting("ann", version)
    assert ann.messages() == []
    desk.commit()
    assert ann.payloads() == [b"1", b"2"]


def test_pubrel_is_not_sent_on_a_new_connection_before_the_commit(desk, version):
    ann = desk.subscriber(version=version)
    desk.join("ben").publish("a", b"1", qos=2)
    desk.commit()
    (message,) = ann.messages()
    ann.ack(Kind.PUBREC, message.packet_id)
    ann.drop()
    ann = desk.lasting("ann", version)
    assert ann.acks() == []
    desk.commit()
    assert ann.acks() == [(Kind.PUBREL, message.packet_id)]


def test_what_may_not_overtake_goes_on_after_a_commit_that_was_waited_for_on_the_old_connection(desk):
    ann = desk.subscriber(receive_maximum=2)
    ben = desk.join("ben")
    ben.publish("a", b"1", qos=1)
    desk.commit()
    assert len(ann.messages()) == 1
    ben.publish("a", b"2", qos=2)
    ann.drop()
    ann = desk.lasting("ann", receive_maximum=2)
    desk.commit()
    assert ann.payloads() == [b"1", b"2"]
