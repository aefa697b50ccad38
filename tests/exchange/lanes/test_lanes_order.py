"""Several lanes of a client match one topic: its messages keep their order, whichever of them carries it."""

import pytest
from plans import a_plan
from thin_link import (
    SERVICE_S,
    a_fast_link,
    body,
    control_packets_take_no_time,  # noqa: F401  (a fixture that every test here uses)
    letters,
    on_one_link,
    reliable,
    wake,
)

from firelane.exchange.clients import session
from firelane.exchange.delivering.routes import MOST_STEPS
from firelane.mqtt.packets import Kind

BY_ALL = {("ann", "#"): (0, 0.0), ("ann", "alarm/#"): (8, 0.0)}  # `#` is the better lane, and carries alarms
BY_ALARM = {("ann", "#"): (8, 0.0), ("ann", "alarm/#"): (0, 0.0)}


def publish(ben, topic, said, qos=1):
    for letter in said:
        ben.publish(topic, body(letter), qos=qos)


def found_anew(desk, topic="alarm/x"):
    """Somebody else wants the topic, too."""
    desk.join("somebody").subscribe(topic)
    assert topic.encode() not in desk.broker.routes.known


@pytest.fixture
def make_fire(make_desk):
    """A client that lasts, with a lane for everything and one for alarms, and one who publishes."""

    def make(plan, **link):
        desk = make_desk(scenario=on_one_link("ann", **link))
        ann, ben = desk.lasting("ann"), desk.join("ben")
        ann.subscribe(*reliable("#", "alarm/#"))
        desk.apply(a_plan(plan))
        return desk, ann, ben

    return make


# ---- what is sent again


@pytest.mark.parametrize("window", [1, 2, 4, 20])
def test_what_two_lanes_had_in_flight_is_sent_again_in_its_order_and_before_what_is_newer(make_fire, window):
    desk, ann, ben = make_fire(BY_ALL, link=a_fast_link())
    publish(ben, "alarm/x", "12")
    desk.apply(a_plan(BY_ALARM, version=2))
    publish(ben, "alarm/x", "34")
    lanes = [one.lane.filter for one in desk.session("ann").in_flight.values()]
    assert lanes == ["#", "#", "alarm/#", "alarm/#"]
    assert len(ann.messages()) == 4
    ann.drop()
    publish(ben, "alarm/x", "5")
    ann = desk.lasting("ann", receive_maximum=window)
    publish(ben, "alarm/x", "6")
    assert [said[:1] for said in ann.take_in()] == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_a_newer_message_in_a_better_lane_does_not_overtake_it(make_fire):
    desk, ann, ben = make_fire(BY_ALL, link=a_fast_link())
    publish(ben, "alarm/x", "123")
    desk.apply(a_plan(BY_ALARM, version=2))
    ann.drop()
    publish(ben, "alarm/x", "4")
    ann = desk.lasting("ann", receive_maximum=2)
    publish(ben, "alarm/x", "5")
    assert [said[:1] for said in ann.take_in()] == [b"1", b"2", b"3", b"4", b"5"]


def test_it_keeps_its_order_when_the_lanes_change_places_again_and_again(make_fire):
    desk, ann, ben = make_fire(BY_ALL, link=a_fast_link())
    for number, letter in enumerate("123456"):
        publish(ben, "alarm/x", letter)
        desk.apply(a_plan((BY_ALARM, BY_ALL)[number % 2], version=number + 2))
    ann.drop()
    ann = desk.lasting("ann")
    wake(desk, 1.0)
    sent = ann.messages()
    assert [one.payload[:1] for one in sent] == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert all(one.duplicate for one in sent)


def test_one_that_is_answered_before_it_is_sent_again_does_not_hold_up_the_next(make_fire):
    desk, ann, ben = make_fire(BY_ALL)
    publish(ben, "alarm/x", "1")
    wake(desk, 1.0)
    desk.apply(a_plan(BY_ALARM, version=2))
    for letter in "23":
        publish(ben, "alarm/x", letter)
        wake(desk, 1.0)
    first = ann.messages()[0]
    ann.drop()
    desk.session("ann").link.free_at = desk.now + 1.0
    ann = desk.lasting("ann")
    publish(ben, "alarm/x", "4")
    ann.ack(Kind.PUBACK, first.packet_id)
    assert letters(desk, 3.0, ann) == "234"


