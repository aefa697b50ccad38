"""What the receiving edge holds for want of a message before it, and how much of that."""

from dataclasses import astuple

import pytest

from firelane.overlay.messages import receiving
from firelane.overlay.messages.actions import Deliver, Tell
from firelane.overlay.messages.notes import Missing, read_note
from firelane.overlay.messages.receiving import ASK_AFTER_S, Receiving
from firelane.overlay.messages.stamp import NAME, Stamp, StampError, taken_off

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
    one = Receiving("near", 1, {("far", "t"): (1, 1)})  # of QoS 2 it knows what it had
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


def gets(one, number, qos):
    stamp = Stamp("far", 1, number, 0, 0, qos, retain=True)
    return [
        action for action in one.arrived("door", b"%d" % number, {}, stamp, "r", 1.0) if isinstance(action, Deliver)
    ]


def test_a_message_of_qos_0_that_comes_after_a_newer_one_of_qos_1_is_discarded():
    one = Receiving("near", 1)
    assert len(gets(one, 2, qos=1)) == 1
    assert gets(one, 1, qos=0) == []
    assert one.counts == {"superseded": 1}


def test_a_message_of_qos_1_that_comes_after_a_newer_one_of_qos_0_is_delivered_but_not_kept_in_its_place():
    one = Receiving("near", 1)
    assert [action.stamp.retain for action in gets(one, 2, qos=0)] == [True]
    late = gets(one, 1, qos=1)
    assert [(action.payload, action.stamp.retain) for action in late] == [(b"1", False)]
    one.committed(late[0].stamp)
    assert [action.note.came for action in one.tick(1.0)] == [(1,)]


@pytest.mark.parametrize("text", ["1 1 5 5 0 1 far", "1 1 5 6 0 1 far", "1 1 5 0 0 1 far/#", "1 1 5 0 0 1 "])
def test_a_stamp_of_a_message_after_itself_or_of_no_edge_is_refused(text):
    with pytest.raises(StampError, match="is no stamp"):
        taken_off({"user_property": [(NAME, text)]})


@pytest.mark.parametrize("field", range(5))
def test_a_number_in_a_stamp_is_one_that_a_note_can_say(field):
    """Or others could not read what is told of it: an epoch beyond would have an edge refuse all others' messages of a
    topic, and nobody know why."""
    for number, sound in ((2**63 - 1, True), (2**63, False), (2**64, False), (16**2000, False)):
        text = "1 {:x} {:x} {:x} {:x} 5 far {:x}".format(
            *(number if at == field else given for at, given in enumerate((1, 2**63 - 1, 0, 0, 0)))
        )
        properties = {"user_property": [(NAME, text)]}
        if sound and field != 2:  # what is before a message has a lower number
            assert number in astuple(taken_off(properties)[0])
        elif not sound:
            with pytest.raises(StampError, match="is no stamp"):
                taken_off(properties)


def test_what_is_told_of_the_highest_epoch_can_be_read_and_heeded():
    one = Receiving("near", 1)
    one.arrived("t", b"", {}, Stamp("odd", 1, 5, 0, 2**63 - 1, 1), "r", 0.0)
    (told,) = one.arrived("t", b"", {}, Stamp("far", 9, 7, 0, 3, 1), "r", 0.0)
    (refused,) = read_note(told.note.encode()).outdated
    assert refused.epoch == 2**63 - 1
    again = one.arrived("t", b"", {}, Stamp("far", 9, 7, 0, refused.epoch, 1), "r", 0.1)
    assert [action.stamp.number for action in again] == [7]


def test_properties_count_for_what_is_held(monkeypatch):
    monkeypatch.setattr(receiving, "MOST_HELD_BYTES", 5 * SIZE)
    one = Receiving("near", 1)
    large = {"user_property": [("trace", "x" * SIZE)]}
    for number in range(2, 12):
        one.arrived("t", b"", large, Stamp("far", 1, number, number - 1, 0, 1), "r", 0.0)
    assert one.held == 4
    one.arrived("t", b"", {}, Stamp("far", 1, 1, 0, 0, 1), "r", 0.0)
    assert one._held_bytes == 0


def test_of_many_topics_those_are_forgotten_that_hold_nothing_and_were_not_heard_of_for_longest(monkeypatch):
    monkeypatch.setattr(receiving, "MOST_CHAINS", 60)
    one, most, holding = Receiving("near", 1), 0, 40

    def comes(topic, number, after):
        nonlocal most
        found = one.arrived(topic, b"", {}, Stamp("far", 1, number, after, 0, 1), "r", 0.0)
        most = max(most, len(one._chains))
        return [action.stamp.number for action in found if isinstance(action, Deliver)]

    for topic in range(holding):
        assert comes(f"hold/{topic}", 1000 + topic, 999) == []
    for topic in range(300):
        assert comes(f"t/{topic}", topic + 1, 0) == [topic + 1]
        assert comes("often", 301 + topic, 300 + topic if topic else 0) == [301 + topic]
    assert most <= 60 + holding, "what holds is looked at a few at a time"
    assert len(one._chains) == 60
    for topic in range(holding):
        assert comes(f"hold/{topic}", 999, 0) == [999, 1000 + topic]
    assert comes("often", 601, 600) == [601]
    assert comes("often", 400, 0) == [], "it has come before, and that is known"
    assert comes("t/0", 1, 0) == [1], "that is forgotten"
