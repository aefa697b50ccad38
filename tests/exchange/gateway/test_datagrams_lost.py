"""Clients on UDP when datagrams get lost, clients sleep, and strangers send what they like."""

from __future__ import annotations

from random import Random

import pytest
from air import Air
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import a_plan
from thin_link import SERVICE_S, control_packets_take_no_time, on_one_link, wake  # noqa: F401 (a fixture)

from firelane.exchange.gateway.listener import PROVEN_WITHIN_S
from firelane.exchange.gateway.topics import MOST_NAME_BYTES, Topics
from firelane.exchange.lanes.lane import Dropped
from firelane.mqtt.sn.encode import encode
from firelane.mqtt.sn.messages import (
    Acknowledged,
    Answer,
    Connect,
    Disconnect,
    Kind,
    PingRequest,
    Plain,
    Publish,
    Register,
    ReturnCode,
    Step,
    Subscribe,
    TopicKind,
    WillMessage,
    WillTopic,
)

RETRY_S, RETRIES = 2.0, 5
SHORT = TopicKind.SHORT


@pytest.fixture
def air(desk):
    return Air(desk, retry_s=RETRY_S, retries=RETRIES)


# ---------------------------------------------------------------------------------------- sent again


def test_a_message_of_qos_1_is_sent_again_as_a_duplicate_until_it_is_answered(desk, air):
    ann = air.join("ann")
    number = ann.subscribe("a/b", qos=1).topic_id
    desk.join("ben").publish("a/b", b"1", qos=1)
    (first,) = ann.heard()
    assert first == Publish(topic=number, payload=b"1", qos=1, message_id=first.message_id)
    air.pass_time(2 * RETRY_S + 0.5)
    again = Publish(topic=number, payload=b"1", qos=1, message_id=first.message_id, duplicate=True)
    assert ann.heard() == [again, again]
    ann.say(Acknowledged(kind=Kind.PUBACK, topic_id=number, message_id=first.message_id))
    air.pass_time(3 * RETRY_S)
    assert ann.heard() == []
    assert air.counts.datagrams_again == 2


def test_each_half_of_qos_2_is_sent_again(desk, air):
    ann = air.join("ann")
    ann.subscribe("a/b", qos=2)
    desk.join("ben").publish("a/b", b"1", qos=2)
    (first,) = ann.heard()
    air.pass_time(RETRY_S + 0.5)
    assert [one.duplicate for one in ann.heard()] == [True]
    ann.say(Step(kind=Kind.PUBREC, message_id=first.message_id))
    release = Step(kind=Kind.PUBREL, message_id=first.message_id)
    assert ann.heard() == [release]
    air.pass_time(RETRY_S + 0.5)
    assert ann.heard() == [release]
    ann.say(Step(kind=Kind.PUBREC, message_id=first.message_id))  # as one that has not heard it would
    assert ann.heard() == [release]
    ann.say(Step(kind=Kind.PUBCOMP, message_id=first.message_id))
    air.pass_time(3 * RETRY_S)
    assert ann.heard() == []
    assert not desk.session("ann").in_flight


def test_a_registration_is_sent_again_and_the_messages_come_once(desk, air):
    ann = air.join("ann")
    ann.subscribe("a/#")
    air.loses = lambda message: isinstance(message, Register)
    desk.join("ben").publish("a/b", b"1")
    air.pass_time(RETRY_S / 2)
    assert ann.heard() == []
    air.loses = lambda message: False
    air.pass_time(RETRY_S)
    assert ann.take_in() == [("a/b", b"1")]


def test_who_does_not_answer_is_lost_after_so_many_tries_and_its_will_is_sent(desk, air):
    ann = air.sensor()
    ann.connect_with_will("ann", "gone", b"lost", clean_session=False)
    ann.subscribe("a/b", qos=1)
    ben = desk.join("ben")
    ben.subscribe("gone")
    ben.publish("a/b", b"1", qos=1)
    air.pass_time((RETRIES + 1) * RETRY_S - 0.5)
    assert ben.messages() == []
    assert len(ann.heard(Publish)) == 1 + RETRIES
    air.pass_time(1.0)
    assert [one.payload for one in ben.messages()] == [b"lost"]
    assert ann.heard() == [Disconnect()]
    assert not air.listener.peers
    assert desk.session("ann").owed == 1  # it waits for who comes back
    again = air.sensor()
    again.names = ann.names
    again.say(Connect(client_id="ann", clean_session=False))
    assert again.take_in() == [("a/b", b"1")]  # registered anew, as the gateway has forgotten what it knew


