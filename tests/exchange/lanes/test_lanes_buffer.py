"""A link's bounded buffer and the log behind it: what gives way to what, and that nothing is forgotten in the log."""

from dataclasses import replace

from desk import waiting
from plans import a_plan
from thin_link import (
    SERVICE_S,
    a_link,
    body,
    control_packets_take_no_time,  # noqa: F401  (a fixture that every test here uses)
    letters,
    on_one_link,
    reliable,
    wake,
)

from firelane.exchange.lanes.lane import Dropped
from firelane.mqtt.packets import Kind
from firelane.scenario.model import Need


def two_on_a_link(make_desk, places):
    """A desk, two clients on one link with so many places in its buffer, and one who publishes."""
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=places)))
    return desk, desk.join("ann"), desk.join("bea"), desk.join("ben")


# ---- who gives way


def test_of_a_class_that_another_lane_was_moved_to_the_newest_to_arrive_is_pushed_out(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(buffer_messages=4)))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("high", "middle", "low")
    classes = {("ann", "high"): (0, 0.0), ("ann", "middle"): (3, 0.0), ("ann", "low"): (5, 0.0)}
    desk.apply(a_plan(classes))
    for topic, letter in (("low", "0"), ("low", "1"), ("middle", "2"), ("low", "3"), ("low", "4")):
        ben.publish(topic, body(letter))
    desk.apply(a_plan({**classes, ("ann", "middle"): (5, 0.0)}, version=2))
    for letter in "AB":
        ben.publish("high", body(letter))
    assert letters(desk, 1.0, ann) == "0AB12"


def test_the_newest_to_arrive_is_pushed_out_also_after_a_reload_has_put_all_on_another_link(make_desk):
    desk, ann, bea, ben = two_on_a_link(make_desk, places=4)
    ann.subscribe("a")
    bea.subscribe("b", "high")
    desk.apply(a_plan({("ann", "a"): (5, 0.0), ("bea", "b"): (5, 0.0), ("bea", "high"): (0, 0.0)}))
    for topic, letter in (("a", "0"), ("b", "1"), ("a", "2"), ("b", "3"), ("a", "4")):
        ben.publish(topic, body(letter))
    other = on_one_link("ann", "bea", link=a_link(buffer_messages=4, pace=0.9))
    desk.broker.reload(replace(desk.scenario, **other), desk.now)
    desk.settle()
    ben.publish("high", body("!"))
    assert letters(desk, 1.0, ann, bea) == "0!123"


def test_a_newer_message_that_took_the_place_of_another_does_not_expire_with_it(make_desk):
    latest = {"ann": {"a/#": Need(keep="latest")}}
    desk = make_desk(scenario=on_one_link("ann", link=a_link(buffer_messages=2), **latest))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a/#")
    ben.publish("a/0", body("x"))
    ben.publish("a/1", body("o"), properties={"message_expiry_interval": 1})
    ben.publish("a/1", body("n"))
    ben.publish("a/2", body("z"))
    desk.session("ann").link.free_at += 5
    desk.now += 2
    ben.publish("a/3", body("w"))  # there is no room, so what has expired is looked for
    assert desk.session("ann").lanes["a/#"].dropped[Dropped.EXPIRED] == 0
    desk.now += 5
    assert letters(desk, 1.0, ann) == "xnz"


def test_the_newest_still_takes_the_place_of_an_older_one_after_a_reload(make_desk):
    latest = {"ann": {"a": Need(keep="latest")}}
    desk = make_desk(scenario=on_one_link("ann", **latest))
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a")
    for letter in "0a":
        ben.publish("a", body(letter))
    faster = on_one_link("ann", link=a_link(pace=0.9), **latest)
    desk.broker.reload(replace(desk.scenario, **faster), desk.now)
    desk.settle()
    ben.publish("a", body("b"))
    assert letters(desk, 1.0, ann) == "0b"


def test_retained_messages_for_many_filters_do_not_fill_the_buffer(make_desk):
    desk, ann, bea, ben = two_on_a_link(make_desk, places=4)
    for number in range(50):
        ben.publish(f"r/{number}", body("r"), retain=True)
    bea.subscribe("b")
    ann.subscribe(*(f"r/{number}" for number in range(50)))
    for letter in "abcd":
        ben.publish("b", body(letter))
    assert letters(desk, 6.0, bea) == "abcd"
    assert len(ann.messages()) == 50


# ---- the log behind it


def test_what_is_in_the_log_comes_although_what_waited_before_it_was_pushed_out(make_desk):
    desk, ann, bea, ben = two_on_a_link(make_desk, places=2)
    ann.subscribe(*reliable("low"))
    bea.subscribe("same", "high")
    desk.apply(a_plan({("ann", "low"): (5, 0.0), ("bea", "same"): (5, 0.0), ("bea", "high"): (0, 0.0)}))
    for letter in "01":
        ben.publish("same", body(letter))
    ben.publish("low", body("q"))
    ben.publish("low", body("Q"), qos=1)  # there is no room
    ben.publish("high", body("!"))  # pushes q out
    assert letters(desk, 1.0, ann) == "Q"


