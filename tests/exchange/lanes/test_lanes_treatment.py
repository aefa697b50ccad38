"""How a lane is treated while something waits in it: caps, overrides, drop rates; and what is counted for it."""

from dataclasses import replace

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
)

from firelane.mqtt.packets import Kind
from firelane.scenario.model import Need
from firelane.scenario.settings import Cap

HIGH_AND_LOW = {("ann", "high"): (0, 0.0), ("ann", "low"): (5, 0.0)}


def override(desk, topic_filter, need):
    """What an operator does."""
    session = desk.session("ann")
    desk.broker.needs.override("ann", topic_filter, need)
    desk.broker.grant(session.subscriptions[topic_filter])
    desk.broker.treat(session, session.lanes[topic_filter])


def test_an_override_that_is_taken_back_puts_a_lane_below_its_cap_with_all_that_waits(make_desk):
    desk = make_desk(scenario=on_one_link("ann"), caps={"*": Cap(priority=5)})
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("high", "low")
    override(desk, "high", Need(weight=9))
    desk.apply(a_plan(HIGH_AND_LOW))
    assert desk.session("ann").lanes["high"].klass == 0
    for letter in "0ab":
        ben.publish("low", body(letter))
    for letter in "AB":
        ben.publish("high", body(letter))
    override(desk, "high", None)
    assert desk.session("ann").lanes["high"].klass == 5
    assert letters(desk, 1.0, ann) == "0abAB"


def test_a_reload_with_a_cap_puts_a_lane_below_it_with_all_that_waits(make_desk):
    desk = make_desk(scenario=on_one_link("ann"))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("high", "low")
    desk.apply(a_plan(HIGH_AND_LOW))
    for letter in "0ab":
        ben.publish("low", body(letter))
    for letter in "AB":
        ben.publish("high", body(letter))
    capped = replace(desk.scenario.exchange, caps={"*": Cap(priority=5)})
    desk.broker.reload(replace(desk.scenario, exchange=capped), desk.now)
    desk.settle()
    assert letters(desk, 1.0, ann) == "0abAB"


def test_an_override_survives_a_reload(make_desk):
    desk = make_desk(scenario=on_one_link("ann"))
    desk.join("ann").subscribe("a")
    override(desk, "a", Need(weight=9))
    desk.broker.reload(desk.scenario, desk.now)
    assert desk.session("ann").lanes["a"].need.weight == 9


@pytest.mark.parametrize("topic_filter", ["a", "$share/crew/a"])
def test_what_is_delivered_at_qos_0_may_be_dropped_on_purpose_however_it_was_published(make_desk, topic_filter):
    desk = make_desk(scenario=on_one_link("ann", link=a_fast_link()))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe(topic_filter)
    desk.apply(a_plan({("ann", topic_filter): (0, 1.0)}))
    ben.publish("a", b"0")
    ben.publish("a", b"1", qos=1)
    assert ann.payloads() == []


def test_the_way_along_the_link_is_part_of_the_delay(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(propagation_s=0.05)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a")
    for letter in "ab":
        ben.publish("a", body(letter))
    letters(desk, 1.0, ann)
    tally = desk.broker.since_plan._tallies[desk.session("ann").lanes["a"]]
    assert tally.timed == 2
    assert tally.delay_s == pytest.approx((0.1 + 0.05) + (0.2 + 0.05))


def test_an_answer_that_has_to_wait_for_the_log_is_charged_to_the_link_too(make_desk):
    desk = make_desk(scenario=on_one_link("ann"), prompt=False)
    ann, cleo = desk.join("ann"), desk.lasting("cleo")
    cleo.subscribe(*reliable("a"))
    desk.commit()
    link = desk.session("ann").link
    before = link.sent_bytes
    ann.publish("a", b"1", qos=1)
    assert ann.acks() == []
    desk.commit()
    assert [kind for kind, _ in ann.acks()] == [Kind.PUBACK]
    assert link.sent_bytes > before
