"""What waits for a client, and where: full windows and sockets, memory, the log, retained messages."""

from __future__ import annotations

import pytest

from firelane.exchange.delivering import replays
from firelane.exchange.lanes.lane import Dropped
from firelane.mqtt.packets import V3, Kind, Subscription


@pytest.fixture(params=["fsync", "memory"])
def durability(request):
    return request.param


def fill(line, topic, numbers, qos):
    for number in numbers:
        packet_id = line.publish(topic, b"%d" % number, qos=qos)
        if qos == 2:
            line.ack(Kind.PUBREL, packet_id)


def texts(numbers):
    return [b"%d" % number for number in numbers]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_full_window_holds_the_rest_back_until_something_is_acknowledged(desk, qos):
    ann, ben = desk.join("ann", receive_maximum=2), desk.join("ben")
    ann.subscribe("a", qos=2)
    fill(ben, "a", range(5), qos)
    first, second = ann.messages()
    assert desk.session("ann").queued == 3
    if qos == 1:
        ann.ack(Kind.PUBACK, first.packet_id)
    else:
        ann.ack(Kind.PUBREC, first.packet_id)
        assert ann.messages() == []  # MQTT 5 counts it until PUBCOMP
        ann.ack(Kind.PUBCOMP, first.packet_id)
    assert ann.payloads() == [b"2"]
    assert second.packet_id in desk.session("ann").in_flight


def test_the_window_is_never_larger_than_the_exchange_allows(make_desk):
    desk = make_desk(limits={"inflight": 3})
    ann, bea, ben = desk.join("ann", receive_maximum=10), desk.join("bea", V3), desk.join("ben")
    ann.subscribe("a", qos=1)
    bea.subscribe("a", qos=1)
    fill(ben, "a", range(5), 1)
    assert len(ann.messages()) == len(bea.messages()) == 3


def test_a_full_window_holds_back_what_comes_behind_it_in_order(desk):
    ann, ben = desk.join("ann", receive_maximum=1), desk.join("ben")
    ann.subscribe("a", qos=1)
    ben.publish("a", b"0", qos=1)
    ben.publish("a", b"1", qos=1)
    ben.publish("a", b"2", qos=0)
    (message,) = ann.messages()
    ann.ack(Kind.PUBACK, message.packet_id)
    assert ann.payloads() == [b"1", b"2"]


def test_qos_0_goes_on_while_the_window_is_full_and_nothing_waits(desk):
    ann, ben = desk.join("ann", receive_maximum=1), desk.join("ben")
    ann.subscribe("a", qos=1)
    ben.publish("a", b"0", qos=1)
    ben.publish("a", b"1", qos=0)
    assert ann.payloads() == [b"0", b"1"]


def test_a_full_socket_gets_nothing_and_then_everything_in_order(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=1)
    ann.full()
    fill(ben, "a", range(3), 0)
    fill(ben, "a", range(3, 6), 1)
    assert ann.messages() == []
    ann.full(False)
    assert ann.payloads() == texts(range(6))


def test_a_full_socket_of_one_delays_nobody_else(desk):
    slow, quick, ben = desk.join("slow"), desk.join("quick"), desk.join("ben")
    slow.subscribe("a")
    quick.subscribe("a")
    slow.full()
    fill(ben, "a", range(3), 0)
    assert quick.payloads() == texts(range(3))


def test_qos_0_beyond_the_queue_is_dropped_and_counted(make_desk, durability):
    desk = make_desk(limits={"queue": 4}, durability=durability)
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a")
    ann.full()
    fill(ben, "a", range(10), 0)
    assert desk.session("ann").totals.dropped[Dropped.OVERFLOW] == 6
    ann.full(False)
    assert ann.payloads() == texts(range(4))


def test_the_queue_is_bounded_in_bytes_too(make_desk):
    desk = make_desk(limits={"queue_bytes": 3000})
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a")
    ann.full()
    for _ in range(10):
        ben.publish("a", bytes(1000))
    assert desk.session("ann").link.queued_bytes < 3000 + 1300
    assert desk.session("ann").totals.dropped[Dropped.OVERFLOW] == 7


