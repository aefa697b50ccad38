"""Streams of sensors at the exchange: offers, requests, grants, states for who lacks them, limits."""

import json

import numpy as np
import pytest
from sensor_ends import AHEAD_S, TOPIC, Device, Watcher, an_offer

from firelane.mqtt.packets import V3, Ack, Publish
from firelane.scenario.need import Need, NeedChange
from firelane.scenario.settings import AccessRule, Profile
from firelane.sense.offer import GRANT, LOAD, OFFER, RESYNC, to_json
from firelane.sense.wire import decode


def granted(desk, topic=TOPIC):
    """What the exchange has told a publisher last."""
    message = desk.broker.retained.get((GRANT + topic).encode())
    return None if message is None else json.loads(message.payload)


def stream_of(desk, topic=TOPIC):
    return desk.broker.streams.find(topic)


# ---- offers


def test_an_offer_is_followed_and_granted_to(desk):
    device = Device(desk)
    desk.pass_time(0.1)
    assert granted(desk) == {"format": 1, "tolerance": None, "load": None, "subscribers": 0, "lossy": False}
    assert [one.topic for one in device.tend()] == [GRANT + TOPIC]
    assert stream_of(desk).offer == device.offer


@pytest.mark.parametrize(
    ("topic", "payload", "why"),
    [
        (OFFER + TOPIC, b"{}", "format"),
        (OFFER + TOPIC, b"\xff", "JSON"),
        (OFFER + TOPIC, b'{"format": 1, "boot": 1, "sensors": []}', "sensors"),
        (OFFER + "$SYS/load", to_json(an_offer()), "$"),
        (OFFER, to_json(an_offer()), "topic"),
    ],
)
def test_a_bad_offer_is_refused_with_a_reason_and_does_no_harm(desk, topic, payload, why):
    device = Device(desk)
    other = desk.join("other")
    watching = desk.join("ann")
    watching.subscribe("$sense/offer/#")
    watching.take_all()
    other.publish(topic, payload, qos=1, retain=True)
    answer = other.take(Ack)
    assert answer.reason == 0x83
    assert why in answer.properties["reason_string"]
    assert watching.messages() == []
    assert stream_of(desk).offer == device.offer
    assert desk.broker.streams.refused["offer"] == 1
    old = desk.join("old", V3)
    old.publish(topic, payload, qos=1)  # who cannot be told is not disconnected
    assert not old.closed


def test_an_empty_offer_ends_a_stream(desk):
    device = Device(desk)
    desk.pass_time(0.1)
    device.line.take_all()
    device.line.publish(OFFER + TOPIC, b"", qos=1, retain=True)
    assert stream_of(desk) is None
    desk.pass_time(0.1)
    assert granted(desk) is None
    assert [(one.topic, one.payload) for one in device.line.messages()] == [(GRANT + TOPIC, b"")]
    ann = desk.join("ann")
    ann.subscribe(TOPIC)
    device.line.publish(TOPIC, b"like any other")
    assert ann.payloads() == [b"like any other"]


def test_streams_come_back_with_the_log(desk):
    Device(desk, offer=an_offer(4))
    desk.crash()
    assert len(stream_of(desk)) == 4
    assert stream_of(desk).owner is None


def test_an_operator_who_clears_an_offer_ends_the_stream(desk):
    Device(desk)
    assert desk.broker.clear_retained(OFFER + TOPIC)
    assert stream_of(desk) is None


# ---- requests


def test_a_request_stricter_than_the_offer_is_refused_and_told_why(desk):
    Device(desk, offer=an_offer(precision=0.5))
    strict = Watcher(desk, "strict", tolerance=0.4)
    assert strict.reasons == [0x83]
    assert TOPIC in strict.refusal
    assert "0.5" in strict.refusal
    assert "strict" not in {one.session.client_id for one in desk.broker.routes.subscriptions(TOPIC)}
    assert Watcher(desk, "wide", topic_filter="building/#", tolerance=0.4).reasons == [0x83]
    assert Watcher(desk, "fair", tolerance=0.5).reasons == [0]
    assert Watcher(desk, "elsewhere", topic_filter="garden/#", tolerance=0.1).reasons == [0]