# ---- which lane carries a topic


def test_other_topics_that_wait_in_a_lower_lane_do_not_hold_a_topic_there(make_fire):
    desk, ann, ben = make_fire(BY_ALARM)
    publish(ben, "alarm/x", "0")
    publish(ben, "bulk", "abcdef", qos=0)
    found_anew(desk)
    publish(ben, "alarm/x", "!")
    assert letters(desk, 2.0, ann) == "0!abcdef"
    assert desk.session("ann").lanes["alarm/#"].due == 2


@pytest.mark.parametrize("qos", [0, 1])
def test_a_topic_moves_to_a_better_lane_only_after_what_waits_of_it_has_left(make_fire, qos):
    desk, ann, ben = make_fire(BY_ALL)
    publish(ben, "alarm/x", "123", qos)
    desk.apply(a_plan(BY_ALARM, version=2))
    publish(ben, "alarm/x", "4", qos)
    found_anew(desk)
    publish(ben, "alarm/x", "5", qos)
    assert letters(desk, 1.0, ann) == "12345"
    publish(ben, "bulk", "abc", qos)
    publish(ben, "alarm/x", "!", qos)
    assert letters(desk, 1.0, ann) == "a!bc"


def test_a_filter_that_is_subscribed_to_later_does_not_let_a_topic_overtake_itself(make_desk):
    desk = make_desk(scenario=on_one_link("ann"))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("#")
    desk.apply(a_plan(BY_ALARM))
    publish(ben, "alarm/x", "123", qos=0)
    ann.subscribe("alarm/#")
    publish(ben, "alarm/y", "!", qos=0)
    publish(ben, "alarm/x", "4", qos=0)
    assert letters(desk, 2.0, ann) == "1!234"


# ---- and the log


def test_what_waits_in_the_log_is_not_overtaken_by_newer_messages_of_its_topic(make_fire):
    desk, ann, ben = make_fire(BY_ALL)
    ann.drop()
    publish(ben, "other", "abc")  # these are the first to come, so that of alarm/x nothing is in memory at first
    publish(ben, "alarm/x", "123")
    desk.apply(a_plan(BY_ALARM, version=2))
    publish(ben, "alarm/x", "4")
    found_anew(desk)
    publish(ben, "alarm/x", "5")
    ann = desk.lasting("ann")
    publish(ben, "alarm/x", "6")
    assert letters(desk, 3.0, ann) == "abc123456"
    publish(ben, "bulk", "abc")
    publish(ben, "alarm/x", "!")
    assert letters(desk, 1.0, ann) == "a!bc"


def test_nor_after_a_restart(make_fire):
    desk, ann, ben = make_fire(BY_ALARM)
    ann.drop()
    publish(ben, "other", "abc")
    publish(ben, "alarm/x", "123")
    desk.crash()
    desk.apply(a_plan(BY_ALARM))
    ben = desk.join("ben")
    publish(ben, "alarm/x", "4")
    found_anew(desk)
    publish(ben, "alarm/x", "5")
    ann = desk.lasting("ann")
    publish(ben, "alarm/x", "6")
    assert letters(desk, 3.0, ann) == "abc123456"
    publish(ben, "bulk", "abc")
    publish(ben, "alarm/x", "!")
    assert letters(desk, 1.0, ann) == "a!bc"


def reload(desk, ben):
    desk.broker.reload(desk.scenario, desk.now)
    desk.settle()


def many_topics_are_forgotten(desk, ben):
    for number in range(MOST_STEPS + 1):
        ben.publish(f"alarm/{number}", b"")
    desk.join("somebody").subscribe("alarm/#")
    assert not desk.broker.routes.known


@pytest.mark.parametrize("forget", [reload, many_topics_are_forgotten])
def test_nor_when_all_routes_are_found_anew(make_fire, forget):
    desk, ann, ben = make_fire(BY_ALL)
    ann.drop()
    publish(ben, "alarm/x", "123")
    desk.apply(a_plan(BY_ALARM, version=2))
    forget(desk, ben)
    publish(ben, "alarm/x", "4")
    assert letters(desk, 3.0, desk.lasting("ann")) == "1234"