def test_a_client_that_has_forgotten_a_number_is_told_it_again_and_sent_the_message(desk, air):
    ann = air.join("ann")
    number = ann.subscribe("a/b", qos=1).topic_id
    desk.join("ben").publish("a/b", b"1", qos=1)
    (first,) = ann.heard()
    unknown = ReturnCode.INVALID_TOPIC_ID
    ann.say(Acknowledged(kind=Kind.PUBACK, topic_id=number, message_id=first.message_id, return_code=unknown))
    assert [type(one) for one in ann.arrived] == [Register]
    assert ann.take_in() == [("a/b", b"1")]
    assert desk.session("ann").totals.delivered == 1


def test_one_that_never_knows_a_number_is_given_up(desk, air):
    ann = air.join("ann")
    ann.subscribe("a/b", qos=1)
    desk.join("ben").publish("a/b", b"1", qos=1)
    for _ in range(100):
        for one in ann.heard():
            if isinstance(one, Register):
                ann.say(Acknowledged(kind=Kind.REGACK, topic_id=one.topic_id, message_id=one.message_id))
            elif isinstance(one, Publish):
                code = ReturnCode.INVALID_TOPIC_ID
                answer = Acknowledged(kind=Kind.PUBACK, topic_id=one.topic, message_id=one.message_id, return_code=code)
                ann.say(answer)
    assert air.counts.datagrams_sent < 30
    assert not air.listener.peers


def test_a_topic_that_a_client_does_not_want_is_dropped_and_counted(desk, air):
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("a/#", qos=1)
    ben.publish("a/b", b"1", qos=1)
    ben.publish("a/b", b"2")
    ben.publish("a/c", b"3")
    (told,) = ann.heard()
    refused = ReturnCode.NOT_SUPPORTED
    ann.say(Acknowledged(kind=Kind.REGACK, topic_id=told.topic_id, message_id=told.message_id, return_code=refused))
    assert ann.take_in() == [("a/c", b"3")]
    assert desk.session("ann").totals.dropped[Dropped.TOO_LARGE] == 2


def test_a_client_that_is_busy_is_asked_again(desk, air):
    ann = air.join("ann")
    ann.subscribe("a/#")
    desk.join("ben").publish("a/b", b"1")
    (told,) = ann.heard()
    busy = ReturnCode.CONGESTION
    ann.say(Acknowledged(kind=Kind.REGACK, topic_id=told.topic_id, message_id=told.message_id, return_code=busy))
    assert ann.heard() == []
    air.pass_time(RETRY_S + 0.2)
    assert ann.take_in() == [("a/b", b"1")]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_that_refuses_a_message_gets_the_next(desk, air, qos):
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("a/b", qos=qos)
    ben.publish("a/b", b"1", qos=2)
    ben.publish("a/b", b"2", qos=2)
    (first,) = ann.heard()
    refused = ReturnCode.NOT_SUPPORTED
    ann.say(Acknowledged(kind=Kind.PUBACK, topic_id=1, message_id=first.message_id, return_code=refused))
    assert ann.take_in() == [("a/b", b"2")]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_with_half_of_everything_lost_what_must_arrive_does(desk, seed, qos):
    """At QoS 1 at least once and in order, at QoS 2 exactly once; at QoS 0 each at most once."""
    random = Random(seed)
    air = Air(desk, retry_s=0.5, retries=50)
    ann, ben = air.join("ann"), desk.join("ben")
    air.loses = lambda message: random.random() < 0.5
    while not ann.names:
        ann.say(Subscribe(kind=Kind.SUBSCRIBE, message_id=1, topic="a/b", qos=qos))
        ann.names = {one.topic_id: "a/b" for one in ann.heard()}
    numbers = [b"%d" % number for number in range(8)]
    for number in numbers:
        ben.publish("a/b", number, qos=qos)
    got, unreleased = [], set()
    for _ in range(400):
        air.pass_time(0.1)
        for one in ann.heard():
            if isinstance(one, Publish):
                if qos < 2 or one.message_id not in unreleased:
                    got.append(one.payload)
                unreleased.add(one.message_id)
                answer = Acknowledged(kind=Kind.PUBACK, topic_id=one.topic, message_id=one.message_id)
                reply = {1: answer, 2: Step(kind=Kind.PUBREC, message_id=one.message_id)}.get(one.qos)
            else:
                unreleased.discard(one.message_id)
                reply = Step(kind=Kind.PUBCOMP, message_id=one.message_id)
            if reply is not None and random.random() < 0.5:
                ann.say(reply)
    if qos == 0:
        assert got == [one for one in numbers if one in got]
    elif qos == 1:
        assert list(dict.fromkeys(got)) == numbers
    else:
        assert got == numbers


