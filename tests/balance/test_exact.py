"""What HiGHS proves, against every possible placement; and that nothing else is better."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loads_made import NOWHERE, free, one_step

from firelane.balance import balance
from firelane.balance.cases import day
from firelane.balance.exact import exact, fewest_moves, least_difference, reach
from firelane.balance.loads import Loads
from firelane.balance.window import forced
from firelane.errors import FirelaneError

few = settings(max_examples=25)


@few
@given(one_step, st.integers(1, 3))
def test_the_least_difference_is_that_of_the_best_of_all_placements(load, brokers):
    proof = least_difference(load, brokers)
    assert proof.proved
    assert proof.value == pytest.approx(brute_force.least(load, brokers), abs=1e-6)
    assert proof.value == brute_force.difference(load, proof.place, brokers)
    assert proof.bound == pytest.approx(proof.value, abs=1e-5)


@few
@given(one_step, st.integers(2, 3))
def test_equation_3_is_at_its_minimum(load, brokers):
    proof = least_difference(load, brokers, pairwise=True)
    assert proof.value == pytest.approx(brute_force.least(load, brokers, brute_force.pairwise), abs=1e-6)
    assert proof.value == pytest.approx(brute_force.pairwise(load, proof.place, brokers))


@few
@given(one_step, st.integers(2, 3), st.floats(1, 60), st.data())
def test_the_fewest_moves_are_those_of_the_best_of_all_placements(load, brokers, slack, data):
    start = np.array(data.draw(st.lists(st.integers(0, brokers - 1), min_size=len(load), max_size=len(load))))
    at_most = brute_force.least(load, brokers) + slack
    proof = fewest_moves(load, start, brokers, at_most)
    assert proof.proved
    assert proof.value == proof.bound == brute_force.fewest_moves(load, start, brokers, at_most)
    assert brute_force.difference(load, proof.place, brokers) <= at_most + 1e-6


def test_topics_that_are_new_are_placed_free_of_charge():
    proof = fewest_moves(np.array([5.0, 5, 4, 4]), np.array([0, 1, NOWHERE, NOWHERE]), 2, 0)
    assert proof.value == 0
    assert sorted(proof.place[2:].tolist()) == [0, 1]


def test_a_balance_that_nothing_reaches_is_refused():
    with pytest.raises(FirelaneError, match="no placement has so small a load difference"):
        fewest_moves(np.array([5.0, 3]), np.array([0, 1]), 2, 1)


def test_a_proof_that_takes_too_long_is_not_claimed():
    random = np.random.default_rng(1)
    proof = least_difference(random.lognormal(0, 1, 60), 7, time_limit_s=0.2)
    assert not proof.proved
    assert proof.bound < proof.value


def test_steps_follow_on_each_other_when_moves_are_counted():
    load = np.array([[6.0, 5, 2, 1], [6, 1, 2, 5]])
    placed, proved = exact(load, free(4), 2, objective="moves", limit=np.array([0.0, 0.0]), time_limit_s=10)
    assert proved
    assert np.count_nonzero(placed[0] != placed[1]) == 2
    assert [brute_force.difference(one, place, 2) for one, place in zip(load, placed, strict=True)] == [0, 0]


@pytest.mark.parametrize("tail", ["light", "heavy"])
def test_no_other_method_has_a_smaller_difference_at_any_step(tail):
    whole = day(topics=12, tail=tail, seed=3, steps=600)
    loads = Loads(topics=whole.topics, times_s=whole.times_s[::120], load=whole.load[::120])
    best = balance(loads, brokers=3, method="exact")
    assert best.proved
    for method in ("bounded-moves", "long-term", "long-term-causal", "threshold", "greedy", "naive-move"):
        other = balance(loads, brokers=3, method=method)
        assert np.all(best.score.difference <= other.score.difference + 1e-6), method


@pytest.mark.slow
def test_ours_needs_at_most_twice_the_fewest_moves_of_a_hundred_topics():
    """From one hour's placement to another's balance, wherever the fewest are proved."""
    ratios = []
    for seed in range(1, 5):
        for tail in ("light", "heavy"):
            load = day(topics=100, tail=tail, seed=seed).load
            for before, now in ((0, 300), (400, 500), (600, 620)):
                start = balance(one_of(load[before]), brokers=3, method="greedy").placed[0]
                for share in (0.1, 0.02, 0.005):
                    ratios += compared(load[now], start, 3, share)
    assert len(ratios) >= 40
    assert max(ratios) <= 2
    assert np.mean(ratios) <= 1.25


def one_of(load):
    return Loads(topics=tuple(map(str, range(len(load)))), times_s=np.array([0]), load=load[None, :])


def compared(load, start, brokers, share):
    """Our moves to the fewest, if there are any and they are proved."""
    floor, ceiling = forced(load, brokers)
    at_most = ceiling - floor + share * load.sum() / brokers
    try:
        proof = fewest_moves(load, start, brokers, at_most, time_limit_s=3)
    except FirelaneError:
        return []
    place, carried = reach(load, start, brokers, at_most)
    ours = np.count_nonzero((place != start) & (start != NOWHERE) & (load > 0))
    if not proof.proved or proof.value == 0:
        return []
    assert np.ptp(carried) <= at_most * (1 + 1e-9)
    return [ours / proof.value]