def test_a_request_for_another_type_is_refused(desk):
    Device(desk)
    wrong = Watcher(desk, "wrong", sensor_type="Smoke")
    assert wrong.reasons == [0x83]
    assert "Smoke" in wrong.refusal
    assert Watcher(desk, "right", sensor_type="Sensor").reasons == [0]


def test_a_profile_asks_like_properties_do(make_desk):
    desk = make_desk(profiles={"keen": Profile(need=NeedChange(tolerance=0.1))})
    Device(desk)
    assert Watcher(desk, topic_filter=f"$need/keen/{TOPIC}").reasons == [0x83]


def test_who_may_not_see_a_stream_is_not_told_of_it(make_desk):
    rules = [
        AccessRule(who="ann", filter="building/2/#", allow=("subscribe",)),
        AccessRule(who="device", filter="#", allow=("publish", "subscribe")),
    ]
    desk = make_desk(access=tuple(rules))
    Device(desk)
    assert Watcher(desk, "ann", topic_filter="building/#", tolerance=0.1).reasons == [0]


def test_an_offer_that_comes_after_a_stricter_request_leaves_it_be_and_is_told_once(desk):
    keen = Watcher(desk, "keen", tolerance=0.1)
    device = Device(desk)
    desk.pass_time(0.1)
    device.read(20, 20, 20)
    assert np.abs(keen.values - 20).max() < 0.5
    assert list(stream_of(desk).mismatches) == [("keen", TOPIC)]
    assert granted(desk)["tolerance"] == 0.5  # no stricter than what is offered
    told = desk.broker.streams.take_news()
    assert len(told) == 1
    assert "keen" in told[0]
    device.offer_now()
    desk.pass_time(0.1)
    assert desk.broker.streams.take_news() == []


def test_what_an_operator_wants_for_a_client_does_not_refuse_it(make_desk):
    desk = make_desk(profiles={"all": Profile(clients=("*",), need=NeedChange(tolerance=0.1))})
    Device(desk)
    assert Watcher(desk).reasons == [0]
    desk.pass_time(0.1)
    assert list(stream_of(desk).mismatches) == [("watcher", TOPIC)]


# ---- grants


def test_the_tightest_tolerance_is_granted(desk):
    device = Device(desk)
    Watcher(desk, "a", tolerance=2)
    Watcher(desk, "b", topic_filter="building/+/temperature", tolerance=0.8)
    Watcher(desk, "c")
    desk.pass_time(0.1)
    assert granted(desk) == {"format": 1, "tolerance": 0.8, "load": None, "subscribers": 3, "lossy": False}
    device.tend()
    assert device.sending.delta == 0.8
    desk.broker.end_session("b", desk.now)
    desk.pass_time(0.6)
    assert granted(desk)["tolerance"] == 2
    assert granted(desk)["subscribers"] == 2


def test_grants_are_told_on_change_and_not_more_often_than_twice_a_second(desk):
    device = Device(desk)
    told = 0
    for number in range(20):
        Watcher(desk, f"w{number}", tolerance=5 - number / 10)
        desk.pass_time(0.1)
        told += sum(isinstance(one, Publish) for one in device.line.take_all())
    assert told <= 5
    desk.pass_time(0.6)
    assert granted(desk)["tolerance"] == pytest.approx(3.1)
    device.line.take_all()
    for _ in range(10):
        desk.pass_time(0.6)
    assert device.line.messages() == []


def test_who_is_away_and_will_be_back_still_counts(desk):
    Device(desk)
    ann = desk.lasting("ann")
    ann.subscribe(TOPIC, qos=1, user_property=[("tolerance", "0.9")])
    ann.drop()
    desk.pass_time(0.6)
    assert granted(desk)["tolerance"] == 0.9


