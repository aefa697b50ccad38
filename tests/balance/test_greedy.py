"""Largest first onto the emptiest broker, against what is known of it (Graham 1969)."""

from __future__ import annotations

import brute_force
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from loads_made import NOWHERE, one_step, some_loads

from firelane.balance.greedy import by_load, greedy, place_new


def makespan(load, place, brokers):
    return brute_force.carried(load, place, brokers).max()


def run(load, brokers):
    return greedy(load, by_load(load), brokers)


def test_topics_go_by_falling_load_to_the_emptiest_broker():
    # 7 -> 0, 6 -> 1, 5 -> 2, 4 -> 2 (5), 3 -> 1 (6), 2 -> 0 (7): 9, 9 and 9
    assert run(np.array([[2.0, 7, 4, 6, 3, 5]]), 3).tolist() == [[0, 0, 2, 1, 1, 2]]


def test_of_equals_the_first_goes_first():
    assert run(np.ones((1, 4)), 2).tolist() == [[0, 1, 0, 1]]


def test_topics_that_are_not_there_have_no_broker_and_every_step_begins_anew():
    load = np.array([[3.0, 0, 1], [1, 2, 3]])
    assert run(load, 2).tolist() == [[0, NOWHERE, 1], [1, 1, 0]]


def test_new_topics_join_those_that_stay():
    place, carried = np.array([0, 1, NOWHERE, NOWHERE, 0]), np.empty(2)
    load = np.array([9.0, 4, 3, 1, 0])
    place_new(load, by_load(load), place, carried)
    assert place.tolist() == [0, 1, 1, 1, NOWHERE]
    assert carried.tolist() == [9, 8]


@given(one_step, st.integers(1, 3))
def test_the_fullest_broker_is_within_grahams_bound_of_the_best(load, brokers):
    place = run(load[None, :], brokers)[0]
    best = brute_force.least(load, brokers, makespan)
    assert makespan(load, place, brokers) <= (4 / 3 - 1 / (3 * brokers)) * best + 1e-9


@given(some_loads(), st.integers(1, 5))
def test_nothing_is_lost_and_no_difference_exceeds_the_largest_topic(load, brokers):
    placed = run(load, brokers)
    assert np.array_equal(placed == NOWHERE, load == 0)
    for one, place in zip(load, placed, strict=True):
        there = place != NOWHERE
        carried = np.bincount(place[there], one[there], minlength=brokers)
        assert carried.sum() == one.sum()
        assert np.ptp(carried) <= one.max()
