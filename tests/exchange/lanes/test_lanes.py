"""Lanes on a paced link: classes, pacing, drop rates, the bounded buffer. Time is the test's own."""

from dataclasses import replace

import numpy as np
import pytest
from plans import a_plan
from thin_link import (
    BPS,
    SERVICE_S,
    a_link,
    body,
    control_packets_take_no_time,  # noqa: F401  (a fixture that every test here uses)
    on_one_link,
    played,
)

from firelane.errors import PlanError, StoreError
from firelane.exchange.lanes import link as link_module
from firelane.exchange.lanes.lane import EVERYTHING, Dropped, hash64
from firelane.exchange.lanes.link import SPARE_NOTES
from firelane.mqtt.packets import Kind, Ping, Subscription
from firelane.scenario.model import Need


@pytest.fixture
def fire(make_desk):
    """One client with two lanes on a thin link, and one who publishes on no link at all."""
    desk = make_desk(scenario=on_one_link("ann"))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("alarm", "bulk")
    desk.apply(a_plan({("ann", "alarm"): (0, 0.0), ("ann", "bulk"): (1, 0.0)}))
    return desk, ann, ben


def test_a_message_starts_when_the_one_before_it_has_left(fire):
    desk, ann, ben = fire
    for letter in "abc":
        ben.publish("bulk", body(letter))
    assert played(desk, 0.5, ann) == [(0.0, "a"), (1.0, "b"), (2.0, "c")]


def test_a_better_class_goes_first_but_stops_nobody_half_way(fire):
    desk, ann, ben = fire
    for letter in "abc":
        ben.publish("bulk", body(letter))
    ben.publish("alarm", body("!"))
    assert played(desk, 0.5, ann) == [(0.0, "a"), (1.0, "!"), (2.0, "b"), (3.0, "c")]


def test_an_idle_link_earns_nothing(fire):
    desk, ann, ben = fire
    ben.publish("bulk", body("a"))
    played(desk, 5.0, ann)
    for letter in "bc":
        ben.publish("bulk", body(letter))
    assert played(desk, 0.5, ann) == [(0.0, "b"), (1.0, "c")]


def test_a_late_timer_costs_no_capacity_as_long_as_it_is_not_too_late(fire):
    desk, ann, ben = fire
    for letter in "abcd":
        ben.publish("bulk", body(letter))
    link, start = desk.session("ann").link, desk.now
    for _ in range(3):
        desk.now = desk.broker.serving.wakes[0][0] + 0.001
        desk.broker.wake(desk.now)
        desk.settle()
    assert len(ann.messages()) == 4
    assert link.free_at == pytest.approx(start + 4 * SERVICE_S)


def test_fan_out_on_one_link_is_served_by_class_and_the_rest_in_turns(make_desk):
    names = ("ann", "bea", "cleo")
    desk = make_desk(scenario=on_one_link(*names))
    lines = [desk.join(name) for name in names]
    for line in lines:
        line.subscribe("a")
    ben = desk.join("ben")
    desk.apply(a_plan({("cleo", "a"): (0, 0.0), ("ann", "a"): (1, 0.0), ("bea", "a"): (1, 0.0)}))
    firsts = set()
    for _ in range(6):
        ben.publish("a", body("x"))
        order = []
        for _ in range(40):
            desk.now += SERVICE_S / 10
            desk.broker.wake(desk.now)
            desk.settle()
            order += [name for name, line in zip(names, lines, strict=True) for _ in line.messages()]
        assert order[0] == "cleo"
        firsts.add(order[1])
    assert firsts == {"ann", "bea"}


def test_a_plan_moves_what_waits_with_its_lane_in_the_order_of_arrival(fire):
    desk, ann, ben = fire
    for letter in "abc":
        ben.publish("bulk", body(letter))
        ben.publish("alarm", body(letter.upper()))
    desk.apply(a_plan({("ann", "alarm"): (1, 0.0), ("ann", "bulk"): (1, 0.0)}, version=2))
    assert "".join(letter for _, letter in played(desk, 1.0, ann)) == "aAbBcC"


def test_a_plan_that_is_not_newer_is_refused(fire):
    desk, _, _ = fire
    with pytest.raises(PlanError, match="not newer"):
        desk.apply(a_plan({("ann", "alarm"): (3, 0.5)}))
    assert desk.session("ann").lanes["alarm"].klass == 0


