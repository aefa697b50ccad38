"""Clients on UDP at a broker driven by hand: they enter, publish, subscribe, and leave a will."""

from __future__ import annotations

import pytest
from air import Air

from firelane.exchange.lanes.lane import Dropped
from firelane.mqtt.packets import Will
from firelane.mqtt.sn.messages import (
    Acknowledged,
    Answer,
    Connect,
    Disconnect,
    GatewayInfo,
    Kind,
    PingRequest,
    Plain,
    Publish,
    Register,
    ReturnCode,
    SearchGateway,
    Step,
    Subscribe,
    TopicKind,
    WillMessage,
    WillTopic,
)
from firelane.scenario.need import NeedChange
from firelane.scenario.settings import AccessRule, Profile

SHORT, PREDEFINED = TopicKind.SHORT, TopicKind.PREDEFINED


@pytest.fixture
def air(desk):
    return Air(desk, predefined={7: "door/7"})


@pytest.fixture
def witness(desk):
    """A client on TCP that sees everything."""
    line = desk.join("witness")
    line.subscribe("#", qos=2)
    return line


def seen(line):
    return [(one.topic, one.payload) for one in line.messages()]


# ---------------------------------------------------------------------------------------- entering and leaving


def test_a_client_enters_and_leaves(desk, air):
    ann = air.join("ann", duration_s=60)
    session = desk.session("ann")
    assert session.connection.protocol == "sn-1.2"
    assert session.connection.keep_alive_s == 60
    ann.say(Disconnect())
    assert ann.heard() == [Disconnect()]
    assert "ann" not in desk.broker.sessions
    assert not air.listener.peers
    assert not air.drivers
    assert not desk.broker.connections


def test_who_keeps_nothing_alive_is_let_go_and_told(desk, air):
    ann = air.join("ann", duration_s=10)
    air.pass_time(14)
    assert ann.heard() == []
    ann.say(PingRequest())
    assert ann.heard() == [Plain(kind=Kind.PINGRESP)]
    air.pass_time(14)
    assert ann.heard() == []
    air.pass_time(3)
    assert ann.heard() == [Disconnect()]
    assert not air.listener.peers


def test_whatever_a_client_says_shows_that_it_is_alive(air):
    ann = air.join("ann", duration_s=10)
    for number in range(5):
        air.pass_time(12)
        ann.register(f"t/{number}")
    assert air.listener.peers


def test_a_session_that_is_not_clean_outlives_its_connection(desk, air):
    ann = air.join("ann", clean_session=False)
    ann.subscribe("a/b", qos=1)
    ann.say(Disconnect())
    desk.join("ben").publish("a/b", b"1", qos=1)
    again = air.sensor()
    assert again.connect("ann", clean_session=False) == 0
    assert again.take_in() == [("a/b", b"1")]


def test_nobody_enters_where_anonymous_clients_may_not(make_desk):
    air = Air(make_desk(anonymous="never"))
    assert air.sensor().connect("ann") == ReturnCode.NOT_SUPPORTED
    assert not air.broker.connections
    assert not air.listener.peers


def test_only_this_machine_enters_by_default(air):
    assert air.sensor(host="10.0.0.1").connect("ann") == ReturnCode.NOT_SUPPORTED
    assert air.sensor(host="127.0.0.9").connect("ann") == 0


def test_another_version_of_the_protocol_is_refused(air):
    assert air.sensor().connect("ann", protocol_id=2) == ReturnCode.NOT_SUPPORTED
    assert not air.listener.peers


def test_a_client_whose_name_belongs_to_a_user_is_refused(make_desk):
    desk = make_desk(anonymous="always", users={})
    air = Air(desk)
    desk.lasting("ann")
    desk.session("ann").identity = desk.session("ann").identity.__class__(client_id="ann", user="someone")
    assert air.sensor().connect("ann", clean_session=False) == ReturnCode.NOT_SUPPORTED