# ---------------------------------------------------------------------------------------- sleep


def asleep(air, seconds=100, **fields):
    ann = air.join("ann", duration_s=10, **fields)
    ann.subscribe("a/b", qos=1)
    ann.say(Disconnect(duration_s=seconds))
    assert ann.heard() == [Disconnect()]
    return ann


def test_a_sleeping_client_is_sent_everything_when_it_asks_and_sleeps_on(desk, air):
    ann, ben = asleep(air), desk.join("ben")
    for qos in (0, 1, 0):
        ben.publish("a/b", b"%d" % qos, qos=qos)
    air.pass_time(20)  # longer than its keep alive
    assert ann.heard() == []
    ann.say(PingRequest(client_id="ann"))
    assert [payload for _, payload in ann.take_in()] == [b"0", b"1", b"0"]
    ben.publish("a/b", b"later", qos=1)
    air.pass_time(20)
    assert ann.heard() == []
    ann.say(PingRequest(client_id="ann"))
    assert [payload for _, payload in ann.take_in()] == [b"later"]


def test_the_answer_to_its_question_comes_last(desk, air):
    ann, ben = asleep(air), desk.join("ben")
    ben.publish("a/b", b"1")
    ben.publish("a/b", b"2", qos=1)
    ann.say(PingRequest(client_id="ann"))
    heard = ann.heard()
    assert [type(one) for one in heard] == [Publish, Publish]
    ann.say(Acknowledged(kind=Kind.PUBACK, topic_id=heard[1].topic, message_id=heard[1].message_id))
    assert ann.heard() == [Plain(kind=Kind.PINGRESP)]


def test_with_nothing_to_tell_it_is_the_only_one(air):
    ann = asleep(air)
    ann.say(PingRequest(client_id="ann"))
    assert ann.heard() == [Plain(kind=Kind.PINGRESP)]


def test_new_topics_are_registered_while_it_is_awake(desk, air):
    ann = air.join("ann")
    ann.subscribe("a/#")
    ann.say(Disconnect(duration_s=100))
    ann.heard()
    ben = desk.join("ben")
    ben.publish("a/1", b"1")
    ben.publish("a/2", b"2")
    assert ann.heard() == []
    ann.say(PingRequest(client_id="ann"))
    (told,) = ann.heard()
    assert isinstance(told, Register)
    ann.arrived.append(told)
    heard = ann.take_in()
    assert heard == [("a/1", b"1"), ("a/2", b"2")]


def test_who_is_not_heard_of_for_longer_than_it_wanted_to_sleep_is_lost(desk, air):
    ann = air.sensor()
    ann.connect_with_will("ann", "gone", b"lost")
    ann.say(Disconnect(duration_s=20))
    ben = desk.join("ben")
    ben.subscribe("gone")
    air.pass_time(28)
    assert ben.messages() == []
    air.pass_time(5)
    assert [one.payload for one in ben.messages()] == [b"lost"]


def test_a_client_that_gets_up_finds_its_messages_and_its_will_is_not_sent(desk, air):
    ann = air.sensor()
    ann.connect_with_will("ann", "gone", b"lost")
    ann.subscribe("a/b")
    ann.say(Disconnect(duration_s=20))
    ben = desk.join("ben")
    ben.subscribe("gone")
    ben.publish("a/b", b"1")
    ann.heard()
    ann.say(Connect(client_id="ann", clean_session=False, duration_s=30))
    assert ann.heard(Answer) == [Answer(kind=Kind.CONNACK)]
    assert ann.take_in() == [("a/b", b"1")]
    assert desk.session("ann").connection.keep_alive_s == 30
    assert desk.session("ann").will is None  # it did not say that it has one this time
    ben.publish("a/b", b"2")
    assert ann.take_in() == [("a/b", b"2")]
    assert ben.messages() == []


