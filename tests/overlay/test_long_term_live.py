"""`long-term` a step at a time: periods, what it waits for, what is too little, and routers that come and go."""

from __future__ import annotations

import numpy as np
from clusters import NOWHERE, after, carried, cluster

from firelane.overlay.leader.long_term import LongTerm

LOADS = [9, 8, 3, 2]


def run(strategy, load, place, steps, max_moves=10, capacity=(1, 1)):
    """The placement after each of so many steps of the same loads, and the moves of each."""
    past, places, moves = [], [], []
    for _ in range(steps):
        one = cluster(load, place, past=past[-strategy.window_steps :], capacity=capacity)
        decided = strategy.step(one, max_moves)
        place = after(one, decided)
        past.append(load)
        places.append(place)
        moves.append(len(decided.moves))
    return places, moves


def test_a_period_passes_before_anything_is_placed_anew():
    strategy = LongTerm(period_steps=3, least_gain=0.05)
    places, moves = run(strategy, LOADS, [0, 0, 1, 1], 5)
    assert moves[:3] == [0, 0, 0]  # 17 and 5
    assert carried(cluster(LOADS), places[3]) == [11, 11]
    assert moves[4] == 0


def test_what_exceeds_the_budget_follows_in_the_next_steps_the_largest_first():
    strategy = LongTerm(period_steps=2, least_gain=0.05)
    places, moves = run(strategy, LOADS, [1, 1, 1, 0], 7, max_moves=1)
    # Largest first: 9 to r0, 8 and 3 to r1, 2 to r0; only 9 is not there yet.
    assert moves == [0, 0, 1, 0, 0, 0, 0]
    assert places[-1] == [0, 1, 1, 0]
    strategy = LongTerm(period_steps=2, least_gain=0.05)
    places, moves = run(strategy, [9, 8, 7, 6, 1, 1], [0, 0, 0, 0, 0, 0], 7, max_moves=1)
    assert moves == [0, 0, 1, 1, 1, 0, 0]
    assert places[2] == [0, 1, 0, 0, 0, 0]


def test_too_small_a_gain_is_not_worth_the_moves():
    load, place = [10, 10.2], [0, 0]
    assert run(LongTerm(period_steps=1, least_gain=2.1), load, place, 3)[1] == [0, 0, 0]  # 20.2 - 0.2 of 10.1 is 1.98
    assert run(LongTerm(period_steps=1, least_gain=1.9), load, place, 3)[1] == [0, 1, 0]


def test_names_of_routers_alone_are_no_reason_to_move():
    # As good as can be already, though Algorithm 1 would begin with the first router.
    assert run(LongTerm(period_steps=1, least_gain=0.0), LOADS, [1, 0, 0, 1], 3)[1] == [0, 0, 0]
    assert run(LongTerm(period_steps=1, least_gain=None), LOADS, [1, 0, 0, 1], 3)[1] == [0, 4, 0]


def test_a_router_that_joins_begins_a_period():
    strategy = LongTerm(period_steps=100, least_gain=0.05)
    run(strategy, LOADS, [0, 1, 1, 0], 2)
    one = cluster(LOADS, [0, 1, 1, 0], past=[LOADS, LOADS], capacity=(1, 1, 1))
    place = after(one, strategy.step(one, 10))
    assert sorted(carried(one, place)) == [5, 8, 9]


def test_topics_of_a_dead_router_go_by_their_loads_and_new_ones_count_as_average():
    strategy = LongTerm(period_steps=100, least_gain=0.05)
    run(strategy, [9, 8, 3, 2, 0], [0, 1, 1, 0, NOWHERE], 2)
    load = [9, 8, 3, 2, 90]
    one = cluster(load, [0, NOWHERE, NOWHERE, 0, NOWHERE], past=[[9, 8, 3, 2, 0]] * 2, orphaned={1: "r1", 2: "r1"})
    decided = strategy.place(one)
    assert decided.orphans == {"t01": "r1", "t02": "r1"}  # as it came back: where they belong
    gone = cluster(load, [0, NOWHERE, NOWHERE, 0, NOWHERE], past=[[9, 8, 3, 2, 0]] * 2, orphaned={1: "x", 2: "x"})
    strategy = LongTerm(period_steps=100, least_gain=0.05)
    decided = strategy.place(gone)
    assert decided.orphans == {"t01": "r1", "t02": "r1"}  # 8 beside 11, then 3 beside 8
    assert decided.new == {"t04": "r0"}  # 11 and 11 at the last step: the first of equals
    assert decided.why[0].startswith("1 new topic: each as an average topic")


def test_a_topic_that_was_away_for_a_while_comes_back_to_where_it_belongs():
    strategy = LongTerm(period_steps=100, least_gain=0.05)
    run(strategy, LOADS, [0, 1, 1, 0], 2)
    away = cluster([9, 0, 3, 2], [0, NOWHERE, 1, 0], past=[LOADS, LOADS])
    strategy.step(away, 10)
    back = cluster(LOADS, [0, NOWHERE, 1, 0], past=[LOADS, LOADS, np.array([9.0, 0, 3, 2])])
    assert strategy.place(back).new == {"t01": "r1"}


def test_new_topics_beside_nothing_fill_routers_by_their_capacity():
    strategy = LongTerm(period_steps=100, least_gain=0.05)
    one = cluster([1, 50, 7, 3, 9, 2], past=[[0] * 6], capacity=(2, 1))
    place = after(one, strategy.place(one))
    assert np.bincount(place).tolist() == [4, 2]


def test_what_was_placed_since_the_last_step_counts_for_what_comes_next():
    strategy = LongTerm(period_steps=100, least_gain=0.05)
    one = cluster([5, 6, 4, 2, 3], [0, 1, 0, NOWHERE, NOWHERE], past=[[5, 6, 0, 0, 0]])
    # 5 + 4 and 6: as average topics, of 5, one goes to r1 and, as the first of equals, one to r0.
    assert strategy.place(one).new == {"t03": "r1", "t04": "r0"}
