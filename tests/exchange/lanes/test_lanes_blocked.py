"""Clients whose socket or window is full: they hold up neither others nor their own better lanes."""

import pytest
from plans import a_plan
from thin_link import (
    a_fast_link,
    a_link,
    body,
    control_packets_take_no_time,  # noqa: F401  (a fixture that every test here uses)
    letters,
    on_one_link,
    reliable,
    wake,
)

from firelane.exchange.lanes.lane import Dropped
from firelane.mqtt.packets import Ack, Kind
from firelane.mqtt.reasons import Reason
from firelane.scenario.model import Link, Subscriber

HIGH_AND_LOW = {("ann", "high"): (0, 0.0), ("ann", "low"): (5, 0.0)}


def test_a_full_socket_on_a_shared_link_without_a_pace_holds_nobody_up(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=Link()))
    ann, bea, ben = desk.join("ann"), desk.join("bea", topic_alias_maximum=5), desk.join("ben")
    ann.subscribe("a")
    bea.subscribe("b")
    ann.full()
    ben.publish("a", b"1")
    ben.publish("b", b"2")  # with an alias, so it does not take the short way
    assert bea.payloads() == [b"2"]


def test_a_full_window_does_not_hold_up_qos_0_of_another_lane(desk):
    ann, ben = desk.join("ann", receive_maximum=1), desk.join("ben")
    ann.subscribe("low", *reliable("high"))
    desk.apply(a_plan(HIGH_AND_LOW))
    for said in (b"1", b"2"):
        ben.publish("high", said, qos=1)
    ben.publish("low", b"0")
    assert ann.payloads() == [b"1", b"0"]


def test_a_window_that_opens_for_an_expired_message_opens_for_the_next_lane(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_fast_link()))
    ann, ben = desk.join("ann", receive_maximum=1), desk.join("ben")
    ann.subscribe(*reliable("high", "low"))
    desk.apply(a_plan(HIGH_AND_LOW))
    ben.publish("low", b"1", qos=1)
    ben.publish("high", b"too late", qos=1, properties={"message_expiry_interval": 1})
    ben.publish("low", b"2", qos=1)
    (first,) = ann.messages()
    desk.now += 3
    ann.ack(Kind.PUBACK, first.packet_id)
    assert ann.payloads() == [b"2"]


def test_a_window_that_opens_passes_over_a_lane_that_has_become_empty(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_fast_link(buffer_messages=8)))
    ann, ben = desk.join("ann", receive_maximum=1), desk.join("ben")
    ann.subscribe(*reliable("high", "low"))
    desk.apply(a_plan(HIGH_AND_LOW))
    ben.publish("low", b"1", qos=1)
    ben.publish("high", b"too late", qos=1, properties={"message_expiry_interval": 1})
    ben.publish("low", b"2", qos=1)
    desk.now += 3
    ben.publish("low", b"3", qos=1)  # beyond the client's share of the buffer, so the expired one makes room
    lane = desk.session("ann").lanes["high"]
    assert not lane.queue
    assert not lane.blocked  # it waits for nothing any more
    assert ann.take_in() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("window", [2, 7])
def test_even_a_small_window_keeps_one_for_the_best_class(make_desk, window):
    desk = make_desk(scenario=on_one_link("ann", link=a_fast_link()))
    ann, ben = desk.join("ann", receive_maximum=window), desk.join("ben")
    ann.subscribe(*reliable("high", "low"))
    desk.apply(a_plan(HIGH_AND_LOW))
    for _ in range(10):
        ben.publish("low", b"l", qos=1)
    ben.publish("high", b"h", qos=1)
    assert ann.payloads() == [b"l"] * (window - 1) + [b"h"]


def test_nothing_of_the_window_is_kept_for_a_class_that_was_given_up(make_desk):
    desk = make_desk(limits={"inflight": 8})
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe(*reliable("high", "low"))
    desk.apply(a_plan(HIGH_AND_LOW))
    ann.unsubscribe("high")
    ann.full()
    for _ in range(8):
        ben.publish("low", b"l", qos=1)
    ann.full(False)
    assert ann.payloads() == [b"l"] * 8


def test_classes_count_on_a_link_without_a_pace_once_the_socket_is_full(make_desk):
    desk = make_desk(limits={"queue": 3})
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("high", "low")
    desk.apply(a_plan(HIGH_AND_LOW))
    ann.full()
    for said in (b"1", b"2", b"3"):
        ben.publish("low", said)
    ben.publish("high", b"!")
    ann.full(False)
    assert ann.payloads() == [b"!", b"1", b"2"]


