"""The checker sees what is wrong in a history, and nothing in one that is right."""

from __future__ import annotations

import json

import pytest

from live.overlay.history import Epochs, History


def history(**arrived):
    """Three messages of each QoS, of which those of QoS 0 may be lost, and what ben got of them."""
    made = History()
    made.qos |= {"once": 2, "plain": 1, "perhaps": 0}
    made.wants["ben"] = "#"
    made.acknowledged |= {"once": {1, 2, 3}, "plain": {1, 2, 3}}
    made.arrived |= {("ben", topic): [1, 2, 3] for topic in made.qos} | {
        ("ben", topic): numbers for topic, numbers in arrived.items()
    }
    return made


def test_what_is_promised_is_no_problem():
    assert history().problems() == []
    assert history(plain=[1, 1, 2, 3], perhaps=[1, 3]).problems() == []


@pytest.mark.parametrize(
    ("arrived", "problem"),
    [
        ({"once": [1, 3]}, "ben never got once [2], 1 in all"),
        ({"plain": [1, 2]}, "ben never got plain [3], 1 in all"),
        ({"plain": []}, "ben never got plain [1, 2, 3], 3 in all"),
        ({"once": [1, 2, 2, 3]}, "ben got once [2] more than once"),
        ({"once": [1, 2, 3, 1]}, "ben got once [1] more than once"),
        ({"perhaps": [1, 1]}, "ben got perhaps [1] more than once"),
        ({"once": [2, 1, 3]}, "ben got once 1 after 2"),
        ({"plain": [1, 3, 2]}, "ben got plain 2 after 3"),
        ({"perhaps": [3, 1]}, "ben got perhaps 1 after 3"),
    ],
)
def test_what_was_lost_doubled_or_overtaken_is_seen(arrived, problem):
    assert history(**arrived).problems() == [problem]


def test_who_does_not_want_a_topic_does_not_miss_it():
    made = history()
    made.wants["ann"] = "once"
    assert made.problems() == ["ann never got once [1, 2, 3], 3 in all"]


def test_what_came_again_is_counted():
    assert history(plain=[1, 1, 2, 2, 2, 3]).again() == 3


@pytest.mark.parametrize(
    ("lines", "problems"),
    [
        ([["t", 0, "accepted"], ["t", 3, "accepted"], ["t", 3, "accepted"]], []),
        ([["t", 3, "accepted"], ["t", 2, "refused"], ["u", 2, "accepted"]], []),
        ([["t", 3, "accepted"], ["t", 4, "refused"], ["t", 3, "accepted"]], []),
        ([["t", 3, "accepted"], ["t", 2, "accepted"]], ["b took t under epoch 2 after 3"]),
        ([["t", 5, "told"], ["t", 4, "accepted"]], ["b took t under epoch 4 after 5"]),
        ([["t", 5, "accepted"], ["t", 2, "told"], ["t", 3, "accepted"]], ["b took t under epoch 3 after 5"]),
    ],
)
def test_what_was_accepted_under_an_older_epoch_is_seen(tmp_path, lines, problems):
    file = tmp_path / "accepted"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert Epochs.read("b", file).problems() == problems


def test_newer_epochs_are_counted():
    lines = [["t", 0, "accepted"], ["t", 3, "told"], ["t", 3, "accepted"], ["t", 9, "refused"], ["u", 1, "accepted"]]
    assert Epochs("b", lines).changes() == 1


def test_the_longest_silence_is_that_of_the_quietest_topic():
    """Others go on meanwhile, and what was before or comes after does not count."""
    made = history()
    made.sites |= {"ben": "b", "once": "a", "plain": "c", "perhaps": "a"}
    made.times_s |= {
        ("ben", "once"): [0.0, 10.0, 11.0, 14.0, 15.0],
        ("ben", "plain"): [10.0, 10.5, 12.0, 15.0],
        ("ben", "perhaps"): [10.0, 11.0, 12.0, 13.0, 14.0],
    }
    assert made.silence(10.0, 15.0).length_s == 3.0
    assert made.silence(10.0, 15.0, site="a") == (3.0, 1.0, "ben", "once")
    assert made.silence(10.0, 15.0, site="c")[:2] == (3.0, 2.0)
    assert made.silence(10.0, 15.0, without="a").topic == "plain"
    assert made.silence(11.5, 13.0).length_s == 1.5
    assert made.silence(10.0, 15.0, without="b").length_s == 0.0


def test_a_topic_that_never_comes_back_is_silent_to_the_end():
    made = history()
    made.sites |= {"ben": "b", "once": "a", "plain": "a", "perhaps": "a"}
    made.times_s |= {("ben", topic): [1.0, 2.0] for topic in made.qos}
    assert made.silence(1.5, 20.0).length_s == 18.0


def test_all_has_arrived_once_the_last_number_has():
    made = history(once=[1, 2])
    answer = made.caught_up()
    assert not answer()
    made.arrived["ben", "once"].append(3)
    assert answer()
    made.acknowledged["once"].add(4)
    assert answer()