def test_an_introduction_that_was_not_heard_is_answered_again_and_is_no_loss(desk, air, witness):
    air.loses = lambda message: isinstance(message, Answer)
    ann = air.sensor()
    ann.say(Connect(client_id="ann"))
    assert ann.heard() == []
    air.loses = lambda message: False
    for wait_s in (0.5, 5):
        desk.now += wait_s
        ann.say(Connect(client_id="ann"))
        assert ann.heard() == [Answer(kind=Kind.CONNACK)]
    assert desk.broker.counts.connections_accepted == 2  # and the witness
    assert len(air.listener.peers) == 1


def test_another_introduction_from_the_same_address_replaces_the_client_there(desk, air, witness):
    ann = air.sensor()
    ann.connect_with_will("ann", "gone/ann", b"lost")
    ann.say(PingRequest())
    ann.heard()
    assert ann.connect("ben") == 0
    assert ann.heard() == []
    assert seen(witness) == [("gone/ann", b"lost")]
    assert list(desk.broker.sessions) == ["witness", "ben"]
    assert len(air.listener.peers) == 1


def test_a_client_that_is_taken_over_from_another_address_is_told(desk, air):
    ann, other = air.join("ann"), air.sensor()
    assert other.connect("ann") == 0
    assert ann.heard() == [Disconnect()]
    assert other.heard() == []
    assert len(air.listener.peers) == 1


def test_when_the_exchange_goes_away_clients_are_told(desk, air):
    ann = air.join("ann")
    desk.broker.shut_down()
    desk.settle()
    air.go_on()
    assert ann.heard() == [Disconnect()]
    assert not air.drivers


def test_who_looks_for_a_gateway_finds_it(air):
    stranger, ann = air.sensor(), air.join("ann")
    for one in (stranger, ann):
        one.say(SearchGateway(radius=1))
        assert one.heard() == [GatewayInfo(gateway_id=1)]


def test_a_stranger_is_told_to_enter_first(air):
    for message in (
        PingRequest(),
        Publish(topic="ab", topic_kind=SHORT, payload=b""),
        Subscribe(kind=Kind.SUBSCRIBE, message_id=1, topic="a"),
    ):
        stranger = air.sensor()
        stranger.say(message)
        assert stranger.heard() == [Disconnect()]
    assert air.counts.datagrams_ignored == 3


def test_strangers_that_say_goodbye_are_not_answered_or_two_gateways_would_never_end(air):
    stranger = air.sensor()
    stranger.say(Disconnect())
    stranger.say(GatewayInfo(gateway_id=2))
    assert stranger.heard() == []


# ---------------------------------------------------------------------------------------- wills


def test_a_will_is_sent_when_its_client_is_lost(air, witness):
    ann = air.sensor()
    ann.connect_with_will("ann", "gone/ann", b"lost", duration_s=10)
    air.pass_time(17)
    assert seen(witness) == [("gone/ann", b"lost")]


def test_and_not_when_it_takes_its_leave(air, witness):
    ann = air.sensor()
    ann.connect_with_will("ann", "gone/ann", b"lost")
    ann.say(Disconnect())
    assert seen(witness) == []


def test_every_step_of_a_will_may_be_lost(desk, air, witness):
    ann = air.sensor()
    topic, message = WillTopic(kind=Kind.WILLTOPIC, topic="w"), WillMessage(kind=Kind.WILLMSG, payload=b"lost")
    for said in (Connect(client_id="ann", will=True, duration_s=10), topic, message):
        air.loses = lambda message: True
        ann.say(said)
        air.loses = lambda message: False
        ann.say(said)
    assert ann.heard() == [
        Plain(kind=Kind.WILLTOPICREQ),
        Plain(kind=Kind.WILLMSGREQ),
        Answer(kind=Kind.CONNACK),
    ]
    assert seen(witness) == []
    air.pass_time(17)
    assert seen(witness) == [("w", b"lost")]


def test_an_empty_will_topic_means_no_will(desk, air):
    ann = air.sensor()
    ann.say(Connect(client_id="ann", will=True))
    ann.heard()
    ann.say(WillTopic(kind=Kind.WILLTOPIC))
    assert ann.heard() == [Answer(kind=Kind.CONNACK)]
    assert desk.session("ann").will is None


