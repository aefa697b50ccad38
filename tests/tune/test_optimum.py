from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tune_cases import CONCAVE, best_value, random_need

from firelane.scenario.model import Need
from firelane.scenario.utility import utilities
from firelane.tune.curves import curves, envelope_value
from firelane.tune.optimise import dual, optimal_shares


def _need(**data: Any) -> Need:
    if "points" in data:
        data["points"] = tuple(map(tuple, data["points"]))
    return Need(**data)


def _problem(seed: int, kinds: tuple[str, ...]) -> dict[str, Any]:
    """One link, up to 8 flows of one or more members, some with least shares, with or without loss."""
    rng = np.random.default_rng(seed)
    flows, more = int(rng.integers(1, 9)), int(rng.integers(0, 8))
    flow = np.concatenate((np.arange(flows), rng.integers(0, flows, more)))
    load = rng.lognormal(-1, 1.5, flows)
    least = np.where(rng.random(flows) < 0.3, rng.uniform(0, 0.6, flows), 0.0)
    needed = float(np.sum(load * least))
    return {
        "needs": [_need(**random_need(rng, kinds)) for _ in flow],
        "flow": flow,
        "load": load,
        "least": least,
        "gain": 1.0 if rng.random() < 0.5 else float(rng.uniform(0.5, 1)),
        "allowed": needed + float(rng.uniform(0.02, 0.98)) * (float(load.sum()) - needed),
    }


def _shares(needs, flow, *, load, least, gain, allowed) -> np.ndarray:
    lane = np.zeros(len(load), np.int64)
    return optimal_shares(
        utilities(needs), flow, lane=lane, load=load, least=least, gain=np.full(len(load), gain), allowed=allowed
    )


def _value(problem: dict[str, Any], share: np.ndarray) -> float:
    success = problem["gain"] * share[problem["flow"]]
    return float(envelope_value(utilities(problem["needs"]), success).sum())


def _check_feasible(problem: dict[str, Any], share: np.ndarray) -> None:
    assert np.sum(problem["load"] * share) <= problem["allowed"]
    assert np.all(share >= problem["least"])
    assert np.all(share <= 1)


@pytest.mark.parametrize(
    "kinds",
    [("log",), ("linear",), ("saturating",), ("piecewise",), CONCAVE, ("log", "linear"), ("log", "saturating")],
    ids=", ".join,
)
@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_cvxpy(seed, kinds):
    problem = _problem(seed, kinds)
    share = _shares(**problem)
    _check_feasible(problem, share)
    assert _value(problem, share) == pytest.approx(best_value(**problem), rel=1e-7)


@pytest.mark.parametrize("seed", range(12))
def test_steps_are_optimised_as_their_envelope(seed):
    problem = {**_problem(seed, (*CONCAVE, "step", "step")), "gain": 1.0}
    share = _shares(**problem)
    _check_feasible(problem, share)
    assert _value(problem, share) == pytest.approx(best_value(**problem), rel=1e-7)


def test_a_thousand_subscriptions_are_as_good_as_cvxpys():
    rng = np.random.default_rng(5)
    needs = [_need(**random_need(rng, ("log",))) for _ in range(1000)]
    load = rng.lognormal(0, 1, 1000)
    load *= 1.7 / load.sum()
    least = np.where(rng.random(1000) < 0.1, 0.2, 0.0)
    problem = {"needs": needs, "flow": np.arange(1000), "load": load, "least": least, "gain": 0.9, "allowed": 0.9}
    share = _shares(**problem)
    _check_feasible(problem, share)
    assert _value(problem, share) == pytest.approx(best_value(**problem), rel=1e-7)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kinds", [("log",), CONCAVE], ids=", ".join)
def test_no_point_of_a_fine_grid_is_better(seed, kinds):
    """Brute force: two flows that fill the link, every split of it."""
    rng = np.random.default_rng(seed)
    needs = [_need(**random_need(rng, kinds)) for _ in range(2)]
    load = rng.uniform(0.5, 1.5, 2)
    problem = {"needs": needs, "flow": np.arange(2), "load": load, "least": np.zeros(2), "gain": 1.0, "allowed": 0.8}
    first = np.linspace(0, min(1.0, 0.8 / load[0]), 2001)
    second = np.clip((0.8 - load[0] * first) / load[1], 0, 1)
    best = max(_value(problem, np.array(pair)) for pair in zip(first, second, strict=True))
    assert best * (1 - 1e-10) <= _value(problem, _shares(**problem)) <= best * (1 + 1e-3)


def test_water_filling_of_two_flows_by_hand():
    """Load 1 each; slopes a / (1 + x) = b / (1 + y) on x + y = capacity, unless that needs x above 1."""
    one = {"flow": np.arange(2), "load": np.ones(2), "least": np.zeros(2), "gain": 1.0}
    needs = [Need(weight=3), Need(weight=1)]  # x = 5/4 at capacity 1: all to the first
    assert _shares(needs, **one, allowed=1.0) == pytest.approx([1, 0], abs=1e-11)
    assert _shares(needs, **one, allowed=1.5) == pytest.approx([1, 0.5], abs=1e-11)
    needs = [Need(weight=5), Need(weight=4)]  # 5 (1 + y) = 4 (1 + x)
    assert _shares(needs, **one, allowed=1.5) == pytest.approx([17 / 18, 5 / 9], abs=1e-11)


