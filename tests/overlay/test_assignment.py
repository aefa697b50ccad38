"""The strategies a step at a time: what each goes by, capacities, the budget, and what is too little to move for."""

from __future__ import annotations

import numpy as np
import pytest
from clusters import NOWHERE, after, carried, cluster
from hypothesis import given
from hypothesis import strategies as st

from firelane.errors import FirelaneError
from firelane.overlay.leader.assignment import STRATEGIES, Tuning, strategy, warm

by_load = pytest.mark.parametrize("name", ["bounded-moves", "least-load"])
each = pytest.mark.parametrize("name", STRATEGIES)


def step(name, one, max_moves=10, **tuning):
    decided = strategy(name, Tuning(**tuning)).step(one, max_moves)
    return decided, after(one, decided)


def test_fewest_topics_counts_topics_and_not_their_loads():
    one = cluster([100, 1, 1, 1, 50], [0, 1, 1, 1, NOWHERE])
    decided, place = step("fewest-topics", one, max_moves=0)
    assert decided.new == {"t04": "r0"}
    assert place == [0, 1, 1, 1, 0]


def test_fewest_topics_evens_out_numbers_to_one_more_or_less():
    one = cluster([1] * 9, [0] * 9)
    _, place = step("fewest-topics", one)
    assert sorted(np.bincount(place).tolist()) == [4, 5]


@by_load
def test_a_new_topic_goes_to_the_router_with_the_least_load(name):
    one = cluster([100, 1, 1, 1, 50], [0, 1, 1, 1, NOWHERE])
    decided, _ = step(name, one, max_moves=0)
    assert decided.new == {"t04": "r1"}
    assert decided.why == ("1 new topic: each to the router with the least load, the largest first",)


def test_bounded_moves_exchanges_where_single_moves_do_not_help():
    one = cluster([7, 5, 4, 6], [0, 0, 1, 1])  # 12 and 10: 7 for 6, or 5 for 4
    assert step("least-load", one)[0].moves == {}
    _, place = step("bounded-moves", one)
    assert carried(one, place) == [11, 11]


@pytest.mark.parametrize("name", ["bounded-moves", "fewest-topics", "least-load"])
def test_a_router_of_twice_the_capacity_gets_twice_as_much(name):
    new = cluster([1] * 30, capacity=(2, 1))
    _, place = step(name, new)
    assert carried(new, place) == [20, 10]
    moved = cluster([1] * 30, [0] * 15 + [1] * 15, capacity=(2, 1))
    decided, place = step(name, moved)
    assert carried(moved, place) == [20, 10]
    assert len(decided.moves) == 5


def test_long_term_gives_a_router_of_twice_the_capacity_twice_as_much():
    one = cluster([1] * 30, capacity=(2, 1))
    assert carried(one, step("long-term", one)[1]) == [20, 10]


@by_load
def test_a_difference_within_the_threshold_is_left_alone(name):
    one = cluster([52, 48, 2], [0, 1, 0])  # 6 of 51, 11.8 %
    assert step(name, one, threshold=0.12)[0].homes == {}
    assert step(name, one, threshold=0.05)[0].moves == {"t02": "r1"}


@by_load
def test_a_move_that_gains_next_to_nothing_is_not_made(name):
    # 103 and 97: the tenth of 1 goes only when that is a tenth of the threshold, 0.04 of 100, or more.
    one = cluster([102.9, 0.1, 97], [0, 0, 1])
    assert step(name, one, threshold=0.04)[0].homes == {}
    assert step(name, one, threshold=0.001)[0].moves == {"t01": "r1"}


@by_load
def test_what_is_idle_is_not_moved_but_placed(name):
    one = cluster([1, 1, 1, 1], [0, 0, 0, NOWHERE], idle=True)
    decided, _ = step(name, one)
    assert decided.moves == {}
    assert decided.new == {"t03": "r1"}


def test_the_reasons_name_the_dead_and_where_their_topics_went():
    orphaned = {0: "old", 1: "old", 2: "older"}
    one = cluster([3, 2, 1, 6], [NOWHERE, NOWHERE, NOWHERE, 0], orphaned=orphaned, capacity=(1, 1, 1))
    decided, _ = step("least-load", one)
    assert decided.orphans == {"t00": "r1", "t01": "r2", "t02": "r2"}
    assert decided.why == ("old is gone: its 2 topics to r1, r2", "older is gone: its 1 topic to r2")


problems = st.integers(1, 10).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(1, 50), min_size=count, max_size=count),
        st.lists(st.integers(-1, 2), min_size=count, max_size=count),
        st.lists(st.sampled_from([1, 2, 5]), min_size=3, max_size=3),
        st.integers(0, 4),
    )
)


@each
@given(problem=problems)
def test_every_topic_has_a_router_and_moves_are_within_the_budget(name, problem):
    load, place, capacity, budget = problem
    one = cluster(load, place, capacity=capacity, past=[load])
    decided, end = step(name, one, max_moves=budget)
    assert NOWHERE not in end
    assert len(decided.moves) <= budget
    assert {one.topics.index(topic) for topic in decided.new} == set(np.flatnonzero(one.place == NOWHERE).tolist())
    assert all(one.routers[here] != decided.moves.get(t) for t, here in zip(one.topics, place, strict=True))


@by_load
@given(problem=problems)
def test_moves_do_not_make_it_worse(name, problem):
    """By the sum of squares of what routers carry, each beside others of its capacity."""
    load, place, capacity, _ = problem
    place = [max(here, 0) for here in place]
    one = cluster(load, place, capacity=capacity)
    decided, end = step(name, one, max_moves=20)
    standing = [(max(capacity) - c) * sum(load) / sum(capacity) for c in capacity]

    def squares(where):
        return sum((a + b) ** 2 for a, b in zip(carried(one, where), standing, strict=True))

    assert squares(end) < squares(place) or not decided.moves


@pytest.mark.parametrize("name", ["bounded-moves", "fewest-topics", "least-load"])
@pytest.mark.parametrize("threshold", [0.0, 0.001, 0.05])
def test_loads_that_do_not_change_come_to_rest_whatever_their_digits(name, threshold):
    random = np.random.default_rng(7)
    for case in range(100):
        topics, routers = int(random.integers(2, 40)), int(random.integers(2, 8))
        load = np.round(1 + random.pareto(1.2, topics) * 10, 2)
        capacity = random.choice([1, 1, 2, 3.5], routers) if case % 2 else np.ones(routers)
        place, chosen, moves = (
            random.integers(0, routers, topics).tolist(),
            strategy(name, Tuning(threshold=threshold)),
            [],
        )
        for _ in range(60):  # at five moves a step every topic could have moved five times
            one = cluster(load, place, capacity=capacity)
            decided = chosen.step(one, 5)
            place = after(one, decided)
            moves.append(len(decided.moves))
        assert not any(moves[-10:])


@each
def test_a_strategy_can_be_made_ready(name):
    warm(name)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"threshold": -0.1}, "threshold"), ({"period_steps": 0}, "period_steps"), ({"least_gain": -1.0}, "least_gain")],
)
def test_tuning_that_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(FirelaneError, match=message):
        Tuning(**wrong)