def test_a_will_to_a_filter_is_refused(air):
    ann = air.sensor()
    ann.say(Connect(client_id="ann", will=True))
    ann.say(WillTopic(kind=Kind.WILLTOPIC, topic="a/#"))
    ann.say(WillMessage(kind=Kind.WILLMSG, payload=b""))
    assert ann.heard(Answer) == [Answer(kind=Kind.CONNACK, return_code=ReturnCode.NOT_SUPPORTED)]
    assert not air.listener.peers


def test_a_will_can_be_changed_and_taken_back(desk, air):
    ann = air.join("ann")
    ann.say(WillMessage(kind=Kind.WILLMSGUPD, payload=b"x"))
    assert ann.heard() == [Answer(kind=Kind.WILLMSGRESP, return_code=ReturnCode.NOT_SUPPORTED)]  # there is none
    ann.say(WillTopic(kind=Kind.WILLTOPICUPD, topic="w", qos=1, retain=True))
    ann.say(WillMessage(kind=Kind.WILLMSGUPD, payload=b"x"))
    assert ann.heard() == [Answer(kind=Kind.WILLTOPICRESP), Answer(kind=Kind.WILLMSGRESP)]
    assert desk.session("ann").will == Will(topic="w", payload=b"x", qos=1, retain=True)
    ann.say(WillTopic(kind=Kind.WILLTOPICUPD, topic="a/+"))
    assert ann.heard() == [Answer(kind=Kind.WILLTOPICRESP, return_code=ReturnCode.NOT_SUPPORTED)]
    ann.say(WillTopic(kind=Kind.WILLTOPICUPD))
    assert ann.heard() == [Answer(kind=Kind.WILLTOPICRESP)]
    assert desk.session("ann").will is None


def test_a_changed_will_survives_a_crash(desk, air):
    ann = air.join("ann", clean_session=False)
    ann.say(WillTopic(kind=Kind.WILLTOPICUPD, topic="w"))
    desk.commit()
    desk.crash()
    assert desk.session("ann").will.topic == "w"


# ---------------------------------------------------------------------------------------- publishing


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_reaches_clients_on_tcp(air, witness, qos):
    ann = air.join("ann")
    number = ann.register("a/b").topic_id
    message_id = ann.publish(number, b"1", qos=qos)
    if qos == 1:
        assert ann.heard() == [Acknowledged(kind=Kind.PUBACK, topic_id=number, message_id=message_id)]
    if qos == 2:
        assert ann.heard() == [Step(kind=Kind.PUBREC, message_id=message_id)]
        ann.say(Step(kind=Kind.PUBREL, message_id=message_id))
        assert ann.heard() == [Step(kind=Kind.PUBCOMP, message_id=message_id)]
    assert ann.heard() == []
    assert seen(witness) == [("a/b", b"1")]


def test_topics_are_named_by_number_by_agreement_or_in_two_bytes(air, witness):
    ann = air.join("ann")
    ann.publish(ann.register("a/b").topic_id, b"1")
    ann.publish(7, b"2", PREDEFINED)
    ann.publish("ab", b"3", SHORT)
    assert ann.heard() == []
    assert seen(witness) == [("a/b", b"1"), ("door/7", b"2"), ("ab", b"3")]


def test_a_topic_keeps_its_number(air):
    ann = air.join("ann")
    assert ann.register("a/b") != ann.register("a/c")
    assert ann.register("a/b").topic_id == ann.register("a/b").topic_id


def test_numbers_are_each_clients_own(air, witness):
    ann, ben = air.join("ann"), air.join("ben")
    number = ann.register("a/b").topic_id
    ben.publish(number, b"1")
    assert ben.heard() == [
        Acknowledged(kind=Kind.PUBACK, topic_id=number, message_id=0, return_code=ReturnCode.INVALID_TOPIC_ID)
    ]
    assert seen(witness) == []


@pytest.mark.parametrize(("kind", "topic"), [(TopicKind.NORMAL, 99), (PREDEFINED, 99)])
def test_a_number_that_stands_for_nothing_is_refused(air, kind, topic):
    ann = air.join("ann")
    message_id = ann.publish(topic, b"1", kind, qos=1)
    refused = ReturnCode.INVALID_TOPIC_ID
    answer = Acknowledged(kind=Kind.PUBACK, topic_id=topic, message_id=message_id, return_code=refused)
    assert ann.heard() == [answer]


