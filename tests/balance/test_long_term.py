"""Algorithm 1 against a second reading of the paper, line by line, and its causal form."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loads_made import NOWHERE, free, some_loads

from firelane.balance.long_term import long_term, long_term_causal, periods
from firelane.balance.score import score


def as_printed(load, brokers):
    """Algorithm 1 with every D_j^t written out."""
    ideal = load.sum(axis=1) / brokers  # line 3, Eq. 6
    total = load.sum(axis=0)  # line 4, Eq. 7
    order = sorted((i for i in range(load.shape[1]) if total[i] > 0), key=lambda i: -total[i])  # line 5
    sets = [[] for _ in range(brokers)]
    for j, i in enumerate(order[:brokers]):  # lines 6 and 7
        sets[j].append(i)
    for i in order[brokers:]:  # line 8
        carried = [load[:, topics].sum(axis=1) for topics in sets]  # Eq. 8
        lacking = [(ideal - one).sum() for one in carried]  # Eq. 9 and 10
        sets[int(np.argmax(np.round(lacking, 6)))].append(i)
    place = np.full(load.shape[1], NOWHERE)
    for j, topics in enumerate(sets):
        place[topics] = j
    return place


@given(some_loads(), st.integers(1, 5))
def test_one_period_is_placed_as_the_paper_prints_it(load, brokers):
    placed = long_term(load, brokers, periods(len(load), 0))
    assert np.array_equal(placed, np.tile(as_printed(load, brokers), (len(load), 1)))


@pytest.mark.parametrize(("steps", "limit", "begin"), [(12, 0, [0, 12]), (12, 2, [0, 4, 8, 12]), (5, 1, [0, 2, 5])])
def test_reconfigurations_divide_the_time_into_one_period_more(steps, limit, begin):
    assert periods(steps, limit).tolist() == begin


@given(some_loads(), st.integers(1, 4), st.data())
def test_every_period_is_placed_for_itself(load, brokers, data):
    begin = periods(len(load), data.draw(st.integers(0, len(load) - 1)))
    placed = long_term(load, brokers, begin)
    for start, end in pairwise(begin):
        assert np.array_equal(placed[start], as_printed(load[start:end], brokers))
        assert np.all(placed[start:end] == placed[start])


@given(some_loads(), st.integers(1, 4), st.data())
def test_there_are_no_more_reconfigurations_than_asked_for(load, brokers, data):
    limit = data.draw(st.integers(0, len(load) - 1))
    begin = periods(len(load), limit)
    for placed in (long_term(load, brokers, begin), long_term_causal(load, free(load.shape[1]), brokers, begin)):
        assert score(load, placed, free(load.shape[1]), brokers).summary()["reconfigurations"] <= limit


def test_knowing_the_period_beats_the_first_step_when_topics_take_turns():
    load = np.array([[9.0, 1, 1, 9], [9, 1, 1, 9], [1, 9, 9, 1], [1, 9, 9, 1]])
    known = long_term(load, 2, periods(4, 0))
    assert score(load, known, free(4), 2).difference.tolist() == [0, 0, 0, 0]  # a with b, c with d


def test_the_causal_form_places_a_period_by_the_one_before():
    load = np.array([[4.0, 3, 2, 1], [4, 3, 2, 1], [1, 1, 1, 9], [1, 1, 1, 9]])
    placed = long_term_causal(load, free(4), 2, periods(4, 1))
    assert placed[2].tolist() == as_printed(load[:2], 2).tolist()


def test_a_topic_that_comes_goes_where_the_last_step_had_the_least_load():
    load = np.array([[4.0, 3, 0, 0], [4, 3, 5, 1], [4, 3, 5, 1]])
    placed = long_term_causal(load, free(4), 2, periods(3, 0))
    # Unknown, both count as 3.5: the first joins 3, the second 4.
    assert placed.tolist() == [[0, 1, NOWHERE, NOWHERE], [0, 1, 1, 0], [0, 1, 1, 0]]


def test_topics_that_come_when_there_was_nothing_are_spread():
    load = np.array([[0.0, 0, 0, 0], [4, 3, 5, 1]])
    assert long_term_causal(load, free(4), 2, periods(2, 0))[1].tolist() == [0, 1, 0, 1]


def test_in_the_first_period_topics_stay_where_they_are_also_if_they_are_silent_at_first():
    load = np.array([[4.0, 3, 0, 2], [4, 3, 2, 2], [4, 3, 2, 2], [4, 3, 2, 2]])
    start = np.array([1, 1, 1, NOWHERE])
    placed = long_term_causal(load, start, 2, periods(4, 1))
    assert placed[:2].tolist() == [[1, 1, 1, 0]] * 2  # what is nowhere goes where least is carried
    assert placed[2].tolist() == as_printed(load[:2], 2).tolist()
