"""What the receiving edge holds for want of a message before it, and how much of that."""

from firelane.overlay import receiving
from firelane.overlay.actions import Deliver, Tell
from firelane.overlay.notes import Missing
from firelane.overlay.receiving import ASK_AFTER_S, Receiving
from firelane.overlay.stamp import Stamp

SIZE = 1000


def arrive(one, number, after, now=0.0):
    return one.arrived("t", bytes(SIZE), {}, Stamp("far", 1, number, after, 0, 1), "r", now)


def test_what_is_held_is_bounded_in_bytes_and_comes_again_later(monkeypatch):
    monkeypatch.setattr(receiving, "MOST_HELD_BYTES", 5 * SIZE)
    one = Receiving("near", 1)
    for number in range(2, 12):
        assert arrive(one, number, number - 1) == []
    assert one.held == 5
    assert one.counts["no room"] == 5
    delivered = arrive(one, 1, 0)
    assert [action.stamp.number for action in delivered if isinstance(action, Deliver)] == [1, 2, 3, 4, 5, 6]
    assert one.held == 0
    again = [action for number in range(7, 12) for action in arrive(one, number, number - 1)]
    assert [action.stamp.number for action in again] == [7, 8, 9, 10, 11]
    for number in range(22, 30):  # what was let go made room
        arrive(one, number, number - 1)
    assert one.held == 5


def asked(one, now):
    return [gap for action in one.tick(now) if isinstance(action, Tell) for gap in action.note.missing]


def test_a_gap_is_waited_for_a_moment_while_all_paths_are_as_they_were():
    one = Receiving("near", 1)
    one.path_up()
    arrive(one, 1, 0)
    arrive(one, 3, 2, now=10.0)
    assert asked(one, 10.0 + ASK_AFTER_S - 0.01) == []
    assert asked(one, 10.0 + ASK_AFTER_S) == [Missing(topic="t", last=1, before=3)]


def test_what_was_sent_while_this_edge_was_out_of_reach_is_asked_for_at_once():
    one = Receiving("near", 1)
    one.path_up()
    arrive(one, 1, 0)
    one.path_up()
    arrive(one, 3, 2, now=10.0)
    assert asked(one, 10.0) == [Missing(topic="t", last=1, before=3)]
    arrive(one, 2, 1, now=10.1)
    arrive(one, 5, 4, now=10.2)  # the path is as it was when the last one came
    assert asked(one, 10.2) == []


def test_what_was_sent_while_this_edge_was_not_running_is_asked_for_at_once():
    one = Receiving("near", 1, {("far", "t"): 1})  # of QoS 2 it knows what it had
    arrive(one, 3, 2, now=10.0)
    assert asked(one, 10.0) == [Missing(topic="t", last=1, before=3)]


def test_the_next_of_several_gaps_is_asked_for_as_soon_as_the_first_is_filled():
    one = Receiving("near", 1)
    one.path_up()
    arrive(one, 1, 0)
    one.path_up()
    arrive(one, 4, 3, now=10.0)
    arrive(one, 8, 7, now=10.0)
    assert asked(one, 10.0) == [Missing(topic="t", last=1, before=4)]
    arrive(one, 2, 1, now=10.1)
    assert asked(one, 10.1) == []  # the rest of the answer is on its way
    arrive(one, 3, 2, now=10.1)
    assert asked(one, 10.1) == [Missing(topic="t", last=4, before=8)]
    assert asked(one, 10.2) == []
    for number in (5, 6, 7):
        arrive(one, number, number - 1, now=10.2)
    assert one.held == 0
    arrive(one, 10, 9, now=10.3)
    assert asked(one, 10.3) == []  # it may only be late
