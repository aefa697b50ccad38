"""Load difference, excess and switches, worked by hand and against every possible placement."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loads_made import NOWHERE, free, one_step, some_loads

from firelane.balance.score import score, unavoidable
from firelane.balance.window import forced


def test_the_difference_is_the_fullest_broker_minus_the_emptiest():
    load = np.array([[5.0, 3, 2], [1, 1, 8]])
    placed = np.array([[0, 1, 1], [0, 1, 1]])
    result = score(load, placed, free(3), 3)
    assert result.difference.tolist() == [5, 9]  # (5, 5, 0) and (1, 9, 0)
    assert result.summary()["load_difference_mean"] == 7
    assert result.summary()["load_difference_max"] == 9


def test_a_switch_is_a_topic_that_is_there_in_both_steps_on_another_broker():
    load = np.array([[1.0, 1, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]])
    placed = np.array([[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 0]])
    result = score(load, placed, free(4), 2)
    assert result.switches.tolist() == [0, 1, 2]  # the third topic was away when its broker changed
    assert result.summary()["switches"] == 3
    assert result.summary()["reconfigurations"] == 2


def test_the_first_placement_is_free_unless_there_was_one_before():
    load, placed = np.ones((1, 3)), np.array([[0, 1, 1]])
    assert score(load, placed, free(3), 2).switches.tolist() == [0]
    assert score(load, placed, np.array([1, 1, NOWHERE]), 2).switches.tolist() == [1]


def test_excess_is_what_is_above_the_share_of_the_largest_topic():
    load = np.array([[10.0, 1, 1, 2]])
    alone, shared = np.array([[0, 1, 2, 1]]), np.array([[0, 1, 2, 0]])
    assert unavoidable(load, 3).tolist() == [8]  # 10 against 2 each
    assert score(load, alone, free(4), 3).excess.tolist() == [1]  # 10, 3 and 1
    assert score(load, shared, free(4), 3).excess.tolist() == [3]  # 12, 1 and 1


def test_one_broker_has_no_difference_and_no_excess():
    result = score(np.array([[3.0, 4]]), np.array([[0, 0]]), free(2), 1)
    assert result.difference.tolist() == [0]
    assert result.excess.tolist() == [0]


@given(one_step, st.integers(2, 3))
def test_no_placement_is_below_what_is_said_to_be_forced(load, brokers):
    least = brute_force.least(load, brokers)
    assert unavoidable(load[None, :], brokers)[0] <= least + 1e-9
    floor, ceiling = forced(load, brokers)
    assert ceiling - floor <= least + 1e-9
    assert ceiling - floor >= unavoidable(load[None, :], brokers)[0] - 1e-9  # several large topics force more
    for place in brute_force.placements(len(load), brokers):
        loads = brute_force.carried(load, place, brokers)
        assert loads.min() <= floor + 1e-9
        assert loads.max() >= ceiling - 1e-9


def test_two_large_topics_leave_the_rest_to_the_third_broker():
    assert tuple(forced(np.array([10.0, 8, 1, 1]), 3)) == (2, 10)
    assert tuple(forced(np.array([3.0, 3, 3]), 3)) == (3, 3)
    assert tuple(forced(np.array([5.0]), 3)) == (0, 5)
    assert tuple(forced(np.array([1e15, 1e-9]), 2)) == (1e-9, 1e15)


@given(some_loads(), st.integers(1, 4), st.randoms())
def test_the_series_add_up_to_the_summary(load, brokers, random):
    placed = np.array([[random.randrange(brokers) for _ in row] for row in load])
    result = score(load, placed, free(load.shape[1]), brokers)
    numbers, series = result.summary(), result.series()
    assert numbers["switches"] == sum(series["switches"])
    assert numbers["load_difference_mean"] == pytest.approx(np.mean(series["load_difference"]))
    assert numbers["excess_mean"] == pytest.approx(np.mean(series["excess"]))
    assert all(0 <= e <= d for e, d in zip(series["excess"], series["load_difference"], strict=True))
    for t in range(len(load)):
        assert series["load_difference"][t] == brute_force.difference(load[t], placed[t], brokers)
