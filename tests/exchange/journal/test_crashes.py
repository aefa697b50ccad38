"""What was promised is kept over crashes, however much of the log was cleaned before."""

from __future__ import annotations

import pytest

from firelane.exchange.journal import cleaning
from firelane.mqtt.packets import Kind


@pytest.fixture
def desk(make_desk):
    return make_desk(prompt=False)


def test_what_was_promised_is_there_after_a_crash(desk, version):
    desk.subscriber(version=version).drop()
    ben = desk.join("ben")
    for number in range(6):
        ben.publish("a", b"%d" % number, qos=1 + number % 2)
    desk.commit()
    ben.publish("a", b"lost", qos=1)
    desk.crash()
    ann = desk.lasting("ann", version)
    assert ann.connack.session_present
    desk.commit()
    assert ann.payloads() == [b"%d" % number for number in range(6)]
    desk.join("ben").publish("a", b"6", qos=1)
    assert ann.payloads() == [b"6"]


def test_what_is_on_disk_is_there_even_if_nobody_was_told(desk):
    desk.subscriber().drop()
    desk.join("ben").publish("a", b"1", qos=1)
    desk.write()
    desk.crash()
    assert desk.lasting("ann").payloads() == [b"1"]


def test_what_was_had_before_a_crash_does_not_come_again(desk):
    ann = desk.subscriber()
    ben = desk.join("ben")
    for number in range(3):
        ben.publish("a", b"%d" % number, qos=1)
    for one in ann.messages()[:2]:
        ann.ack(Kind.PUBACK, one.packet_id)
    desk.commit()
    desk.crash()
    assert desk.lasting("ann").payloads() == [b"2"]


def test_qos_2_goes_on_after_a_crash_where_it_was(desk):
    ann = desk.subscriber()
    ben = desk.join("ben")
    for number in range(4):
        ben.publish("a", b"%d" % number, qos=2)
    desk.commit()
    sent = ann.messages()
    ann.ack(Kind.PUBREC, sent[0].packet_id)  # known to the log
    ann.ack(Kind.PUBREC, sent[1].packet_id)
    desk.commit()
    ann.take_all()
    ann.ack(Kind.PUBCOMP, sent[0].packet_id)
    desk.commit()
    ann.ack(Kind.PUBREC, sent[2].packet_id)  # not known
    desk.crash()
    ann = desk.lasting("ann")
    assert [(one.packet_id, one.payload, one.duplicate) for one in ann.messages()] == [
        (one.packet_id, one.payload, True) for one in sent[2:]
    ]
    assert ann.acks() == [(Kind.PUBREL, sent[1].packet_id)]


def test_an_identifier_freed_after_a_crash_can_be_used_again(desk):
    ann = desk.subscriber()
    ben = desk.join("ben")
    ben.publish("a", b"1", qos=2)
    desk.commit()
    (message,) = ann.messages()
    ann.ack(Kind.PUBREC, message.packet_id)
    desk.commit()
    desk.crash()
    ann = desk.lasting("ann")
    ann.ack(Kind.PUBCOMP, message.packet_id)
    desk.session("ann").last_packet_id = message.packet_id - 1
    desk.join("ben").publish("a", b"2", qos=2)
    desk.commit()
    assert [(one.payload, one.packet_id) for one in ann.messages()] == [(b"2", message.packet_id)]
    desk.crash()
    ann = desk.lasting("ann")
    assert ann.payloads() == [b"2"]


def test_a_publishers_exchange_goes_on_after_a_crash(desk, version):
    desk.subscriber().drop()
    ben = desk.lasting("ben", version)
    for packet_id in (1, 2):
        ben.publish("a", b"%d" % packet_id, qos=2, packet_id=packet_id)
    desk.commit()
    ben.ack(Kind.PUBREL, 1)
    desk.commit()
    desk.crash()
    ben = desk.lasting("ben", version)
    ben.publish("a", b"2", qos=2, packet_id=2, duplicate=True)  # the same
    ben.publish("a", b"3", qos=2, packet_id=1)  # another
    ann = desk.lasting("ann")
    desk.commit()
    assert ann.payloads() == [b"1", b"2", b"3"]


def test_subscriptions_and_their_options_survive_a_crash(desk):
    ann = desk.lasting("ann")
    ann.subscribe("a/#", qos=1, subscription_identifier=[5])
    ann.subscribe("b", qos=2)
    ann.subscribe("$share/g/c", qos=1)
    ann.unsubscribe("b")
    desk.commit()
    desk.crash()
    ann, ben = desk.lasting("ann"), desk.join("ben")
    for topic in ("a/1", "b", "c"):
        ben.publish(topic, b"x", qos=2)
    desk.commit()
    assert [(one.topic, one.qos, one.properties) for one in ann.messages()] == [
        ("a/1", 1, {"subscription_identifier": [5]}),
        ("c", 1, {}),
    ]


