"""Needs asked for with SUBSCRIBE: what is granted and told, what is refused, and what a plan then makes of it."""

import pytest
from plans import a_plan

from firelane.exchange.lanes import link
from firelane.mqtt.packets import V3, Subscribe, Subscription
from firelane.scenario.model import Link, Need, Subscriber
from firelane.scenario.need import NeedChange
from firelane.scenario.settings import Cap, Profile

SCENARIO = {
    "links": {"thin": Link(bandwidth_bps=1e6)},
    "subscribers": {"ann": Subscriber(link="thin", subscribes={"a": Need(weight=7.0, category="alarms")})},
}


def ask(line, *filters, **properties):
    """SUBSCRIBE with user properties; the answer's reasons and what it tells."""
    pairs = [(name.replace("_", "-"), text) for name, text in properties.items()]
    line.send(Subscribe(packet_id=9, subscriptions=[Subscription(filter=one, qos=0) for one in filters],
                        properties={"user_property": pairs} if pairs else {}))  # fmt: skip
    answer = line.take_all()[-1]
    return answer.reasons, answer.properties


@pytest.fixture
def desk(make_desk, monkeypatch):
    monkeypatch.setattr(link, "MOST_CONTROL_S", 0.0)  # control packets take no time
    profiles = {"video": Profile(need=NeedChange(keep="latest", weight=2.0))}
    return make_desk(scenario=SCENARIO, profiles=profiles, caps={"*": Cap(weight=50.0, priority=2)})


def test_what_is_asked_for_is_granted_and_told(desk):
    ann = desk.join("ann")
    reasons, told = ask(ann, "a", "b", weight="3", max_delay="200 ms")
    assert reasons == [0, 0]
    assert told["user_property"] == [
        ("0.weight", "3"), ("0.max-delay", "200 ms"), ("1.weight", "3"), ("1.max-delay", "200 ms"),
    ]  # fmt: skip
    lanes = desk.session("ann").lanes
    assert lanes["a"].need == Need(weight=3.0, max_delay_s=0.2, category="alarms")
    assert lanes["b"].need == Need(weight=3.0, max_delay_s=0.2)


def test_who_asks_for_nothing_is_told_nothing_and_gets_what_the_scenario_says(desk):
    ann = desk.join("ann")
    assert ask(ann, "a") == ([0], {})
    assert desk.session("ann").lanes["a"].need.weight == 7


def test_a_value_that_is_no_good_is_refused_with_a_reason_and_the_connection_lives(desk):
    ann = desk.join("ann")
    reasons, told = ask(ann, "a", weight="heavy")
    assert reasons == [0x83]
    assert "weight" in told["reason_string"]
    assert "a" not in desk.session("ann").subscriptions
    assert ask(ann, "a", weight="2")[0] == [0]


def test_nobody_gets_above_the_cap(desk):
    ann = desk.join("ann")
    _, told = ask(ann, "a", weight="1000")
    assert told["user_property"] == [("0.weight", "50")]
    desk.apply(a_plan({("ann", "a"): (0, 0.0)}))
    assert desk.session("ann").lanes["a"].klass == 2


def test_a_profile_is_for_those_who_cannot_send_properties(desk):
    ann = desk.join("ann", V3)
    ann.subscribe("$need/video/cam/+")
    lane = desk.session("ann").lanes["cam/+"]
    assert (lane.need.keep, lane.need.weight) == ("latest", 2)
    ben = desk.join("ben")
    ben.publish("cam/1", b"picture")
    assert ann.payloads() == [b"picture"]
    ann.unsubscribe("$need/video/cam/+")
    assert not desk.session("ann").subscriptions


def test_an_unknown_profile_is_refused(desk):
    reasons, told = ask(desk.join("ann"), "$need/radio/a", "a")
    assert reasons == [0x83, 0]
    assert "radio" in told["reason_string"]


def test_subscribing_again_changes_the_need_and_keeps_what_waits(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ask(ann, "a", weight="1")
    for number in range(3):
        ben.publish("a", bytes(5000) + b"%d" % number)
    ask(ann, "a", weight="9")
    lane = desk.session("ann").lanes["a"]
    assert (lane.need.weight, lane.due, len(lane.queue)) == (9, 3, 2)
    for _ in range(10):
        desk.now += 0.1
        desk.broker.wake(desk.now)
        desk.settle()
    assert [one.payload[-1:] for one in ann.messages()] == [b"1", b"2"]  # the first had gone out before


def test_a_need_that_was_asked_for_survives_a_crash(desk):
    ann = desk.lasting("ann")
    ask(ann, "a", weight="3")
    ask(ann, "$need/video/b")
    desk.commit()
    desk.crash()
    desk.lasting("ann")
    lanes = desk.session("ann").lanes
    assert (lanes["a"].need.weight, lanes["b"].need.keep) == (3, "latest")


def test_an_answer_that_is_too_large_is_given_without_what_it_tells(desk):
    ann = desk.join("ann", maximum_packet_size=30)
    assert ask(ann, "a", weight="3", category="smoke detectors of the second floor") == ([0], {})
    assert desk.session("ann").lanes["a"].need.weight == 3


def test_who_wants_no_explanations_gets_none(desk):
    ann = desk.join("ann", request_problem_information=0)
    assert ask(ann, "a", weight="heavy") == ([0x83], {})


def test_an_override_stands_above_what_was_asked_for(desk):
    ann = desk.join("ann")
    ask(ann, "a", weight="3")
    desk.broker.needs.override("ann", "a", Need(weight=100.0))
    desk.broker.grant(desk.session("ann").subscriptions["a"])
    lane = desk.session("ann").lanes["a"]
    assert (lane.need.weight, lane.best_class) == (100, 0)