@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("qos", [1, 2])
def test_qos_1_and_2_beyond_the_queue_wait_in_the_log_and_come_back_in_order(make_desk, durability, lasting, qos):
    desk = make_desk(limits={"queue": 4, "inflight": 3}, durability=durability)
    ann, ben = desk.lasting("ann") if lasting else desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    ann.full()
    fill(ben, "a", range(20), qos)
    session = desk.session("ann")
    assert (session.queued, session.stored) == (4, 16)
    assert sum(session.totals.dropped) == 0
    ann.full(False)
    assert ann.take_in() == texts(range(20))
    assert desk.log.live_bytes == (0 if durability == "memory" or not lasting else session.size_bytes +
                                   session.subscriptions["a"].size_bytes + 18)  # fmt: skip


def test_new_messages_queue_up_behind_those_in_the_log(make_desk):
    desk = make_desk(limits={"queue": 2, "inflight": 1})
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=1)
    fill(ben, "a", range(6), 1)
    (message,) = ann.messages()
    ann.ack(Kind.PUBACK, message.packet_id)
    fill(ben, "a", range(6, 9), 1)
    assert ann.take_in() == texts(range(1, 9))


def test_who_is_away_is_kept_qos_1_and_2_but_not_0(make_desk, durability):
    desk = make_desk(durability=durability)
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    ann.drop()
    for number in range(9):
        ben.publish("a", b"%d" % number, qos=number % 3)
    session = desk.session("ann")
    assert session.totals.dropped[Dropped.DISCONNECTED] == 3
    assert not session.queued  # memory keeps only where they are
    ann = desk.lasting("ann")
    assert ann.take_in() == texts([1, 2, 4, 5, 7, 8])


def test_what_waited_in_memory_waits_in_the_log_once_the_client_is_gone(make_desk, durability):
    desk = make_desk(limits={"queue": 4, "inflight": 2}, durability=durability)
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=1)
    fill(ben, "a", range(9), 1)
    ann.drop()
    session = desk.session("ann")
    assert (len(session.in_flight), session.queued, session.stored) == (2, 0, 7)
    assert desk.lasting("ann").take_in() == texts(range(9))


def test_a_smaller_window_after_the_return_is_kept_to(desk):
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    for number in range(6):
        ben.publish("a", b"%d" % number, qos=1 + number % 2)
    ann.drop()
    ann = desk.lasting("ann", receive_maximum=2)
    assert [len(ann.got), *texts(range(2))] == [2, *(one.payload for one in ann.got)]
    assert ann.take_in() == texts(range(6))


def test_what_a_lost_connection_still_held_of_qos_0_is_counted_as_dropped(desk):
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a")
    ann.full()
    fill(ben, "a", range(3), 0)
    ann.drop()
    session = desk.session("ann")
    assert (session.totals.due, session.totals.dropped[Dropped.DISCONNECTED], session.owed) == (3, 3, 0)


# ------------------------------------------------------------------------------------------------ retained


def test_retained_messages_are_sent_at_the_lower_qos_with_the_flag(desk):
    ben = desk.join("ben")
    for qos in range(3):
        ben.publish(f"r/{qos}", b"x", qos=qos, retain=True)
    ann = desk.join("ann")
    ann.subscribe("r/+", qos=1)
    found = ann.messages()
    assert {(one.topic, one.qos) for one in found} == {("r/0", 0), ("r/1", 1), ("r/2", 1)}
    assert all(one.retain for one in found)


