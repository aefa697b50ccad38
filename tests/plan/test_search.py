"""Searching finds what trying every plan with `predict` finds, and says so when it is proved."""

from __future__ import annotations

import numpy as np
import pytest
from every_plan import cheapest, cost_of
from random_problems import some_problem, some_requirements

from firelane.plan.branch import Search, branch_and_bound
from firelane.plan.cost import MILLION, Cost, costs
from firelane.plan.enumerate import enumerate_all
from firelane.plan.search import best_plan, coarse_problem
from firelane.predict.many import many_plans

TIGHTNESS = ((0.5, 4.0), (2.0, 12.0), (5.0, 40.0))


def shape_of(seed):
    return {
        "categories": 1 + seed % 3,
        "tightness": TIGHTNESS[seed % 7 % 3],
        "links": 1 + (seed % 5 == 0),
        "overlaps": seed % 4 == 0,
        "stages": seed % 6 == 0,
        "topics": 4,
        "subscribers": 3,
    }


def same(cost: Cost, expected) -> bool:
    missed, late, dropped = expected
    close = abs(cost.late_millionths / MILLION - late) <= 1e-5 + 1e-9 * late
    return cost.violated == missed and close and cost.dropped_millionths / MILLION == pytest.approx(dropped, abs=1e-5)


@pytest.mark.parametrize("start", range(0, 240, 20))
def test_both_searches_find_the_cheapest_of_all_plans(start):
    for seed in range(start, start + 20):
        problem = some_problem(seed, **shape_of(seed))
        expected = cheapest(problem.wanted, problem.levels)
        tried = enumerate_all(problem)
        assert same(tried.cost, expected), (seed, tried.cost, expected)
        assert tried.proven
        searched = Search(problem)
        found = searched.run(20)
        if searched.holds:
            assert found.cost == tried.cost, seed
            assert found.lower_bound <= tried.cost, seed
        assert found.cost >= tried.cost, seed
        assert not found.proven or found.cost == tried.cost, seed


def test_the_problems_are_of_all_kinds():
    found = [enumerate_all(some_problem(seed, **shape_of(seed))) for seed in range(240)]
    infeasible = sum(one.cost.violated > 0 for one in found)
    drops = [np.count_nonzero(one.drop_rate) for one in found]
    assert 40 <= infeasible <= 200
    assert sum(count >= 2 for count in drops) >= 40
    assert any(one.nothing for one in found)


def test_most_problems_are_proved_by_branch_and_bound():
    proofs = [branch_and_bound(some_problem(seed, categories=4)).proven for seed in range(60)]
    assert np.mean(proofs) > 0.9


def test_the_cost_counts_missed_bounds_then_lateness_then_drops():
    wanted = some_requirements(2, categories=3)
    count = len(wanted.bounds)
    delay = [one.kind != "loss" for one in wanted.bounds]
    just = np.array([[one.bound for one in wanted.bounds]])
    drops = np.array([[0.0, 0.25, 0.5]])
    ((missed, late, dropped),) = costs(wanted, just, drops).tolist()
    assert missed == 0
    assert late == round(MILLION * sum(one.weight for one in wanted.bounds if one.kind != "loss"))
    assert dropped == round(MILLION * (wanted.weight * drops[0]).sum())
    ((missed, late, _),) = costs(wanted, 2 * just + 1e-6, drops).tolist()
    assert missed == count
    ((missed, late, _),) = costs(wanted, np.full((1, count), np.nan), drops).tolist()
    assert missed == count
    assert late == round(1000 * MILLION * sum(one.weight for one in np.array(wanted.bounds)[delay]))
    assert Cost(violated=0, late_millionths=9, dropped_millionths=9) < Cost(
        violated=1, late_millionths=0, dropped_millionths=0
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_finer_grid_is_never_worse_and_its_plan_costs_what_it_says(seed):
    wanted = some_requirements(seed, categories=3, tightness=TIGHTNESS[seed % 3])
    plans = many_plans(wanted.routes, wanted.group)
    _, rough = coarse_problem(wanted, plans, seconds=10)
    problem, fine = best_plan(wanted, plans)
    assert fine.cost <= rough.cost
    assert same(fine.cost, cost_of(wanted, fine.rank, fine.drop_rate))
    assert all(rate in levels for rate, levels in zip(fine.drop_rate.tolist(), problem.levels, strict=True))
    assert not fine.drop_rate[wanted.intolerant].any()


@pytest.mark.slow
@pytest.mark.parametrize("tightness", TIGHTNESS)
def test_twelve_categories_have_a_lower_bound_that_holds(tightness):
    wanted = some_requirements(1, categories=12, subscribers=24, topics=12, tightness=tightness)
    plans = many_plans(wanted.routes, wanted.group)
    problem, found = best_plan(wanted, plans)
    assert found.lower_bound <= found.cost
    rng = np.random.default_rng(3)
    rank = np.array([rng.permutation(12) for _ in range(2000)])
    drops = np.array([[rng.choice(levels) for levels in problem.levels] for _ in range(2000)])
    chance = min(Cost.of(row) for row in problem.costs(rank, drops))
    assert found.cost <= chance
    assert found.lower_bound <= chance


def test_a_search_that_is_stopped_has_a_lower_bound_and_no_proof():
    problem = some_problem(5, categories=9, subscribers=9, tightness=(1.0, 3.0))
    stopped, whole = branch_and_bound(problem, seconds=0), branch_and_bound(problem)
    assert not stopped.proven
    assert stopped.lower_bound <= whole.cost <= stopped.cost
