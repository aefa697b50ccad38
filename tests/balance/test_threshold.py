"""The paper's baseline: all anew when that gains more than the threshold, else nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loads_made import free, some_loads

from firelane.balance.greedy import by_load, greedy
from firelane.balance.score import score
from firelane.balance.threshold import threshold

# Placed as 6 + 1 and 5 + 2. Then 6 + 5 and 1 + 2, a difference of 8; anew it is 6 + 1 and 5 + 2 again, of 0.
GROWN = np.array([[6.0, 5, 2, 1], [6, 1, 2, 5]])


def run(load, brokers, gain):
    placed = threshold(load, by_load(load), free(load.shape[1]), brokers, np.full(len(load), float(gain)))
    return placed, score(load, placed, free(load.shape[1]), brokers)


@pytest.mark.parametrize(("gain", "difference", "switches"), [(7, 0, 2), (8, 8, 0), (9, 8, 0)])
def test_it_acts_when_the_gain_is_greater_than_the_threshold(gain, difference, switches):
    _, result = run(GROWN, 2, gain)
    assert result.difference.tolist() == [0, difference]
    assert result.switches.tolist() == [0, switches]


def test_topics_that_are_new_do_not_make_it_act():
    placed, result = run(np.array([[4.0, 3, 0], [4, 3, 1]]), 2, 5)
    assert placed[1].tolist() == [0, 1, 1]
    assert result.switches.sum() == 0


def test_a_start_is_kept_while_it_is_good_enough():
    start = np.array([1, 0])
    load = np.array([[2.0, 1]])
    placed = threshold(load, by_load(load), start, 2, np.array([0.0]))
    assert placed.tolist() == [[1, 0]]


@given(some_loads(), st.integers(1, 4))
def test_a_threshold_beyond_all_loads_never_switches(load, brokers):
    assert run(load, brokers, load.sum() + 1)[1].switches.sum() == 0


@given(some_loads(), st.integers(1, 4), st.integers(0, 500))
def test_no_step_is_worse_than_placing_all_anew_by_more_than_the_threshold(load, brokers, gain):
    _, ours = run(load, brokers, gain)
    anew = score(load, greedy(load, by_load(load), brokers), free(load.shape[1]), brokers)
    assert np.all(ours.difference <= anew.difference + gain + 1e-9)