def test_and_one_that_begins_anew_has_lost_what_waited_but_not_itself(desk, air):
    ann = air.sensor()
    ann.connect_with_will("ann", "gone", b"lost")
    ann.subscribe("a/b")
    ann.say(Disconnect(duration_s=20))
    ben = desk.join("ben")
    ben.subscribe("gone")
    ben.publish("a/b", b"1")
    ann.heard()
    assert ann.connect("ann", clean_session=True) == 0
    assert ann.heard() == []
    assert ben.messages() == []
    assert desk.broker.counts.ended.dropped[Dropped.DISCONNECTED] == 1


def test_what_waits_for_sleepers_is_bounded_and_what_is_too_much_counted(make_desk):
    desk = make_desk(limits={"queue": 10})
    air = Air(desk)
    ann, ben = asleep(air), desk.join("ben")
    for number in range(100):
        ben.publish("a/b", b"%d" % number)
    assert desk.session("ann").queued == 10
    assert desk.session("ann").totals.dropped[Dropped.OVERFLOW] == 90
    ann.say(PingRequest(client_id="ann"))
    assert len(ann.take_in()) == 10


def test_what_was_under_way_is_sent_again_as_soon_as_it_wakes(desk, air):
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("a/b", qos=1)
    ben.publish("a/b", b"1", qos=1)
    ann.heard()  # and has no time to answer
    ann.say(Disconnect(duration_s=100))
    air.pass_time(10 * RETRY_S)
    assert ann.heard() == [Disconnect()]
    ann.say(PingRequest(client_id="ann"))
    assert [(one.payload, one.duplicate) for one in ann.arrived] == [(b"1", True)]
    assert ann.take_in() == [("a/b", b"1")]
    assert air.listener.peers


def test_one_for_which_more_comes_all_the_time_is_let_sleep_after_a_while(desk, air):
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("a/b", qos=1)
    ann.say(Disconnect(duration_s=100))
    ben.publish("a/b", b"0", qos=1)
    ann.heard()
    ann.say(PingRequest(client_id="ann"))
    for number in range(300):
        ben.publish("a/b", b"%d" % number, qos=1)
        for one in ann.heard(Publish):
            ann.say(Acknowledged(kind=Kind.PUBACK, topic_id=one.topic, message_id=one.message_id))
        air.pass_time(0.1)
    assert Plain(kind=Kind.PINGRESP) in ann.heard()


# ---------------------------------------------------------------------------------------- lanes


def test_on_a_paced_link_what_matters_overtakes_what_does_not(make_desk):
    """1000 bytes take a tenth of a second: the first that came is on its way, and then classes count."""
    desk = make_desk(scenario=on_one_link("ann"))
    air = Air(desk, datagram_bytes=1400)
    desk.apply(a_plan({("ann", "alarm"): (0, 0.0), ("ann", "bulk/#"): (5, 0.0)}))
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("alarm")
    ann.subscribe("bulk/#")
    ben.publish("bulk/1", b"0" * 1000)
    assert ann.take_in() == [("bulk/1", b"0" * 1000)]  # its topic is known from now on
    wake(desk, SERVICE_S)
    for said in (b"1", b"2", b"3"):
        ben.publish("bulk/1", said * 1000)
    ben.publish("alarm", b"!" * 1000)
    arrived = []
    for step in range(60):
        arrived += [(step / 10, payload[:1]) for _, payload in ann.take_in()]
        wake(desk, SERVICE_S / 10)
    assert [said for _, said in arrived] == [b"1", b"!", b"2", b"3"]
    assert [when for when, _ in arrived] == pytest.approx([0, 1, 2, 3], abs=0.21)
    (link,) = desk.broker.links.shared()
    assert link.untold_bytes == 5000


def test_a_registration_does_not_hold_up_what_matters(make_desk):
    desk = make_desk(scenario=on_one_link("ann"))
    air = Air(desk)
    desk.apply(a_plan({("ann", "alarm"): (0, 0.0), ("ann", "bulk/#"): (5, 0.0)}))
    ann, ben = air.join("ann"), desk.join("ben")
    number = ann.subscribe("alarm").topic_id
    ann.subscribe("bulk/#")
    ben.publish("bulk/1", b"1")
    ben.publish("alarm", b"!")
    wake(desk, SERVICE_S)
    assert [one.topic for one in ann.heard()] == ["bulk/1", number]