def test_equal_linear_flows_share_what_is_left_evenly():
    needs = [Need(utility="linear", weight=2)] * 4
    share = _shares(needs, np.arange(4), load=np.ones(4), least=np.zeros(4), gain=1.0, allowed=1.0)
    assert share == pytest.approx(np.full(4, 0.25), abs=1e-11)


def test_what_is_worth_nothing_gets_what_nobody_else_wants():
    for other in (Need(weight=1), Need(utility="linear"), Need(utility="step", knee=0.5)):
        needs = [other, Need(weight=0), Need(utility="linear", weight=0)]
        share = _shares(needs, np.arange(3), load=np.ones(3), least=np.zeros(3), gain=1.0, allowed=2.0)
        assert share.sum() == pytest.approx(2, abs=1e-9)
        assert share[0] >= (0.5 if other.utility == "step" else 1 - 1e-9)


def test_a_step_that_link_loss_puts_out_of_reach_takes_no_capacity():
    needs = [Need(utility="step", knee=0.9, weight=100), Need(weight=1)]
    share = _shares(needs, np.arange(2), load=np.ones(2), least=np.zeros(2), gain=0.8, allowed=0.9)
    assert share == pytest.approx([0, 0.9], abs=1e-9)


def test_a_link_that_loses_everything_is_shared_out_all_the_same():
    share = _shares([Need(), Need()], np.arange(2), load=np.ones(2), least=np.zeros(2), gain=0.0, allowed=1.0)
    assert share == pytest.approx([0.5, 0.5], abs=1e-9)


def test_flows_without_load_and_links_with_room_keep_everything():
    needs = [Need(), Need(utility="linear"), Need(weight=0), Need()]
    share = optimal_shares(
        utilities(needs),
        np.arange(4),
        lane=np.array([0, 0, 1, 1]),
        load=np.array([0.0, 2.0, 0.4, 0.5]),
        least=np.zeros(4),
        gain=np.ones(4),
        allowed=0.9,
    )
    assert share == pytest.approx([1, 0.45, 1, 1], abs=1e-11)


@given(st.integers(0, 10**6), st.sampled_from([("log",), CONCAVE, (*CONCAVE, "step")]))
def test_shares_never_exceed_capacity_or_their_bounds(seed, kinds):
    problem = _problem(seed, kinds)
    _check_feasible(problem, _shares(**problem))


@given(st.integers(0, 10**6), st.sampled_from([("log",), CONCAVE]), st.floats(1, 2))
def test_more_capacity_never_lowers_the_utility(seed, kinds, factor):
    problem = _problem(seed, kinds)
    more = {**problem, "allowed": problem["allowed"] * factor}
    assert _value(more, _shares(**more)) >= _value(problem, _shares(**problem)) * (1 - 1e-10)


@given(st.integers(0, 10**6))
def test_the_dual_finds_the_same_as_water_filling(seed):
    problem = _problem(seed, ("log",))
    flows = len(problem["load"])
    curve = curves(
        utilities(problem["needs"]),
        problem["flow"],
        load=problem["load"],
        least=problem["least"],
        gain=np.full(flows, problem["gain"]),
    )
    share = np.ones(flows)
    dual(np.array([0, flows]), np.array([True]), curve, problem["allowed"], share)
    assert _value(problem, share) == pytest.approx(_value(problem, _shares(**problem)), rel=1e-10)


@pytest.mark.parametrize("kinds", [("log",), (*CONCAVE, "step")], ids=", ".join)
def test_many_links_at_once_are_each_solved_alone(kinds):
    problems = [_problem(seed, kinds) for seed in range(40)]
    alone = [_shares(**{**p, "load": p["load"] / p["allowed"], "allowed": 1.0}) for p in problems]
    starts = np.cumsum([0] + [len(p["load"]) for p in problems])
    order = np.random.default_rng(0).permutation(starts[-1])  # flows in any order
    lane = np.repeat(np.arange(len(problems)), np.diff(starts))[order]
    where = np.argsort(order)
    together = optimal_shares(
        utilities([need for p in problems for need in p["needs"]]),
        np.concatenate([where[start + p["flow"]] for p, start in zip(problems, starts, strict=False)]),
        lane=lane,
        load=np.concatenate([p["load"] / p["allowed"] for p in problems])[order],
        least=np.concatenate([p["least"] for p in problems])[order],
        gain=np.array([p["gain"] for p in problems])[lane],
        allowed=1.0,
    )
    assert together[where] == pytest.approx(np.concatenate(alone), abs=1e-9)