def test_retained_messages_survive_a_crash(desk):
    ben = desk.join("ben")
    ben.publish("r/1", b"old", retain=True)
    ben.publish("r/1", b"new", qos=1, retain=True)
    ben.publish("r/2", b"gone", retain=True)
    ben.publish("r/2", b"", retain=True)
    desk.commit()
    desk.crash()
    ann = desk.join("ann")
    ann.subscribe("r/#", qos=1)
    assert [(one.topic, one.payload, one.qos, one.retain) for one in ann.messages()] == [("r/1", b"new", 1, True)]


def test_sessions_that_ended_stay_ended_and_their_numbers_are_not_used_again(desk):
    for name in ("ann", "bea"):
        desk.subscriber(name)
    desk.join("ben").publish("a", b"1", qos=1)
    desk.join("bea").leave()
    desk.commit()
    desk.crash()
    assert set(desk.broker.sessions) == {"ann"}
    cal = desk.lasting("cal")
    desk.commit()
    desk.crash()
    assert set(desk.broker.sessions) == {"ann", "cal"}
    assert desk.lasting("cal").messages() == []
    assert not cal.messages()


def test_what_spilled_for_a_passing_client_is_not_given_to_another_after_a_crash(make_desk):
    desk = make_desk(limits={"queue": 1, "inflight": 1})
    passing, ben = desk.join("passing"), desk.join("ben")
    passing.subscribe("a", qos=1)
    for number in range(5):
        ben.publish("a", b"%d" % number, qos=1)
    assert desk.session("passing").stored
    for _ in range(2):
        desk.crash()
        for name in ("ann", "bea", "cal"):
            assert desk.lasting(name).messages() == []


def test_a_session_that_expired_while_the_exchange_was_down_is_over(desk):
    desk.subscriber().drop()
    desk.commit()
    desk.now += 200
    desk.crash()
    desk.pass_time(0.1)
    assert not desk.broker.sessions


def test_starting_again_and_again_does_not_keep_a_session_alive(desk):
    desk.subscriber()
    for _ in range(3):
        desk.crash()
        desk.commit()
        desk.pass_time(40)
    assert not desk.broker.sessions


# ------------------------------------------------------------------------------------------------ cleaning


def churn(desk, rounds=100):
    """Fill segments with what is soon of no use."""
    passing = desk.lasting("passing")
    passing.subscribe("churn", qos=1)
    for _ in range(rounds):
        passing.publish("churn", bytes(100), qos=1)
        passing.take_in()
    passing.leave(session_expiry_interval=0)


def test_a_session_and_all_it_has_survive_cleaning_and_a_crash(make_desk):
    desk = make_desk(segment_bytes=600)
    ann, ben = desk.subscriber(), desk.lasting("ben")
    for number, qos in enumerate([2, 1, 1, 2]):
        ben.publish("a", b"%d" % number, qos=qos, packet_id=number + 1)
    sent = ann.messages()
    ann.ack(Kind.PUBREC, sent[0].packet_id)
    ann.ack(Kind.PUBACK, sent[1].packet_id)
    ben.publish("r", b"r", qos=1, retain=True)
    oldest = min(desk.log._segments)
    for _ in range(3):
        churn(desk)
        desk.clean()
        assert min(desk.log._segments) > oldest
        oldest = max(desk.log._segments)
    desk.crash()
    ben = desk.lasting("ben")
    assert ben.connack.session_present
    ben.publish("a", b"0", qos=2, packet_id=1, duplicate=True)
    ben.publish("a", b"4", qos=2, packet_id=9)
    ann = desk.lasting("ann")
    assert ann.connack.session_present
    assert ann.acks() == [(Kind.PUBREL, sent[0].packet_id)]
    assert {(one.payload, one.packet_id, one.duplicate) for one in ann.messages()} == {
        (b"3", sent[3].packet_id, True),
        (b"2", sent[3].packet_id + 1, False),
        (b"4", sent[3].packet_id + 2, False),
    }
    ann.subscribe("r")
    assert ann.payloads() == [b"r"]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("away", [True, False])
def test_what_waits_is_found_where_cleaning_has_put_it(make_desk, qos, away):
    desk = make_desk(segment_bytes=600, limits={"queue": 2})
    ann, bea, ben = desk.subscriber(receive_maximum=1), desk.subscriber("bea"), desk.join("ben")
    for number in range(9):
        ben.publish("a", b"%d" % number, qos=qos)
    bea.take_in()
    if away:
        ann.drop()
    for _ in range(3):
        churn(desk)
        desk.clean()
    if away:
        ann = desk.lasting("ann")
    assert ann.take_in() == [b"%d" % number for number in range(9)]
    assert not desk.broker.journal._moved