# ---------------------------------------------------------------------------------------- bounds


def test_spoofed_addresses_take_no_more_than_so_many_places(make_desk):
    desk = make_desk(anonymous="always")
    air = Air(desk, clients=50)
    for number in range(2000):
        air.arrive(encode(Connect(client_id=f"c{number}", will=number % 2 == 0)), ("10.0.0.1", number))
        air.arrive(encode(Publish(topic=1, payload=b"x", qos=1, message_id=1)), ("10.0.0.2", number))
    assert len(air.listener.peers) == len(air.drivers) == len(desk.broker.connections) == 50
    assert len(desk.broker.sessions) <= 50
    asked = air.sensor()
    assert asked.connect("ann") == ReturnCode.CONGESTION


def test_who_only_introduced_itself_gives_way_when_there_are_too_many(desk):
    air = Air(desk, clients=3)
    good = air.join("good", duration_s=0)
    good.say(PingRequest())
    good.heard()
    idle = [air.join(f"idle{number}", duration_s=0) for number in range(2)]
    assert air.sensor().connect("ann") == ReturnCode.CONGESTION
    desk.now += PROVEN_WITHIN_S + 1
    air.join("ann")
    assert [one.heard() for one in idle] == [[], []]
    assert set(desk.broker.sessions) == {"good", "idle1", "ann"}
    idle[1].say(PingRequest())
    assert idle[1].heard() == [Plain(kind=Kind.PINGRESP)]
    assert air.sensor().connect("ben") == ReturnCode.CONGESTION  # all have shown that they are there, or are new


def test_the_session_of_who_only_introduced_itself_does_not_outlive_it(desk, air):
    known = air.join("known", clean_session=False)
    known.subscribe("a/b", qos=1)
    known.say(Disconnect())
    for client_id in ("stranger", "known"):
        air.join(client_id, clean_session=False, duration_s=5)
    air.pass_time(10)
    assert not air.listener.peers
    assert list(desk.broker.sessions) == ["known"]


def test_an_introduction_that_comes_twice_is_one(desk, air):
    ann = air.join("ann")
    ann.subscribe("a/b")
    ann.say(Connect(client_id="ann"))
    assert ann.heard() == [Answer(kind=Kind.CONNACK)]
    assert set(desk.session("ann").subscriptions) == {"a/b"}
    desk.now += 5
    ann.say(Connect(client_id="ann"))  # it has started anew
    assert not desk.session("ann").subscriptions


def test_who_never_tells_its_will_is_let_go(desk, air):
    ann = air.sensor()
    ann.say(Connect(client_id="ann", will=True))
    ann.heard()
    air.pass_time(12)
    assert ann.heard() == [Disconnect()]
    assert not air.listener.peers


def test_a_client_has_so_many_topics_and_the_least_used_gives_way(desk):
    air = Air(desk, topics=10)
    watching = desk.join("watching")
    watching.subscribe("#")
    ann = air.join("ann")
    numbers = [ann.register(f"t/{number}").topic_id for number in range(10)]
    ann.publish(numbers[0], b"1")
    more = ann.register("t/10").topic_id
    assert more not in numbers
    for number, fine in ((numbers[0], True), (numbers[1], False), (more, True)):
        ann.publish(number, b"2")
        assert [one.return_code for one in ann.heard()] == ([] if fine else [ReturnCode.INVALID_TOPIC_ID])
    (peer,) = air.listener.peers.values()
    assert len(peer.sending.topics) == 10


def test_and_one_that_is_wanted_again_gets_another_number(desk):
    air = Air(desk, topics=2)
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("t/#")
    for _ in range(3):
        for number in range(5):
            ben.publish(f"t/{number}", b"%d" % number)
            assert ann.take_in() == [(f"t/{number}", b"%d" % number)]


def test_long_names_take_no_more_room_than_short_ones():
    topics = Topics({}, 1000)
    for number in range(500):
        topics.register(f"{number}".rjust(1000))
    assert len(topics) == MOST_NAME_BYTES // 1000


def test_numbers_that_are_taken_are_not_given_again_after_all_were():
    topics = Topics({}, 2)
    kept = topics.register("kept")
    for number in range(70_000):
        topics.name(TopicKind.NORMAL, kept)
        assert topics.register(f"t{number}") != kept
    assert topics.register("kept") == kept