def test_the_least_load_is_granted_and_only_subscribers_are_heard(desk):
    Device(desk, offer=an_offer(load=0.6))
    ann = Watcher(desk, "ann", tolerance=1)
    ben = Watcher(desk, "ben", tolerance=1)
    stranger = desk.join("stranger")
    desk.pass_time(0.6)
    ann.line.publish(LOAD + TOPIC, b'{"format":1,"load":0.5}')
    ben.line.publish(LOAD + TOPIC, b'{"format":1,"load":0.4}')
    stranger.publish(LOAD + TOPIC, b'{"format":1,"load":0.31}')
    ann.line.publish(LOAD + TOPIC, b'{"format":1,"load":7}', qos=1)
    assert ann.line.take(Ack).reason == 0x83
    desk.pass_time(0.6)
    assert granted(desk)["load"] == 0.4
    assert desk.broker.streams.refused["load"] == 2
    ben.line.drop()
    desk.pass_time(0.6)
    assert granted(desk)["load"] == 0.5


def test_what_is_said_to_the_exchange_is_not_passed_on(desk):
    Device(desk)
    spy = desk.join("spy")
    spy.subscribe(LOAD + "#", RESYNC + "#")
    ann = Watcher(desk, "ann", tolerance=1)
    for qos in (0, 1, 2):
        ann.line.publish(LOAD + TOPIC, b'{"format":1,"load":0.5}', qos=qos, retain=True)
    assert spy.messages() == []
    assert desk.broker.retained.get((LOAD + TOPIC).encode()) is None
    ann.line.publish(LOAD + "other", b"anything")  # a stream that is not followed
    assert len(spy.messages()) == 1


def test_only_the_exchange_grants(desk):
    desk.join("evil").publish(GRANT + TOPIC, b"{}", retain=True)
    assert granted(desk) is None
    assert desk.broker.counts.publish_refused == 1


# ---- rights


def test_rights_on_the_topics_about_a_stream_follow_those_on_the_stream(make_desk):
    rules = (
        AccessRule(who="device", filter="building/#", allow=("publish",)),
        AccessRule(who="ann", filter="building/#", allow=("subscribe",)),
    )
    desk = make_desk(access=rules)
    device = Device(desk)
    assert stream_of(desk) is not None
    ann, evil = Watcher(desk, "ann", tolerance=1), desk.join("evil")
    ann.line.subscribe(OFFER + "building/#")
    assert [one.topic for one in ann.line.messages()] == [OFFER + TOPIC]
    desk.pass_time(0.1)
    assert [one.topic for one in device.tend()] == [GRANT + TOPIC]
    for topic in (OFFER + TOPIC, LOAD + TOPIC, RESYNC + TOPIC, TOPIC):
        evil.publish(topic, to_json(an_offer(boot=1)), qos=1)
        assert evil.take(Ack).reason == 0x87
    for topic in (OFFER + TOPIC, GRANT + TOPIC, RESYNC + TOPIC):
        assert evil.subscribe(topic).reasons == [0x87]
    ann.line.publish(OFFER + TOPIC, to_json(an_offer(boot=1)), qos=1)
    assert ann.line.take(Ack).reason == 0x87
    assert ann.line.subscribe(GRANT + TOPIC).reasons == [0x87]


def test_another_client_cannot_speak_for_a_stream_whose_publisher_is_there(desk):
    device = Device(desk)
    watcher = Watcher(desk)
    device.read(20, 20, 20)
    evil = desk.join("evil")
    evil.publish(OFFER + TOPIC, to_json(an_offer(boot=1)), qos=1, retain=True)
    assert evil.take(Ack).reason == 0x83
    evil.publish(OFFER + TOPIC, b"", qos=1, retain=True)
    assert evil.take(Ack).reason == 0x83
    evil.publish(TOPIC, b"FS nonsense", qos=1)
    assert evil.take(Ack).reason == 0x87
    evil.publish(TOPIC, b"FS nonsense")
    assert watcher.take() == 1
    assert stream_of(desk).offer.boot == 7
    device.line.drop()
    evil.publish(OFFER + TOPIC, to_json(an_offer(boot=1)), qos=1, retain=True)
    assert evil.take(Ack).reason in (0, 0x10)
    assert stream_of(desk).offer.boot == 1