@pytest.mark.parametrize("topic", ["a/#", "", "/" * 300])
def test_what_is_no_topic_is_not_registered(air, topic):
    assert air.join("ann").register(topic).return_code == ReturnCode.NOT_SUPPORTED


def test_a_short_name_with_a_wildcard_is_no_topic(air, witness):
    ann = air.join("ann")
    ann.publish("a+", b"1", SHORT)
    assert [one.return_code for one in ann.heard()] == [ReturnCode.NOT_SUPPORTED]
    assert seen(witness) == []


def test_a_message_sent_again_is_not_published_again_at_qos_2(air, witness):
    ann = air.join("ann")
    for duplicate in (False, True):
        ann.say(Publish(topic="ab", topic_kind=SHORT, payload=b"1", qos=2, message_id=5, duplicate=duplicate))
    assert ann.heard() == [Step(kind=Kind.PUBREC, message_id=5)] * 2
    ann.say(Step(kind=Kind.PUBREL, message_id=5))
    ann.say(Step(kind=Kind.PUBREL, message_id=5))
    assert ann.heard() == [Step(kind=Kind.PUBCOMP, message_id=5)] * 2
    assert seen(witness) == [("ab", b"1")]


def test_a_message_that_access_rules_forbid_is_refused(make_desk):
    rules = (AccessRule(who="*", filter="open/#", allow=("publish", "subscribe")),)
    desk = make_desk(access=rules)
    air = Air(desk, predefined={1: "open/1", 2: "shut/2"})
    ann = air.join("ann")
    for number, code in ((1, ReturnCode.ACCEPTED), (2, ReturnCode.NOT_SUPPORTED)):
        for qos in (1, 2):
            ann.publish(number, b"1", PREDEFINED, qos=qos)
            (answer,) = ann.heard()
            assert getattr(answer, "return_code", ReturnCode.ACCEPTED) == code
    assert ann.subscribe("shut/2").return_code == ReturnCode.NOT_SUPPORTED
    assert ann.subscribe("open/#").return_code == ReturnCode.ACCEPTED
    assert desk.broker.counts.publish_refused == 2


def test_a_message_for_which_the_log_has_no_room_is_refused_as_congestion(make_desk):
    desk = make_desk(limits={"retained": 0})
    ann = Air(desk).join("ann")
    ann.publish("ab", b"1", SHORT, qos=1, retain=True)
    assert [one.return_code for one in ann.heard()] == [ReturnCode.CONGESTION]


def test_who_publishes_too_fast_is_not_heard_for_a_while(make_desk):
    desk = make_desk(limits={"publish_hz": 5.0})
    air = Air(desk)
    watching = desk.join("watching")
    watching.subscribe("#")
    ann = air.join("ann")
    for _ in range(20):
        ann.publish("ab", b"1", SHORT)
    heard = len(watching.messages())
    assert 5 <= heard <= 7
    assert air.counts.datagrams_ignored == 20 - heard
    air.pass_time(2)
    ann.publish("ab", b"2", SHORT)
    assert seen(watching) == [("ab", b"2")]


# ---------------------------------------------------------------------------------------- QoS -1


def test_a_stranger_may_publish_with_qos_minus_1_to_topics_that_need_no_number(air, witness):
    stranger = air.sensor()
    stranger.publish(7, b"1", PREDEFINED, qos=-1)
    stranger.publish("ab", b"2", SHORT, qos=-1)
    stranger.publish(7, b"3", qos=-1)
    stranger.publish(8, b"4", PREDEFINED, qos=-1)
    stranger.publish("a#", b"5", SHORT, qos=-1)
    assert stranger.heard() == []
    assert seen(witness) == [("door/7", b"1"), ("ab", b"2")]
    assert (air.counts.publish_received, air.counts.datagrams_ignored) == (2, 3)
    assert not air.listener.peers


def test_a_client_may_too(air, witness):
    ann = air.join("ann")
    ann.publish(7, b"1", PREDEFINED, qos=-1)
    assert ann.heard() == []
    assert seen(witness) == [("door/7", b"1")]