def test_answers_to_strangers_are_no_longer_than_what_they_said(air):
    stranger = air.sensor()
    said = 0
    for message in (
        Connect(client_id="", protocol_id=9),
        PingRequest(),
        Publish(topic=1, payload=b"", qos=1, message_id=1),
        Step(kind=Kind.PUBREC, message_id=1),
        Register(topic_id=0, message_id=1, topic=""),
    ):
        stranger.say(message)
        said += len(encode(message))
        assert air.sent_bytes[stranger.address] <= said


def test_datagrams_that_are_none_are_counted_and_do_nothing(desk, air):
    ann = air.join("ann")
    for datagram in (b"", b"\1", bytes(100), b"\5\4"):
        air.arrive(datagram, ann.address)
        air.arrive(datagram, ("127.0.0.1", 999))
    assert air.counts.datagrams_malformed == 8
    assert ann.heard() == []
    assert len(air.listener.peers) == 1


numbers, small = st.integers(0, 65_535), st.integers(0, 4)
texts = st.sampled_from(["", "a", "ab", "a/b", "a/#", "#", "$SYS/x", "$need/x/a", "$share/g/a"])
qos, flag = st.integers(0, 2), st.booleans()
kinds = st.sampled_from(list(TopicKind))
anything = st.one_of(
    st.builds(Connect, client_id=st.sampled_from(["x", "y", ""]), clean_session=flag, will=flag, duration_s=small),
    st.builds(WillTopic, kind=st.sampled_from([Kind.WILLTOPIC, Kind.WILLTOPICUPD]), topic=texts, qos=qos),
    st.builds(WillMessage, kind=st.sampled_from([Kind.WILLMSG, Kind.WILLMSGUPD]), payload=st.binary(max_size=4)),
    st.builds(Register, topic_id=small, message_id=small, topic=texts),
    st.builds(
        Acknowledged,
        kind=st.sampled_from([Kind.REGACK, Kind.PUBACK]),
        topic_id=small,
        message_id=small,
        return_code=small,
    ),
    st.builds(
        Publish, topic=small, topic_kind=st.sampled_from([TopicKind.NORMAL, TopicKind.PREDEFINED]), message_id=small,
        qos=st.integers(-1, 2), retain=flag, payload=st.binary(max_size=80),
    ),
    st.builds(Publish, topic=st.just("ab"), topic_kind=st.just(SHORT), message_id=small, qos=qos, payload=st.just(b"")),
    st.builds(Step, kind=st.sampled_from([Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP]), message_id=small),
    st.builds(Subscribe, kind=st.just(Kind.SUBSCRIBE), message_id=small, topic=texts, qos=qos),
    st.builds(
        Subscribe, kind=st.just(Kind.UNSUBSCRIBE), message_id=small, topic=small,
        topic_kind=st.just(TopicKind.PREDEFINED),
    ),
    st.builds(PingRequest, client_id=texts),
    st.builds(Disconnect, duration_s=st.none() | small),
)  # fmt: skip


happenings = st.tuples(st.integers(1, 3), anything.map(encode) | st.binary(max_size=20) | st.floats(0.1, 4))


@given(st.lists(happenings, max_size=60))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_comes_the_books_are_right_and_nobody_stumbles(make_desk, happened):
    """The desk checks after every event that all that is due is delivered, dropped or owed."""
    desk = make_desk()
    air = Air(desk, predefined={1: "a/b"}, datagram_bytes=64, clients=2, topics=2, retry_s=0.5, retries=2)
    good = desk.join("good")
    good.subscribe("#")
    for port in (1, 2):
        air.arrive(encode(Connect(client_id="xy"[port - 1], clean_session=False)), ("127.0.0.1", port))
        air.arrive(encode(Subscribe(kind=Kind.SUBSCRIBE, message_id=1, topic="#", qos=port)), ("127.0.0.1", port))
    for port, what in happened:
        if isinstance(what, float):
            air.pass_time(what)
        else:
            air.arrive(what, ("127.0.0.1", port))
        assert len(air.listener.peers) <= 2
        assert len(air.drivers) <= 2
    good.subscribe("fine")
    good.publish("fine", b"1")
    assert good.payloads()[-1] == b"1"