def test_whoever_has_had_a_message_is_not_given_it_again_when_cleaning_has_moved_it(make_desk):
    desk = make_desk(segment_bytes=600)
    ann, bea, ben = desk.subscriber(), desk.subscriber("bea"), desk.lasting("ben")
    ann.drop()
    ben.publish("a", b"1", qos=2, packet_id=7)
    ben.ack(Kind.PUBREL, 7)
    assert bea.take_in() == [b"1"]
    for _ in range(3):
        churn(desk)
        desk.clean()
    desk.crash()
    assert desk.lasting("bea").take_all() == []
    desk.lasting("ben").publish("a", b"2", qos=2, packet_id=7)
    assert desk.lasting("ann").take_in() == [b"1", b"2"]


def test_what_is_had_while_its_segment_is_cleaned_is_not_written_anew(make_desk, monkeypatch):
    monkeypatch.setattr(cleaning, "RECORDS_A_STEP", 1)
    desk = make_desk(segment_bytes=600)
    ann, bea, ben = desk.subscriber(), desk.subscriber("bea"), desk.join("ben")
    ben.publish("a", b"1", qos=1)
    churn(desk)
    while not desk.broker.journal.watched:
        desk.broker.clean()
    for line in (ann, bea):
        assert line.take_in() == [b"1"]
    desk.clean()
    assert not desk.broker.journal._moved
    desk.crash()
    assert desk.lasting("ann").messages() == []


def test_a_crash_before_a_cleaned_segment_is_deleted_changes_nothing(make_desk):
    desk = make_desk(segment_bytes=600, prompt=False)
    ann, ben = desk.subscriber(), desk.join("ben")
    bea = desk.subscriber("bea")
    for number in range(4):
        ben.publish("a", b"%d" % number, qos=2)
    desk.commit()
    for line in (ann, bea):
        for one in line.messages():
            line.ack(Kind.PUBREC, one.packet_id)
    desk.commit()
    desk.prompt = True
    churn(desk)
    desk.prompt = False
    while desk.log.oldest_to_clean() is not None:
        desk.broker.clean()
    desk.settle()
    desk.write()
    cleaned = min(int(path.stem) for path in desk.folder.glob("*.log"))
    assert cleaned not in desk.log._segments
    desk.crash()
    assert cleaned in desk.log._segments
    for name in ("ann", "bea"):
        assert {one.state.name for one in desk.session(name).in_flight.values()} == {"RELEASED"}
        assert desk.session(name).owed == 0


def test_a_log_that_is_of_no_use_any_more_shrinks_to_nothing(make_desk):
    desk = make_desk(segment_bytes=600)
    ann, ben = desk.subscriber(), desk.join("ben")
    for number in range(50):
        ben.publish("a", bytes(50), qos=1 + number % 2)
        ben.ack(Kind.PUBREL, number + 1)
    ann.take_in()
    ann.leave(session_expiry_interval=0)
    desk.clean()
    assert desk.log.live_bytes == 0
    assert len(desk.log._segments) == 1
    assert not desk.broker.journal._moved


@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_session_has_is_found_although_its_own_record_is_younger(make_desk, qos):
    desk = make_desk(segment_bytes=300)
    ann, ben = desk.subscriber(), desk.lasting("ben")
    ann.drop()
    ben.publish("a", bytes(300), qos=qos, packet_id=1)
    ben.drop()
    place = next(iter(desk.session("ann").lanes.values())).backlog.locations()[0]
    own = desk.session("ann"), desk.session("ann").subscriptions["a"]
    while (
        not min(desk.log._segments) == desk.broker.journal.place(place) >> 32 < min(one.location for one in own) >> 32
    ):
        churn(desk, 1)
        while desk.broker.clean():
            pass
    desk.delete_cleaned()
    desk.crash()
    assert desk.session("ben").received.keys() == ({1} if qos == 2 else set())
    ann = desk.lasting("ann")
    assert [(one.payload, one.duplicate) for one in ann.messages()] == [(bytes(300), False)]
    desk.join("cal").publish("a", b"next", qos=1)
    assert ann.payloads() == [b"next"]


def test_a_number_is_not_given_twice_when_only_the_end_of_its_message_is_left(make_desk):
    desk = make_desk(segment_bytes=2000)
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    for _ in range(20):
        ben.publish("noise", b"", qos=0)
    ben.publish("a", b"old", qos=2)
    (old,) = ann.messages()
    ann.ack(Kind.PUBREC, old.packet_id)
    ann.drop()
    other = desk.lasting("other")
    other.subscribe("fill", qos=1)
    for _ in range(100):
        ben.publish("fill", bytes(100), qos=1)
        other.take_in()
    desk.clean()
    last = desk.broker.numbers.last
    desk.crash()
    assert desk.broker.numbers.last >= 21
    assert last >= 21