def test_a_full_buffer_pushes_out_the_newest_of_the_lowest_class(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(buffer_messages=3)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("high", "low")
    desk.apply(a_plan({("ann", "high"): (0, 0.0), ("ann", "low"): (5, 0.0)}))
    for letter in "abcd":
        ben.publish("low", body(letter))  # a is on its way, three wait
    ben.publish("low", body("e"))  # itself the newest of the lowest class
    ben.publish("high", body("A"))  # pushes d out
    lane = desk.session("ann").lanes["low"]
    assert (desk.session("ann").link.queued, lane.dropped[Dropped.OVERFLOW]) == (3, 2)
    assert "".join(letter for _, letter in played(desk, 1.0, ann)) == "aAbc"


def test_qos_1_is_never_pushed_out_but_waits_in_the_log(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(buffer_messages=2)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe(Subscription(filter="high", qos=1), Subscription(filter="low", qos=1))
    desk.apply(a_plan({("ann", "high"): (0, 0.0), ("ann", "low"): (5, 0.0)}))
    for letter in "abcd":
        ben.publish("low", body(letter), qos=1)
    for letter in "ABC":
        ben.publish("high", body(letter), qos=1)
    got = []
    for _ in range(100):
        desk.now += SERVICE_S / 10
        desk.broker.wake(desk.now)
        desk.settle()
        for one in ann.messages():
            got.append(one.payload[:1].decode())
            ann.ack(Kind.PUBACK, one.packet_id)
    assert "".join(got) == "aABCbcd"
    assert sum(desk.session("ann").totals.dropped) == 0


def test_expired_messages_make_room_first(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(buffer_messages=2)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a")
    ben.publish("a", body("a"))
    ben.publish("a", body("b"), properties={"message_expiry_interval": 1})
    ben.publish("a", body("c"))
    desk.session("ann").link.free_at += 5
    desk.now += 2
    ben.publish("a", body("d"))
    lane = desk.session("ann").lanes["a"]
    assert (lane.dropped[Dropped.EXPIRED], lane.dropped[Dropped.OVERFLOW]) == (1, 0)
    desk.now += 5
    assert "".join(letter for _, letter in played(desk, 1.0, ann)) == "acd"


def test_the_newest_takes_the_place_of_an_older_one_that_still_waits(make_desk):
    latest = {"ann": {"a/#": Need(keep="latest")}}
    desk = make_desk(scenario=on_one_link("ann", **latest))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a/#")
    for topic, letter in (("a/1", "x"), ("a/1", "p"), ("a/2", "q"), ("a/1", "r"), ("a/1", "s")):
        ben.publish(topic, body(letter))
    lane = desk.session("ann").lanes["a/#"]
    assert lane.dropped[Dropped.SUPERSEDED] == 2
    assert "".join(letter for _, letter in played(desk, 1.0, ann)) == "xsq"


def test_a_guaranteed_class_is_not_starved(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(guaranteed={5: 0.25}, buffer_messages=1000)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("high", "low")
    desk.apply(a_plan({("ann", "high"): (0, 0.0), ("ann", "low"): (5, 0.0)}))
    for _ in range(60):
        ben.publish("high", body("H"))
        ben.publish("low", body("l"))
    letters = "".join(letter for _, letter in played(desk, 4.0, ann))
    assert letters[:40].count("l") == pytest.approx(10, abs=1)


def test_the_drop_rate_is_kept_and_independent_between_subscriptions(make_desk):
    subscribers = on_one_link("ann", "bea", link=a_link(bandwidth_bps=1e12))
    desk = make_desk(scenario=subscribers, limits={"queue": 100_000})
    ann, bea, ben = desk.join("ann"), desk.join("bea"), desk.join("ben")
    ann.subscribe("a")
    bea.subscribe("a")
    desk.apply(a_plan({("ann", "a"): (0, 0.3), ("bea", "a"): (1, 0.6)}))
    count = 4000
    for number in range(count):
        ben.publish("a", str(number).encode())
    kept = [{int(one.payload) for one in line.messages()} for line in (ann, bea)]
    for one, share in zip(kept, (0.7, 0.4), strict=True):
        assert abs(len(one) - share * count) < 4 * (count * share * (1 - share)) ** 0.5
    both = 0.7 * 0.4
    assert abs(len(kept[0] & kept[1]) - both * count) < 4 * (count * both * (1 - both)) ** 0.5
    for name, one in zip(("ann", "bea"), kept, strict=True):
        assert desk.session(name).lanes["a"].dropped[Dropped.POLICY] == count - len(one)


def test_the_hash_is_uniform_in_all_parts_and_differs_between_starts():
    values = np.array([hash64(7, sequence, 12345) for sequence in range(20_000)], float) / EVERYTHING
    counts, _ = np.histogram(values, 100, (0, 1))
    chi2 = float(((counts - 200) ** 2 / 200).sum())
    assert chi2 < 99 + 5 * (2 * 99) ** 0.5
    assert abs(float(np.corrcoef(values[:-1], values[1:])[0, 1])) < 5 / 20_000**0.5
    others = np.array([hash64(8, sequence, 12345) for sequence in range(20_000)], float) / EVERYTHING
    assert abs(float(np.corrcoef(values, others)[0, 1])) < 5 / 20_000**0.5


def test_qos_1_is_not_dropped_on_purpose(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(bandwidth_bps=1e12)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe(Subscription(filter="a", qos=1))
    desk.apply(a_plan({("ann", "a"): (0, 1.0)}))
    ben.publish("a", b"1", qos=1)
    ben.publish("a", b"0", qos=0)
    assert ann.payloads() == [b"1"]


def test_overlapping_subscriptions_share_one_copy_in_the_best_class_dropped_least(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(bandwidth_bps=1e12)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a/#", "a/b")
    desk.apply(a_plan({("ann", "a/#"): (0, 1.0), ("ann", "a/b"): (3, 0.0)}))
    ben.publish("a/b", b"both")
    ben.publish("a/c", b"one")
    assert ann.payloads() == [b"both"]
    lanes = desk.session("ann").lanes
    assert (lanes["a/#"].due, lanes["a/#"].done, lanes["a/b"].due, lanes["a/b"].merged) == (2, 1, 0, 1)


def test_a_client_that_takes_nothing_more_holds_nobody_up_and_fills_only_its_share(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=8)))
    ann, bea, ben = desk.join("ann"), desk.join("bea"), desk.join("ben")
    ann.subscribe("a")
    bea.subscribe("b")
    desk.apply(a_plan({("ann", "a"): (0, 0.0), ("bea", "b"): (1, 0.0)}))
    ann.full()
    for letter in "uvwxyz":
        ben.publish("a", body(letter))
    for letter in "abc":
        ben.publish("b", body(letter))
    assert played(desk, 0.5, bea) == [(0.0, "a"), (1.0, "b"), (2.0, "c")]
    lane = desk.session("ann").lanes["a"]
    assert (len(lane.queue), lane.dropped[Dropped.OVERFLOW]) == (2, 4)
    ann.full(False)
    assert "".join(letter for _, letter in played(desk, 0.5, ann)) == "uv"


def test_part_of_the_window_is_kept_for_the_best_class(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(bandwidth_bps=1e12)), limits={"inflight": 8})
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe(Subscription(filter="high", qos=1), Subscription(filter="low", qos=1))
    desk.apply(a_plan({("ann", "high"): (0, 0.0), ("ann", "low"): (5, 0.0)}))
    for _ in range(10):
        ben.publish("low", b"l", qos=1)
    ben.publish("high", b"h", qos=1)
    assert ann.payloads() == [b"l"] * 7 + [b"h"]


def test_a_replay_of_retained_messages_evicts_nobody(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=4)))
    ann, bea, ben = desk.join("ann"), desk.join("bea"), desk.join("ben")
    for number in range(100):
        ben.publish(f"r/{number}", body("r"), retain=True)
    bea.subscribe("b")
    desk.apply(a_plan({("bea", "b"): (1, 0.0), ("ann", "#"): (0, 0.0)}))
    for letter in "abc":
        ben.publish("b", body(letter))
    ann.subscribe("#")
    desk.now += SERVICE_S
    played(desk, 15, bea)
    assert len(ann.messages()) == 100
    assert sum(desk.session("bea").totals.dropped) == 0


def test_control_packets_are_charged_to_the_link(fire, monkeypatch):
    desk, ann, ben = fire
    desk.now += 10
    monkeypatch.setattr(link_module, "MOST_CONTROL_S", 0.01)
    ann.send(Ping(kind=Kind.PINGREQ))
    ben.publish("bulk", body("a"))
    assert ann.messages() == []
    link = desk.session("ann").link
    assert link.free_at == pytest.approx(desk.now + (2 + 66) * link.byte_s)
    for _ in range(100):
        ann.send(Ping(kind=Kind.PINGREQ))
    desk.broker.wake(desk.now + 0.01)
    assert link.free_at <= desk.now + 0.01 + 0.01 + SERVICE_S, "nobody can book much of it"


def test_a_client_on_another_link_is_not_delayed(make_desk):
    desk = make_desk(scenario=on_one_link("ann"))
    ann, other, ben = desk.join("ann"), desk.join("other"), desk.join("ben")
    ann.subscribe("a")
    other.subscribe("a")
    for letter in "abc":
        ben.publish("a", body(letter))
    assert [one.payload[:1] for one in other.messages()] == [b"a", b"b", b"c"]
    assert len(ann.messages()) == 1


def test_a_reload_moves_what_waits_to_the_new_link(fire):
    desk, ann, ben = fire
    for letter in "abc":
        ben.publish("bulk", body(letter))
    faster = on_one_link("ann", link=a_link(bandwidth_bps=2 * BPS))
    desk.broker.reload(replace(desk.scenario, **faster), desk.now)
    desk.settle()
    assert "".join(letter for _, letter in played(desk, 0.2, ann)) == "abc"


def test_what_the_log_cannot_give_back_ends_the_connection_and_is_told(make_desk, monkeypatch):
    desk = make_desk(scenario=on_one_link("ann", "bea"))
    bea, ben = desk.join("bea"), desk.join("ben")
    bea.subscribe("a")
    ann = desk.lasting("ann")
    ann.subscribe(Subscription(filter="a", qos=1))
    ann.drop()
    ben.publish("a", b"1", qos=1)

    def damaged(lane, location, size_bytes):
        raise StoreError("a record is damaged", path="log")

    monkeypatch.setattr(desk.broker.journal, "load", damaged)
    again = desk.lasting("ann")
    (line,) = desk.broker.let_go_unreadable(desk.now)
    desk.settle()
    assert "ann cannot be sent what it is owed" in line
    assert again.closed
    assert desk.session("ann").owed == 1
    ben.publish("a", b"2")
    assert len(bea.messages()) == 1


def test_what_has_gone_leaves_no_notes_behind(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(bandwidth_bps=1e9)), limits={"inflight": 1})
    ann, ben = desk.join("ann"), desk.join("ben")
    for number in range(200):
        topic_filter = f"a/{number}"
        ann.subscribe(Subscription(filter=topic_filter, qos=1))
        for _ in range(2):
            ben.publish(topic_filter, b"x", qos=1, properties={"message_expiry_interval": 1000})
            desk.now += 1
            desk.broker.wake(desk.now)
            desk.settle()
            for one in ann.messages():
                ann.ack(Kind.PUBACK, one.packet_id)
        ann.unsubscribe(topic_filter)
    link = desk.session("ann").link
    assert desk.session("ann").totals.delivered == 400
    assert len(desk.session("ann").lanes) <= 1
    assert len(desk.broker.since_plan._tallies) <= 1
    assert len(link._expiring) <= SPARE_NOTES + 2
    assert sum(map(len, link._newest.values())) <= SPARE_NOTES + 2
    ann.leave()
    assert not desk.broker.since_plan._tallies