def test_a_plan_counts_for_what_waits_for_a_full_socket(make_desk):
    own = {"links": {"own": a_link(each=True)}, "subscribers": {"ann": Subscriber(link="own", subscribes={})}}
    desk = make_desk(scenario=own)
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("high", "low")
    ann.full()
    ben.publish("low", body("1"))
    ben.publish("high", body("!"))
    desk.apply(a_plan(HIGH_AND_LOW))
    ann.full(False)
    assert letters(desk, 1.0, ann) == "!1"


# ---- its share of the buffer


def test_a_client_that_stops_after_it_has_filled_the_buffer_gives_way_to_others(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=8)))
    ann, bea, ben = desk.join("ann"), desk.join("bea"), desk.join("ben")
    ann.subscribe("a")
    bea.subscribe("b")
    for letter in "abcdefghi":
        ben.publish("a", body(letter))  # a is on its way, eight wait
    ann.full()
    wake(desk, 1.0)
    for letter in "1234567":
        ben.publish("b", body(letter))
    assert letters(desk, 1.0, bea) == "1234567"
    assert desk.session("ann").lanes["a"].dropped[Dropped.OVERFLOW] == 6, "all but its share, a quarter"
    ann.messages()
    ann.full(False)
    assert letters(desk, 1.0, ann) == "bc"


def test_what_has_expired_takes_nothing_of_the_share_of_a_client_that_takes_no_more(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=8)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a")
    ann.full()
    for letter in "ab":
        ben.publish("a", body(letter), properties={"message_expiry_interval": 1})
    desk.now += 5
    ben.publish("a", body("n"))
    ann.full(False)
    assert letters(desk, 1.0, ann) == "n"


def test_what_a_client_leaves_in_the_log_beyond_its_share_is_bounded_by_the_cap_of_the_log(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(buffer_messages=8)), limits={"log_bytes": 5000})
    ann, ben = desk.join("ann", receive_maximum=1), desk.join("ben")
    ann.subscribe(*reliable("a"))
    for _ in range(20):
        ben.publish("a", body("x"), qos=1)
        wake(desk, 0.1)
    refused = [one for one in ben.take_all() if isinstance(one, Ack) and one.reason == Reason.QUOTA_EXCEEDED]
    assert refused
    assert desk.log.live_bytes < 5000 + 2 * len(body("x"))
    taken = 20 - len(refused)
    assert letters(desk, 3.0, ann) == "x" * taken


def test_a_client_that_takes_nothing_more_does_not_keep_others_waiting_in_the_log(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=4)))
    ann, bea, ben = desk.join("ann"), desk.lasting("bea"), desk.join("ben")
    ann.subscribe("bulk")
    bea.subscribe(*reliable("alarm"))
    for letter in "abcde":  # the first is sent, the others fill the buffer
        ben.publish("bulk", body(letter))
    ben.publish("alarm", body("1"), qos=1)
    assert desk.session("bea").stored == 1
    ann.full()
    assert letters(desk, 1.0, bea) == "1"
    assert desk.session("ann").totals.dropped[Dropped.OVERFLOW] == 1
    ben.publish("alarm", body("2"), qos=1)
    assert letters(desk, 1.0, bea) == "2"


def test_a_lane_that_expiry_has_emptied_waits_for_nothing(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=4)))
    ann, bea, ben = desk.join("ann"), desk.join("bea", receive_maximum=1), desk.join("ben")
    ann.subscribe("bulk")
    bea.subscribe(*reliable("alarm"))
    ben.publish("alarm", body("1"), qos=1)
    ben.publish("alarm", body("2"), qos=1, properties={"message_expiry_interval": 1})  # waits for the window
    wake(desk, 2.0)
    for letter in "abcdef":  # these fill the buffer, and the expired one makes room
        ben.publish("bulk", body(letter))
    assert desk.session("bea").totals.dropped[Dropped.EXPIRED] == 1
    (first,) = bea.messages()
    bea.ack(Kind.PUBACK, first.packet_id)
    ben.publish("alarm", body("3"), qos=1)
    assert letters(desk, 2.0, bea) == "3"


def test_what_was_sent_before_does_not_expire(make_desk):
    scenario = on_one_link("ann", "bea", link=a_link(buffer_messages=2))
    desk = make_desk(scenario=scenario, durability="memory")
    ann, bea, ben = desk.join("ann"), desk.lasting("bea"), desk.join("ben")
    ann.subscribe("bulk")
    bea.subscribe(*reliable("alarm"))
    ben.publish("bulk", body("a"))
    ben.publish("alarm", body("1"), qos=1, properties={"message_expiry_interval": 1})  # waits, and is noted
    wake(desk, 0.5)
    assert len(bea.messages()) == 1
    bea.drop()
    wake(desk, 2.0)
    for letter in "bcd":
        ben.publish("bulk", body(letter))
    bea = desk.lasting("bea")
    ben.publish("bulk", body("e"))  # looks for what has expired, to make room
    assert letters(desk, 1.0, bea) == "1"