def test_a_stranger_may_publish_only_what_an_anonymous_client_may(make_desk):
    rules = (
        AccessRule(who="ann", filter="#", allow=("publish",)),
        AccessRule(who="*", filter="ab", allow=("publish",)),
    )
    desk = make_desk(access=tuple(rules))
    air = Air(desk, predefined={7: "door/7", 8: "$SYS/x"})
    for topic, kind in ((7, PREDEFINED), (8, PREDEFINED), ("ab", SHORT)):
        air.sensor().publish(topic, b"", kind, qos=-1)
        air.sensor(host="10.0.0.1").publish(topic, b"", kind, qos=-1)
    assert air.counts.publish_refused == 5  # all but `ab` from this machine


def test_nor_what_belongs_to_a_stream_of_sensors(desk):
    air = Air(desk, predefined={1: "$sense/offer/hall", 2: "$sense/load/hall"})
    for number in (1, 2):
        air.sensor().publish(number, b"{}", PREDEFINED, qos=-1)
    assert air.counts.publish_refused == 2


def test_strangers_are_held_to_the_rate_of_publishing(make_desk):
    desk = make_desk(limits={"publish_hz": 5.0})
    air = Air(desk)
    stranger = air.sensor()
    for _ in range(20):
        stranger.publish("ab", b"", SHORT, qos=-1)
    assert (air.counts.publish_received, air.counts.datagrams_ignored) == (5, 15)
    desk.now += 1
    stranger.publish("ab", b"", SHORT, qos=-1)
    assert air.counts.publish_received == 6


# ---------------------------------------------------------------------------------------- subscribing


def test_a_subscription_to_one_topic_gives_it_its_number(desk, air):
    ann = air.join("ann")
    answer = ann.subscribe("a/b", qos=1)
    assert (answer.return_code, answer.qos) == (ReturnCode.ACCEPTED, 1)
    assert answer.topic_id
    desk.join("ben").publish("a/b", b"1")
    assert ann.heard() == [Publish(topic=answer.topic_id, payload=b"1")]


@pytest.mark.parametrize("topic", ["a/#", "$share/group/a/b", "$need/quick/a/b"])
def test_topics_of_a_wider_subscription_are_told_as_they_come(make_desk, topic):
    desk = make_desk(profiles={"quick": Profile(need=NeedChange(weight=2.0))})
    air = Air(desk)
    ann, ben = air.join("ann"), desk.join("ben")
    assert ann.subscribe(topic).topic_id == 0
    ben.publish("a/b", b"1")
    ben.publish("a/b", b"2")
    (told,) = ann.heard()
    assert isinstance(told, Register)
    assert told.topic == "a/b"
    ann.say(Acknowledged(kind=Kind.REGACK, topic_id=told.topic_id, message_id=told.message_id))
    assert ann.heard() == [Publish(topic=told.topic_id, payload=payload) for payload in (b"1", b"2")]


def test_subscriptions_by_agreed_number_and_by_short_name(desk, air):
    ann, ben = air.join("ann"), desk.join("ben")
    assert ann.subscribe(7, PREDEFINED).topic_id == 7
    assert ann.subscribe("ab", SHORT).topic_id == 0
    ben.publish("door/7", b"1")
    ben.publish("ab", b"2")
    assert ann.heard() == [
        Publish(topic=7, topic_kind=PREDEFINED, payload=b"1"),
        Publish(topic="ab", topic_kind=SHORT, payload=b"2"),
    ]


def test_an_agreed_number_is_not_used_to_who_never_did(desk, air):
    ann = air.join("ann")
    ann.subscribe("door/+")
    desk.join("ben").publish("door/7", b"1")
    assert [type(one) for one in ann.heard()] == [Register]


def test_subscriptions_that_cannot_be(air):
    ann = air.join("ann")
    assert ann.subscribe(99, PREDEFINED).return_code == ReturnCode.INVALID_TOPIC_ID
    assert ann.subscribe("a/#/b").return_code == ReturnCode.NOT_SUPPORTED
    assert ann.subscribe("").return_code == ReturnCode.NOT_SUPPORTED
    assert air.listener.peers  # and it lives


def test_too_many_subscriptions_are_congestion(make_desk):
    ann = Air(make_desk(limits={"subscriptions": 1})).join("ann")
    assert ann.subscribe("a").return_code == ReturnCode.ACCEPTED
    assert ann.subscribe("b").return_code == ReturnCode.CONGESTION