def test_retained_messages_are_sent_only_when_nobody_stands_in_line(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea"))
    ann, bea, ben = desk.join("ann"), desk.join("bea"), desk.join("ben")
    for number in range(3):
        ben.publish(f"r/{number}", body("r"), retain=True)
    bea.subscribe("b")
    desk.apply(a_plan({("bea", "b"): (8, 0.0), ("ann", "#"): (0, 0.0)}))
    for letter in "abc":
        ben.publish("b", body(letter))
    ann.subscribe("#")
    assert "".join(letter for _, letter in played(desk, 0.9, ann, bea)) == "abcrrr"


def test_a_guaranteed_class_keeps_its_share_of_a_full_buffer(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(guaranteed={5: 0.25}, buffer_messages=8)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("high", "low")
    desk.apply(a_plan({("ann", "high"): (0, 0.0), ("ann", "low"): (5, 0.0)}))
    got = ""
    for _ in range(40):  # twice what the link carries, of each
        for _ in range(2):
            ben.publish("high", body("H"))
            ben.publish("low", body("l"))
        got += "".join(letter for _, letter in played(desk, SERVICE_S, ann))
        desk.now += SERVICE_S / 10
    assert got.count("l") / len(got) == pytest.approx(0.25, abs=0.05)
    assert desk.session("ann").link.queued <= 8