def test_nor_what_moved_to_the_log_when_the_client_went_away(make_fire):
    desk, ann, ben = make_fire(BY_ALL)
    publish(ben, "alarm/x", "123")
    desk.apply(a_plan(BY_ALARM, version=2))
    found_anew(desk)
    ann.drop()
    publish(ben, "alarm/x", "4")
    assert letters(desk, 3.0, desk.lasting("ann")) == "1234"


@pytest.mark.parametrize("most", [0, 1000])
def test_nor_by_a_filter_that_is_new_or_when_too_many_topics_wait_to_be_remembered(make_desk, monkeypatch, most):
    monkeypatch.setattr(session, "MOST_CARRIERS", most)
    desk = make_desk(scenario=on_one_link("ann"))
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe(*reliable("#"))
    ann.drop()
    publish(ben, "alarm/y", "abc")
    publish(ben, "alarm/x", "123")
    desk.crash()
    desk.apply(a_plan(BY_ALARM))
    ben, ann = desk.join("ben"), desk.lasting("ann")
    ann.subscribe(*reliable("alarm/#"))
    publish(ben, "alarm/x", "4")
    assert letters(desk, 3.0, ann) == "abc1234"


def test_nor_by_what_another_filter_carries_once_theirs_is_given_up(make_fire):
    desk, ann, ben = make_fire(BY_ALL)
    publish(ben, "alarm/x", "123")
    desk.apply(a_plan(BY_ALARM, version=2))
    ann.unsubscribe("#")
    publish(ben, "alarm/x", "4")
    publish(ben, "alarm/y", "!")
    assert letters(desk, 2.0, ann) == "1!234"
    publish(ben, "alarm/x", "5")
    assert letters(desk, 1.0, ann) == "5"
    assert desk.session("ann").lanes["alarm/#"].delivered == 2


# ---- and what is none of a lane's business


@pytest.fixture
def returned(make_fire):
    """A client that is back, and has bulk to be sent again before anything newer of it."""

    def make(away=""):
        desk, ann, ben = make_fire(BY_ALARM)
        for letter in "abc":
            publish(ben, "bulk", letter)
            wake(desk, 1.0)
        ann.drop()
        publish(ben, "alarm/x", away)
        return desk, desk.lasting("ann", receive_maximum=1), ben

    return make


def test_other_topics_that_are_to_be_sent_again_do_not_hold_a_topic_in_their_lane(returned):
    desk, _, ben = returned()
    publish(ben, "alarm/x", "!")
    assert desk.session("ann").lanes["alarm/#"].due == 1


def test_what_waits_in_its_own_lane_is_not_overtaken_when_the_lanes_change_places(returned):
    desk, ann, ben = returned(away="1")
    publish(ben, "alarm/x", "2")
    desk.apply(a_plan(BY_ALL, version=2))
    assert letters(desk, 3.0, ann) == "abc12"


def test_a_shared_subscription_carries_only_its_own_messages(make_desk):
    desk = make_desk(scenario=on_one_link("ann"))
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe(*reliable("#", "alarm/#", "$share/g/alarm/#"))
    desk.apply(a_plan({**BY_ALARM, ("ann", "$share/g/alarm/#"): (0, 0.0)}))
    ann.drop()
    publish(ben, "alarm/x", "123")
    due = {topic_filter: lane.due for topic_filter, lane in desk.session("ann").lanes.items()}
    assert due == {"#": 0, "alarm/#": 3, "$share/g/alarm/#": 3}
    got = letters(desk, 3.0, desk.lasting("ann"))
    assert sorted(got) == list("112233")
    assert got.rindex("1") < got.rindex("2") < got.rindex("3")


def test_a_lane_that_comes_back_does_not_overtake_what_was_stored_meanwhile(make_fire):
    desk, ann, ben = make_fire(BY_ALARM)
    ann.drop()
    publish(ben, "alarm/x", "0")
    publish(ben, "bulk", "abcd")
    ann = desk.lasting("ann", receive_maximum=1)
    assert letters(desk, SERVICE_S, ann).startswith("0")
    ann.unsubscribe("alarm/#")
    desk.broker.tidy(desk.session("ann"))
    publish(ben, "alarm/x", "1")
    ann.subscribe(*reliable("alarm/#"))
    publish(ben, "alarm/x", "2")
    got = letters(desk, 3.0, ann)
    assert got.index("1") < got.index("2")