def test_a_subscription_ends(desk, air):
    ann, ben = air.join("ann"), desk.join("ben")
    for topic, kind in (("a/b", TopicKind.NORMAL), ("ab", SHORT), (7, PREDEFINED), (99, PREDEFINED)):
        ann.subscribe(topic, kind)
        ann.say(Subscribe(kind=Kind.UNSUBSCRIBE, message_id=50, topic=topic, topic_kind=kind))
        assert ann.heard() == [Step(kind=Kind.UNSUBACK, message_id=50)]
    for topic in ("a/b", "ab", "door/7"):
        ben.publish(topic, b"1")
    assert ann.heard() == []


def test_retained_messages_come_to_a_wide_subscription_one_topic_at_a_time(desk, air):
    ben = desk.join("ben")
    for number in range(20):
        ben.publish(f"kept/{number}", b"%d" % number, retain=True)
    ann = air.join("ann")
    ann.subscribe("kept/#")
    told = [one for one in ann.arrived if isinstance(one, Register)]
    assert len(told) == 1  # one registration is under way at a time
    assert sorted(ann.take_in()) == sorted((f"kept/{number}", b"%d" % number) for number in range(20))


def test_a_message_whose_topic_is_known_is_not_held_up_by_one_whose_topic_is_not(desk, air):
    ann, ben = air.join("ann"), desk.join("ben")
    number = ann.subscribe("known").topic_id
    ann.subscribe("new/#")
    ben.publish("new/1", b"1")
    ben.publish("known", b"2")
    heard = ann.heard()
    assert [one.topic for one in heard] == ["new/1", number]  # REGISTER, then PUBLISH of the other


@pytest.mark.parametrize("qos", [1, 2])
def test_messages_that_must_arrive_come_one_by_one_and_are_answered(desk, air, qos):
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("a/b", qos=qos)
    for number in range(5):
        ben.publish("a/b", b"%d" % number, qos=2)
    assert len(ann.arrived) == 1  # small clients keep one
    assert [payload for _, payload in ann.take_in()] == [b"0", b"1", b"2", b"3", b"4"]
    assert not desk.session("ann").in_flight
    assert desk.session("ann").totals.delivered == 5


# ---------------------------------------------------------------------------------------- what does not fit


def test_the_largest_message_that_fits_arrives_and_the_next_is_dropped_and_counted(desk):
    air = Air(desk, datagram_bytes=300)
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("a/b")
    ben.publish("a/b", bytes(291))  # and 9 bytes of header
    ben.publish("a/b", bytes(292))
    assert [len(payload) for _, payload in ann.take_in()] == [291]
    assert desk.session("ann").totals.dropped[Dropped.TOO_LARGE] == 1


def test_and_so_is_one_of_qos_1(desk):
    air = Air(desk, datagram_bytes=300)
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("a/b", qos=1)
    ben.publish("a/b", bytes(292), qos=1)
    ben.publish("a/b", b"1", qos=1)
    assert ann.take_in() == [("a/b", b"1")]
    assert desk.session("ann").totals.dropped[Dropped.TOO_LARGE] == 1


def test_a_topic_whose_name_does_not_fit_is_dropped_and_counted(desk):
    air = Air(desk, datagram_bytes=300)
    ann, ben = air.join("ann"), desk.join("ben")
    ann.subscribe("#")
    for length in (292, 293):  # REGISTER has 8 bytes before the name
        ben.publish("t" * length, b"1")
    assert [len(name) for name, _ in ann.take_in()] == [292]
    assert desk.session("ann").totals.dropped[Dropped.TOO_LARGE] == 1


def test_large_retained_messages_are_dropped_and_the_others_come(desk):
    air = Air(desk, datagram_bytes=300)
    ben = desk.join("ben")
    for topic, size in (("k/1", 10), ("k/2", 400), ("k/3", 20)):
        ben.publish(topic, bytes(size), retain=True)
    ann = air.join("ann")
    ann.subscribe("k/#")
    assert sorted(len(payload) for _, payload in ann.take_in()) == [10, 20]
    assert desk.session("ann").totals.dropped[Dropped.TOO_LARGE] == 1