# ---- states


def test_who_lacks_states_is_told_them_by_the_exchange_alone(desk):
    device = Device(desk)
    early = Watcher(desk, "early")
    device.read(20, 30, 40)
    desk.pass_time(1)
    device.read(20, 30, 60)
    late = Watcher(desk, "late")
    assert early.take() == 2
    assert late.take() == 0
    late.ask()
    assert np.allclose(late.values, [20, 30, 60])
    assert early.take() == 0
    assert [one for one in device.line.messages() if one.topic.startswith(RESYNC)] == []
    assert len(late.stream.missing()) == 0
    assert np.array_equal(late.stream.bank.state, early.stream.bank.state)  # bit for bit


def test_some_states_may_be_asked_for_and_what_makes_no_sense_is_refused(desk):
    device = Device(desk)
    device.read(20, 30, 40)
    late = Watcher(desk)
    late.ask(1, 900)
    assert late.take() == 1
    assert late.stream.missing().tolist() == [0, 2]
    late.line.publish(RESYNC + TOPIC, b'{"format":1,"sensors":[-1]}', qos=1)
    assert late.line.take(Ack).reason == 0x83


def test_an_answer_does_not_hide_that_the_message_before_it_was_lost_on_the_way(desk):
    device, early = Device(desk), Watcher(desk)
    device.read(20, 30, 40)
    early.take()
    desk.pass_time(1)
    device.read(90, 90, 40)
    early.line.take_all()  # which this subscriber never gets to see
    early.ask(0)
    early.take()
    assert early.stream.missed == 1
    assert early.stream.missing().tolist() == [1, 2]


def test_an_answer_of_an_exchange_that_lacks_something_itself_makes_nobody_believe_that_it_lacks_nothing(desk):
    device, early = Device(desk), Watcher(desk)
    device.read(20, 30, 40)
    device.sending.observe(device.time_s + 1, np.array([90.0, 30.0, 40.0]))  # lost on its way to the exchange
    device.send(device.sending.observe(device.time_s + 2, np.array([90.0]), np.array([2])))
    early.take()
    early.ask(2)
    assert early.take() == 1
    assert early.stream.missing().tolist() == [0, 1]
    assert stream_of(desk).sure.tolist() == [False, False, True]


def test_what_was_in_lost_messages_is_told_by_their_numbers_and_nothing_else(desk):
    device, early = Device(desk, offer=an_offer(5)), Watcher(desk)
    device.read(20, 30, 40, 50, 60)
    early.take()
    for sensor in (1, 3):
        desk.pass_time(1)
        device.send(device.sending.observe(device.time_s, np.array([90.0]), np.array([sensor])))
    early.line.take_all()  # which this subscriber never gets to see
    device.send(device.sending.beat(device.time_s))
    early.take()
    assert len(early.stream.missing()) == 5
    asked = early.stream.ledger.wanted(early.stream.bank)
    assert (asked.sensors, asked.batches) == ((), ((1, 2),))
    early.line.publish(RESYNC + TOPIC, to_json(asked))
    assert early.take() == 1
    assert decode(early.messages[-1].payload).updates.sensor.tolist() == [1, 3]
    assert not len(early.stream.missing())


def test_a_message_that_comes_late_heals_nothing_at_the_exchange(desk):
    device = Device(desk)
    device.read(20, 30, 40)
    desk.pass_time(1)
    later = [(0, (20, 30, 50)), (1, (20, 50, 50)), (2, (50, 50, 50))]
    lost, late, last = (
        device.sending.observe(device.time_s + ahead_s, np.array(read, float)) for ahead_s, read in later
    )
    device.send(last)
    assert stream_of(desk).sure.tolist() == [True, False, False]
    device.send(late)
    assert stream_of(desk).sure.tolist() == [True, False, False]
    device.send(lost)
    assert stream_of(desk).missed == 0
    device.send(device.sending.whole(device.time_s + 3))
    assert stream_of(desk).sure.all()