def test_an_empty_message_clears_what_was_retained_and_is_passed_on(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ben.publish("r", b"x", retain=True)
    ann.subscribe("r")
    ben.publish("r", b"", retain=True)
    assert ann.payloads() == [b"x", b""]
    assert len(desk.broker.retained) == 0
    bea = desk.join("bea")
    bea.subscribe("r")
    assert bea.messages() == []


@pytest.mark.parametrize(("handling", "times"), [(0, 2), (1, 1), (2, 0)])
def test_retain_handling_says_when_retained_messages_are_sent(desk, handling, times):
    desk.join("ben").publish("r", b"x", retain=True)
    ann = desk.join("ann")
    for _ in range(2):
        ann.subscribe(Subscription(filter="r", retain_handling=handling))
    assert len(ann.messages()) == times


def test_retained_messages_are_pulled_one_by_one_as_there_is_room(desk):
    ben = desk.join("ben")
    for number in range(50):
        ben.publish(f"r/{number:02}", b"x", qos=1, retain=True)
    ann = desk.lasting("ann", receive_maximum=2)
    ann.subscribe("r/#", qos=1)
    session = desk.session("ann")
    assert (session.totals.due, session.queued) == (2, 0)  # what the client's window takes
    assert len(ann.take_in()) == 50
    assert session.totals.due == 50


def test_more_retained_messages_than_a_socket_takes_at_once_all_arrive(desk):
    ben = desk.join("ben")
    for number in range(200):
        ben.publish(f"r/{number}", bytes(1000), retain=True)
    ann = desk.join("ann")
    ann.subscribe("r/#")
    assert len(ann.messages()) == 200


def test_a_full_socket_stops_the_replay(desk):
    desk.join("ben").publish("r", b"x", retain=True)
    ann = desk.join("ann")
    ann.full()
    ann.subscribe("r")
    assert ann.messages() == []
    ann.full(False)
    assert ann.payloads() == [b"x"]


def test_a_replay_has_the_newest_message_and_ends_with_its_subscription(desk):
    ben, ann = desk.join("ben"), desk.join("ann")
    ben.publish("r", b"old", retain=True)
    ben.publish("s", b"s", retain=True)
    ann.full()
    ann.subscribe("r", "s")
    ann.unsubscribe("s")
    ben.publish("r", b"new", retain=True)
    ann.full(False)
    assert [(one.payload, one.retain) for one in ann.messages()] == [(b"new", False), (b"new", True)]


def test_a_replay_goes_on_while_retained_messages_come_and_go(desk):
    ben, ann = desk.join("ben"), desk.join("ann", receive_maximum=1)
    for number in range(20):
        ben.publish(f"r/{number}/x", b"%d" % number, qos=1, retain=True)
    ann.subscribe("r/#", qos=1)
    found = []
    for number in range(20):
        ben.publish(f"r/{2 * number}/x", b"", retain=True)  # every second goes, and others come
        ben.publish(f"r/new/{number}", b"new", retain=True)
        for one in ann.messages():
            found += [one.payload] if one.retain else []
            if one.qos:
                ann.ack(Kind.PUBACK, one.packet_id)
    found += ann.take_in()
    stayed = texts(range(1, 20, 2))
    assert [one for one in stayed if found.count(one) != 1] == []


def test_a_long_search_for_retained_messages_is_done_in_steps(desk, monkeypatch):
    monkeypatch.setattr(replays, "MOST_STEPS", 2)
    ben, ann = desk.join("ben"), desk.join("ann")
    for number in range(20):
        ben.publish(f"a/b/{number}/c/{'x' if number % 7 == 0 else 'y'}", b"%d" % number, retain=True)
    ann.subscribe("a/b/+/c/x")
    assert sorted(ann.payloads(), key=int) == texts([0, 7, 14])


def test_a_replay_goes_on_when_its_subscription_is_renewed(desk):
    ben, ann = desk.join("ben"), desk.join("ann")
    for number in range(3):
        ben.publish(f"r/{number}", b"%d" % number, retain=True)
    ann.full()
    for _ in range(2):
        ann.subscribe(Subscription(filter="r/+", retain_handling=1))
    ann.full(False)
    assert sorted(ann.payloads()) == texts(range(3))


def test_retained_messages_beyond_the_limit_are_not_kept(make_desk):
    desk = make_desk(limits={"retained": 2})
    ben = desk.join("ben")
    for number in range(4):
        ben.publish(f"r/{number}", b"x", retain=True)
    ben.publish("r/0", b"y", retain=True)
    assert len(desk.broker.retained) == 2
    assert desk.broker.counts.retained_refused == 2
    assert desk.broker.retained.get(b"r/0").payload == b"y"
