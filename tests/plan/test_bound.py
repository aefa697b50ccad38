"""No plan in a box costs less than the bound says, and for one vector of drop rates it is the best order's cost."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from random_problems import some_problem

from firelane.plan.bound import Box, best_order, bounds_of, is_exact, stream_groups
from firelane.plan.sets import set_costs


def bound_of(problem, box):
    streams = problem.plans.streams
    violated, late = set_costs(streams, stream_groups(streams), bounds_of(problem.wanted), box)
    missed, slow, order = best_order(violated, late)
    return (missed, slow), np.argsort(order)


@pytest.mark.parametrize("seed", range(40))
def test_no_plan_in_a_box_is_cheaper_than_its_bound(seed):
    problem = some_problem(seed, categories=4, links=1 + seed % 2, subscribers=6)
    assert is_exact(problem.plans.streams)
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.uniform(0, 0.9, (2, 4)), axis=0)
    bound, _ = bound_of(problem, Box(least=ends[0], most=ends[1]))
    rank = np.array([rng.permutation(4) for _ in range(400)])
    drops = rng.uniform(ends[0], ends[1], (400, 4))
    drops[:20], drops[20:40] = ends[0], ends[1]
    cheapest = min(tuple(row[:2]) for row in problem.costs(rank, drops).tolist())
    assert bound <= cheapest


@pytest.mark.parametrize("seed", range(30))
def test_without_choice_of_drops_it_is_the_cost_of_the_best_order(seed):
    problem = some_problem(seed, categories=4, load=0.7 + 0.01 * (seed % 25), links=1 + seed % 3, subscribers=6)
    drops = np.random.default_rng(seed).uniform(0, 0.6, 4)
    bound, rank = bound_of(problem, Box(least=drops, most=drops))
    orders = np.array([np.argsort(order) for order in permutations(range(4))])
    every = problem.costs(orders, np.tile(drops, (24, 1)))
    assert bound == min(tuple(row[:2]) for row in every.tolist())
    cost = problem.cost(rank, drops)
    assert (cost.violated, cost.late_millionths) == bound


@pytest.mark.parametrize("seed", range(30))
def test_on_links_that_saturate_it_is_below_every_order(seed):
    problem = some_problem(seed, categories=4, load=1.2 + 0.1 * (seed % 8), links=1 + seed % 2, subscribers=6)
    drops = np.random.default_rng(seed).uniform(0, 0.2, 4)
    bound, _ = bound_of(problem, Box(least=drops, most=drops))
    orders = np.array([np.argsort(order) for order in permutations(range(4))])
    every = problem.costs(orders, np.tile(drops, (24, 1)))
    assert bound <= min(tuple(row[:2]) for row in every.tolist())


def test_it_is_said_where_the_bound_does_not_hold():
    assert not is_exact(some_problem(0, stages=True).plans.streams)
    assert not any(is_exact(some_problem(seed, categories=3, overlaps=True).plans.streams) for seed in range(5, 8))