def test_what_is_in_the_log_comes_although_what_waited_before_it_has_expired(make_desk):
    desk, ann, bea, ben = two_on_a_link(make_desk, places=2)
    ann.subscribe(*reliable("a"))
    bea.subscribe("b")
    for letter in "01":
        ben.publish("b", body(letter))
    ben.publish("a", body("q"), qos=1, properties={"message_expiry_interval": 1})
    ben.publish("a", body("Q"), qos=1)  # there is no room
    desk.session("ann").link.free_at += 5
    desk.now += 2
    ben.publish("b", body("2"))  # for which the expired one makes room
    desk.now += 5
    assert letters(desk, 1.0, ann) == "Q"


def test_what_is_in_the_log_comes_although_what_was_to_be_sent_again_before_it_is_answered(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=1)))
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe(*reliable("a"))
    ben.publish("a", body("1"), qos=1)
    (first,) = ann.messages()
    ann.drop()
    ben.publish("a", body("2"), qos=1)
    desk.session("ann").link.free_at = desk.now + 1
    ann = desk.lasting("ann")
    ann.ack(Kind.PUBACK, first.packet_id)
    assert letters(desk, 2.0, ann) == "2"


def test_who_leaves_makes_room_for_what_others_have_in_the_log(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=1)))
    ann, bea, ben = desk.join("ann", receive_maximum=1), desk.join("bea"), desk.join("ben")
    ann.subscribe(*reliable("a", "b"))
    bea.subscribe(*reliable("c"))
    desk.apply(a_plan({("ann", "a"): (0, 0.0), ("ann", "b"): (0, 0.0), ("bea", "c"): (5, 0.0)}))
    for topic, letter in (("a", "1"), ("a", "2"), ("b", "3"), ("c", "C")):
        ben.publish(topic, body(letter), qos=1)
    wake(desk, 1.0)
    ann.drop()
    assert letters(desk, 1.0, bea) == "C"


def test_what_is_in_the_log_is_not_starved_by_qos_0_of_its_own_lane(make_desk):
    desk = make_desk(scenario=on_one_link("ann"))
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe(*reliable("a"))
    ann.drop()
    for letter in "123":
        ben.publish("a", body(letter), qos=1)
    ann = desk.lasting("ann")
    came = ""
    for _ in range(20):  # twice what the link carries
        for _ in range(2):
            ben.publish("a", body("z"))
        came += letters(desk, SERVICE_S, ann)
    assert came.replace("z", "") == "123"


def test_what_one_client_has_in_the_log_does_not_push_out_what_another_of_its_class_is_sent(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=5)))
    ann, bea, ben = desk.lasting("ann"), desk.join("bea"), desk.join("ben")
    ann.subscribe(*reliable("a"))
    bea.subscribe("b")
    ann.drop()
    for _ in range(50):
        ben.publish("a", body("o"), qos=1)
    desk.now += 60
    ann = desk.lasting("ann")
    came = ""
    for _ in range(20):  # half of what the link carries
        ben.publish("b", body("n"))
        came += letters(desk, 2 * SERVICE_S, bea)
        ann.take_in()
    assert came == "n" * 20


def test_what_is_sent_again_lets_nothing_more_into_the_buffer(make_desk):
    desk = make_desk(scenario=on_one_link("ann", "bea", link=a_link(buffer_messages=2)))
    ann, bea, ben = desk.join("ann"), desk.lasting("bea"), desk.join("ben")
    ann.subscribe("bulk")
    bea.subscribe(*reliable("a", "b", "c"))
    for topic in "abc":
        ben.publish(topic, body("1"), qos=1)
        wake(desk, 1.0)
    bea.drop()
    for topic in "abc":
        ben.publish(topic, body("2"), qos=1)
    for letter in "xyz":
        ben.publish("bulk", body(letter))
    bea = desk.lasting("bea")
    sent = ""
    for _ in range(20):
        sent += letters(desk, SERVICE_S, bea)
        assert sum(not one.packet_id for one in waiting(desk.session("bea"))) + desk.session("ann").queued <= 2
    assert sent == "111222"


def test_a_fan_out_finds_one_place_more_on_a_free_link_but_keeps_it_only_if_its_first_is_sent(make_desk):
    desk, ann, bea, ben = two_on_a_link(make_desk, places=1)
    ann.subscribe("a")
    bea.subscribe("a")
    ben.publish("a", body("1"))
    assert sum(desk.session(one).totals.dropped[Dropped.OVERFLOW] for one in ("ann", "bea")) == 0
    wake(desk, 1.0)
    ann.full()
    bea.full()
    ben.publish("a", body("2"))
    assert desk.session("ann").link.queued == 1


def test_a_lane_that_waits_for_room_does_so_in_its_present_class(make_desk):
    desk = make_desk(scenario=on_one_link("ann", link=a_link(buffer_messages=3)))
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe(*reliable("u", "v"))
    desk.apply(a_plan({("ann", "u"): (3, 0.0), ("ann", "v"): (5, 0.0)}))
    for topic, qos in (("u", 1), ("u", 0), ("v", 0), ("v", 0), ("v", 1), ("u", 1)):
        ben.publish(topic, body("x"), qos=qos)
    session = desk.session("ann")
    hungry = [lane for lane in session.lanes.values() if lane in session.link.hungry]
    assert hungry
    desk.apply(a_plan({("ann", "u"): (5, 0.0), ("ann", "v"): (3, 0.0)}, version=2))
    assert all(session.link.hungry.get(lane, lane.klass) == lane.klass for lane in hungry)
