"""A link whose pace changes while messages wait on it: order, classes and counts hold."""

from dataclasses import replace

import pytest
from desk import Desk
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import a_plan
from thin_link import (
    BPS,
    SERVICE_S,
    a_link,
    body,
    control_packets_take_no_time,  # noqa: F401  (a fixture that every test here uses)
    letters,
    on_one_link,
    played,
    wake,
)

from firelane.exchange.delivering import delivering
from firelane.exchange.lanes.lane import Dropped
from firelane.exchange.measuring.live import Live


@pytest.fixture
def fire(make_desk):
    """One client with three lanes on a thin link, and one who publishes on no link at all."""
    return begun(make_desk(scenario=on_one_link("ann")))


def begun(desk, drop_rate=0.0):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("alarm", "bulk")
    desk.apply(a_plan({("ann", "alarm"): (0, 0.0), ("ann", "bulk"): (1, drop_rate)}))
    return desk, ann, ben


def link_of(desk):
    return desk.session("ann").link


def test_what_is_sent_from_now_on_takes_as_long_as_the_pace_says(fire):
    desk, ann, ben = fire
    for letter in "abcd":
        ben.publish("bulk", body(letter))
    assert played(desk, 0.15, ann) == [(0.0, "a"), (1.0, "b")]
    link_of(desk).repace(BPS / 2)
    assert played(desk, 0.45, ann) == [(0.5, "c"), (2.5, "d")]  # b has the time that it booked


def test_a_link_that_becomes_faster_goes_on_as_soon_as_what_it_sends_has_left(fire):
    desk, ann, ben = fire
    for letter in "abcd":
        ben.publish("bulk", body(letter))
    assert played(desk, 0.05, ann) == [(0.0, "a")]
    link_of(desk).repace(2 * BPS)
    assert played(desk, 0.2, ann) == [(0.5, "b"), (1.0, "c"), (1.5, "d")]


def test_the_best_class_still_goes_first(fire):
    desk, ann, ben = fire
    for letter in "abc":
        ben.publish("bulk", body(letter))
    link_of(desk).repace(BPS / 10)
    ben.publish("alarm", body("!"))
    assert letters(desk, 4.0, ann) == "a!bc"


@settings(max_examples=30, deadline=None)
@given(
    story=st.lists(
        st.one_of(
            st.sampled_from(["alarm", "bulk"]),
            st.floats(0.05, 20.0).map(lambda factor: factor * BPS),
            st.sampled_from([0.01, 0.07, 0.3]).map(lambda seconds: ("wait", seconds)),
        ),
        max_size=40,
    )
)
def test_whatever_the_pace_does_nothing_is_lost_or_overtaken(tmp_path_factory, story):
    desk, ann, ben = begun(Desk(tmp_path_factory.mktemp("log"), scenario=on_one_link("ann")))
    sent = {"alarm": [], "bulk": []}
    for event in story:  # the desk checks its books after every one
        if isinstance(event, str):
            sent[event].append(str(len(sent[event])).encode().ljust(1000))
            ben.publish(event, sent[event][-1])
        elif isinstance(event, float):
            link_of(desk).repace(event)
        else:
            wake(desk, event[1])
    link_of(desk).repace(1e9)
    for _ in range(100):
        wake(desk, 0.2)
    got = ann.messages()
    assert {topic: [one.payload for one in got if one.topic == topic] for topic in sent} == sent
    desk.stop()


# ------------------------------------------------------------------------------------------------ what is dropped


def test_while_a_link_is_probed_what_is_to_be_dropped_may_fill_it(make_desk):
    desk, ann, ben = begun(make_desk(scenario=on_one_link("ann")), drop_rate=1.0)
    lane = desk.session("ann").lanes["bulk"]
    ben.publish("bulk", body("a"))
    assert (lane.dropped[Dropped.POLICY], link_of(desk).withheld) == (1, 1)
    link_of(desk).probing = True
    for letter in "bcde":
        ben.publish("bulk", body(letter))
    assert letters(desk, 1.0, ann) == "bc"  # c waits for a tenth of a second, which is more than may wait
    assert (lane.dropped[Dropped.POLICY], link_of(desk).withheld) == (3, 3)
    assert SERVICE_S > delivering.FILL_S
    link_of(desk).probing = False
    ben.publish("bulk", body("f"))
    assert letters(desk, 1.0, ann) == ""


# ------------------------------------------------------------------------------------------------ what is known


def test_whoever_plans_is_told_what_a_shared_link_carries(fire):
    desk, _, _ = fire
    link_of(desk).bandwidth_bps, link_of(desk).known_by = BPS / 2, "acknowledged"
    live = Live.of(desk.broker)
    assert live.links["thin"] == replace(a_link(), bandwidth_bps=BPS / 2)
    seen = live.bandwidths()["thin"]
    assert (seen.configured_bps, seen.known_bps, seen.known_by) == (BPS, BPS / 2, "acknowledged")


def test_own_links_that_carry_less_are_told_apart(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "eve", link=a_link(each=True)))
    for name in ("ann", "eve"):
        desk.join(name).subscribe("bulk")
    link_of(desk).bandwidth_bps = BPS / 2
    live = Live.of(desk.broker)
    assert {one.subscriber: one.link for one in live.subscriptions} == {"ann": "thin:ann", "eve": "thin"}
    assert live.links == {"thin": a_link(each=True), "thin:ann": a_link(bandwidth_bps=BPS / 2)}
    assert list(live.bandwidths()) == ["thin:ann"]


def test_a_reload_keeps_what_is_known_unless_the_link_is_configured_anew(fire):
    desk, _, _ = fire
    link_of(desk).bandwidth_bps, link_of(desk).known_by = BPS / 2, "acknowledged"
    before = link_of(desk)
    desk.reload(replace(desk.scenario, links={"thin": a_link(buffer_messages=7)}))
    assert link_of(desk) is not before
    assert (link_of(desk).bandwidth_bps, link_of(desk).known_by) == (BPS / 2, "acknowledged")
    assert link_of(desk).byte_s == 8 / (BPS / 2)
    desk.reload(replace(desk.scenario, links={"thin": a_link(bandwidth_bps=3 * BPS)}))
    assert (link_of(desk).bandwidth_bps, link_of(desk).known_by) == (3 * BPS, "configured")


def test_the_load_of_a_link_is_of_what_it_is_known_to_carry(fire):
    desk, ann, ben = fire
    link = link_of(desk)
    for letter in "abc":
        ben.publish("bulk", body(letter))
    played(desk, 1.0, ann)
    before = desk.broker.read(desk.now).links["thin"].load
    link.bandwidth_bps = BPS / 2
    link.repace(BPS / 7)  # what it is paced at for the moment does not matter
    assert desk.broker.read(desk.now).links["thin"].load == pytest.approx(2 * before)