def test_asking_too_often_is_of_no_use(desk):
    """All states after 0, 1, 3 and 7 seconds (pauses of 1, 2, 4), and 64 of them four times a second."""
    count, seconds = 1000, 10
    device = Device(desk, offer=an_offer(count))
    device.read(*range(count))
    late = Watcher(desk)
    for _ in range(10 * seconds):
        for _ in range(3):
            late.ask()
        desk.pass_time(0.1)
    late.take()
    told = sum(len(decode(one.payload).updates) for one in late.messages)
    assert 4 * count <= told <= 4 * count + 4 * seconds * 64
    assert desk.broker.streams.refused["resync"] > 200


def test_streams_pass_as_they_are_until_the_models_are_loaded_and_are_followed_then(desk):
    streams, offers = desk.broker.streams, []
    streams.ready, streams.on_offer = False, lambda: offers.append(True)
    device = Device(desk)
    fine, coarse = Watcher(desk, "fine", tolerance=0.5), Watcher(desk, "coarse", tolerance=5.0)
    assert offers == [True]
    device.read(20, 30, 40)
    desk.pass_time(2)
    assert fine.take() == coarse.take() == 1
    assert np.allclose(coarse.values, [20, 30, 40])
    assert stream_of(desk).messages == 0
    streams.begin()
    desk.pass_time(1)
    assert RESYNC + TOPIC in [one.topic for one in device.tend()]  # nobody else may know what it lacks
    assert stream_of(desk).sure.all()
    desk.pass_time(1)
    device.tend()
    device.read(20, 30, 50)
    fine.take(), coarse.take()
    assert np.allclose(fine.values, [20, 30, 50])
    assert (np.abs(coarse.values - [20, 30, 50]) < 5.0).all()
    assert coarse.stream.boot != fine.stream.boot


def test_an_exchange_that_lacks_states_itself_asks_the_publisher(desk):
    device = Device(desk)
    device.read(20, 30, 40)
    desk.crash()
    device.line = desk.join("device")
    device.line.subscribe(GRANT + TOPIC, RESYNC + TOPIC, qos=1)
    desk.pass_time(1)
    device.read(20, 35, 40)
    desk.pass_time(0.1)
    asked = [json.loads(one.payload) for one in device.tend() if one.topic.startswith(RESYNC)]
    assert asked == [{"format": 1, "sensors": None, "batches": None}]  # it has not even heard of most updates
    watcher = Watcher(desk)
    watcher.ask()
    desk.pass_time(3)
    device.tend()
    desk.pass_time(3)
    watcher.ask()
    watcher.take()
    assert np.array_equal(watcher.stream.bank.state, device.sending._sending.bank.state)


def test_a_lost_message_is_noticed_and_healed(desk):
    device = Device(desk)
    device.read(20, 30, 40)
    desk.pass_time(1)
    device.sending.observe(device.time_s, np.array([90.0, 30.0, 40.0]))  # lost on its way
    desk.pass_time(1)
    device.read(91, 30, 50)
    stream = stream_of(desk)
    assert stream.missed == 1
    assert stream.sure.tolist() == [False, True, True]  # by the sum of sequences it is the first that lacks something
    desk.pass_time(0.1)
    device.tend()
    assert stream.sure.all()
    assert np.array_equal(stream.bank.state, device.sending._sending.bank.state)


def test_another_boot_begins_anew(desk):
    device = Device(desk)
    device.read(20, 30, 40)
    device.line.drop()
    again = Device(desk, offer=an_offer(2, boot=8))
    again.read(1, 2)
    stream = stream_of(desk)
    assert stream.boot == 8
    assert np.allclose(stream.bank.predict(desk.now + AHEAD_S), [1, 2])


def test_what_is_no_update_passes_and_is_counted(desk):
    device = Device(desk)
    watcher = desk.join("recorder")
    watcher.subscribe("#")
    device.read(20, 30, 40)
    good = watcher.payloads()[0]
    for bad in (b"", b"hello", good[:-1], good[:4] + b"\xff\xff" + good[6:], good[:8] + b"\0\1" + good[10:]):
        device.line.publish(TOPIC, bad)
        assert watcher.payloads() == [bad]
    assert stream_of(desk).unreadable == 5
    assert np.allclose(stream_of(desk).bank.predict(desk.now + AHEAD_S), [20, 30, 40])


def test_discrete_streams_pass_as_they_are_and_their_publisher_answers(desk):
    device = Device(desk, offer=an_offer(precision=None, kind="discrete"))
    watcher = Watcher(desk, tolerance=3)
    device.read(1, 0, 1)
    device.tend()
    assert watcher.take() >= 1
    watcher.ask()
    assert [one.topic for one in device.line.messages()] == [RESYNC + TOPIC]


# ---- limits


def test_so_many_streams_are_followed_and_no_more(make_desk):
    desk = make_desk(limits={"streams": 8, "stream_sensors": 60})
    for number in range(4):
        Device(desk, f"d{number}", topic=f"s/{number}/a", offer=an_offer(10))
    one_too_many = Device(desk, "d9", topic="s/9", offer=an_offer(21))
    assert stream_of(desk, "s/9") is None
    assert desk.broker.streams.unfollowed == 1
    assert len(desk.broker.streams.take_news()) == 1
    late = Watcher(desk, topic="s/9")
    one_too_many.read(*range(21))
    assert late.take() == 1  # it passes
    late.ask()
    assert [one.topic for one in one_too_many.line.messages()] == [RESYNC + "s/9"]  # and its publisher is asked
    for number in range(20):
        Device(desk, f"e{number}", topic=f"t/{number}", offer=an_offer(1))
    assert len(desk.broker.streams.followed) == 8
    assert desk.broker.streams.take_news() == []  # once is enough


def test_one_client_gets_a_part_of_the_room_only(make_desk):
    desk = make_desk(limits={"streams": 40})
    device = Device(desk)
    for number in range(30):
        device.line.publish(f"{OFFER}more/{number}", to_json(an_offer(1)), retain=True)
    assert len(desk.broker.streams.followed) == 10


def test_a_will_on_the_topic_of_a_stream_goes_its_way(desk):
    from firelane.mqtt.packets import Will

    watcher = desk.join("ann")
    watcher.subscribe(TOPIC)
    line = desk.join("device", will=Will(topic=TOPIC, payload=b"gone"))
    line.publish(OFFER + TOPIC, to_json(an_offer()), retain=True)
    line.drop()
    assert watcher.payloads() == [b"gone"]


def test_what_is_left_behind_as_a_will_is_looked_at_like_everything_else(desk):
    from firelane.mqtt.packets import Will

    device = Device(desk)
    device.read(20, 30, 40)
    stolen = to_json(an_offer(boot=1))
    for number, (topic, payload) in enumerate([(OFFER + TOPIC, stolen), (OFFER + TOPIC, b""), (TOPIC, b"x"),
                                               (OFFER + "other", b"no offer")]):  # fmt: skip
        desk.join(f"evil{number}", will=Will(topic=topic, payload=payload, retain=True)).drop()
    assert stream_of(desk).offer == device.offer
    assert desk.broker.retained.get((OFFER + TOPIC).encode()).payload == to_json(device.offer)
    assert desk.broker.retained.get((OFFER + "other").encode()) is None
    assert stream_of(desk).unreadable == 0
    desk.join("good", will=Will(topic=OFFER + "third", payload=to_json(an_offer()), retain=True)).drop()
    assert stream_of(desk, "third") is not None


def test_a_need_may_change_while_a_stream_runs(desk):
    Device(desk)
    Watcher(desk, "ann", tolerance=2)
    desk.pass_time(0.6)
    session = desk.session("ann")
    desk.broker.needs.override("ann", TOPIC, Need(tolerance=1.0))
    desk.broker.grant(session.subscriptions[TOPIC])
    if desk.broker.treat(session, session.lanes[TOPIC]):
        desk.broker.routes.forget_those_of(session)
    desk.pass_time(0.6)
    assert granted(desk)["tolerance"] == 1
