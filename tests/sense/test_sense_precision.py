"""The publisher's controller on plants with a known answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.errors import FirelaneError
from firelane.sense.precision import SATURATED_ERROR, SHIPPED, Gains, PrecisionController


def controller(**changed) -> PrecisionController:
    return PrecisionController(**({"target": 0.7, "gamma": 1.0, "gamma_min": 1e-3, "gamma_max": 1e3} | changed))


def surge(
    keep: PrecisionController, *, beta: float, idle: float, kick: float = 0.0, noise: float = 0.02, seed: int = 1
):
    """Loads of n c1 gamma^-beta + c0; the number n triples at sample 20. A change acts `kick` more at first."""
    draw = np.random.default_rng(seed)
    loads, before, fresh = [], 0.0, 0.0
    for sample in range(45):
        now = math.log(keep.gamma)
        fresh, before = 0.3 * fresh + (now - before), now
        demand = idle + (0.7 - idle) * (1 if sample < 20 else 3) * math.exp(-beta * now - kick * fresh)
        loads.append(min(demand, 1.0))
        keep.sample(5.0 * sample, loads[-1] * (1 + noise * draw.standard_normal()))
    return np.array(loads)


@pytest.mark.parametrize("beta", [1.0, 1.5, 2.0, 2.5])
@pytest.mark.parametrize("idle", [0.0, 0.1, 0.2])
@pytest.mark.parametrize("kick", [0.0, 1.0, 2.0])
def test_one_pair_of_gains_settles_many_plants_in_five_samples_after_a_surge(beta, idle, kick):
    means = np.array([surge(controller(), beta=beta, idle=idle, kick=kick, seed=seed) for seed in range(8)]).mean(
        axis=0
    )
    assert means[20] == pytest.approx(1.0)
    assert means[25:30].mean() == pytest.approx(0.7, abs=0.05)
    assert means[30:].mean() == pytest.approx(0.7, abs=0.03)


def test_a_load_well_above_target_is_answered_twice_as_fast_as_one_below():
    keep = controller()
    assert keep.error(0.74) == pytest.approx(-keep.error(0.66))
    assert keep.error(0.85) > 2 * -keep.error(0.55)
    assert keep.error(1.0) == pytest.approx(SATURATED_ERROR)


@pytest.mark.parametrize("beta", [0.5, 0.75])
@pytest.mark.parametrize("kick", [0.0, 1.0, 2.0])
def test_plants_that_hardly_answer_take_longer_but_get_there(beta, kick):
    means = np.array([surge(controller(), beta=beta, idle=0.1, kick=kick, seed=seed) for seed in range(8)]).mean(axis=0)
    assert means[25:30].mean() == pytest.approx(0.7, abs=0.15)
    assert means[35:].mean() == pytest.approx(0.7, abs=0.05)


def test_before_and_after_a_surge_the_loop_is_the_same_as_log_gamma_sees_it():
    """Small disturbances die out alike at any number of sensors, though gamma differs by the factor."""
    answers = []
    for sensors in (1.0, 3.0, 30.0):
        keep = controller(gamma=sensors)  # where beta = 1 has the load on target
        loads = []
        for sample in range(12):
            loads.append(0.7 * sensors / keep.gamma * (1.05 if sample == 0 else 1.0))
            keep.sample(5.0 * sample, loads[-1])
        answers.append(loads)
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-9)
    np.testing.assert_allclose(answers[2], answers[0], rtol=1e-9)


def test_one_step_is_equation_seven():
    keep = controller(gains=Gains(proportional=0.3, integral=0.5, smoothing=0.0))
    first, second = (0.74 - 0.7) / 0.7, (0.6 - 0.7) / 0.7
    assert keep.sample(0.0, 0.74) == pytest.approx(math.exp(0.8 * first))
    assert keep.sample(5.0, 0.6) == pytest.approx(math.exp(0.8 * first + 0.8 * second - 0.3 * first))


def test_nothing_winds_up_at_a_limit():
    keep = controller(gamma_max=2.0)
    for sample in range(200):
        keep.sample(5.0 * sample, 1.0)
    assert keep.gamma == 2.0
    assert keep.at_limit
    assert keep.sample(1000.0, 0.3) < 2.0  # at once: what was asked for in vain is forgotten
    assert not keep.at_limit


def test_it_starts_where_it_is_told_and_stays_there_while_the_load_is_on_target():
    assert PrecisionController(target=0.5, gamma_max=4.0).gamma == 4.0
    keep = controller(gamma=0.37)
    assert [keep.sample(5.0 * sample, 0.7) for sample in range(5)] == [0.37] * 5


def test_a_new_target_acts_from_the_next_sample_on():
    keep = controller()
    keep.sample(0.0, 0.7)
    keep.target = 0.35
    assert keep.gamma == 1.0
    relative = (0.45 - 0.35) / 0.35
    assert keep.sample(5.0, 0.45) == pytest.approx(math.exp(SHIPPED.integral * (1 - SHIPPED.smoothing) * relative))


def test_between_samples_nothing_changes_and_a_clock_that_was_set_back_is_borne():
    keep = controller()
    after = keep.sample(100.0, 0.9)
    assert keep.sample(102.0, 0.1) == after
    assert not keep.due(104.0)
    assert keep.due(104.9)
    assert keep.due(3.0)
    assert keep.sample(3.0, 0.9) > after


@pytest.mark.parametrize("load", [math.nan, math.inf, -math.inf, -0.1])
def test_a_load_that_is_none_changes_nothing_and_is_counted(load):
    keep = controller()
    keep.sample(0.0, 0.9)
    before = keep.gamma
    assert keep.sample(5.0, load) == before
    assert keep.ignored == 1


def test_a_load_over_one_counts_for_what_it_is_up_to_three_times_the_target():
    keep = controller()
    assert keep.error(1.75) == pytest.approx(1.5)
    assert keep.error(1e9) == 2.0
    assert keep.error(1.0) == 1.2
    assert keep.error(0.0) == -1.0


@given(st.floats(0.01, 0.95), st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_a_higher_load_never_counts_for_less(target, one, other):
    keep = controller(target=target)
    assert keep.error(min(one, other)) <= keep.error(max(one, other)) + 1e-12


def test_from_the_finest_precision_a_surge_is_answered_within_three_samples():
    """A measured fire keeps a device below its target for minutes, and after a surge needs a delta of 0.24."""
    keep = PrecisionController(target=0.7, gamma_max=1.0)
    for sample in range(100):
        keep.sample(5.0 * sample, 0.54)
    assert keep.at_limit
    for sample in range(100, 103):
        keep.sample(5.0 * sample, 1.0)
    assert 0.24 <= keep.gamma < 0.5


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40))
def test_gamma_stays_in_its_limits_whatever_is_measured(loads):
    keep = controller(gamma_min=0.5, gamma_max=2.0)
    for sample, load in enumerate(loads):
        assert 0.5 <= keep.sample(5.0 * sample, load) <= 2.0


@pytest.mark.parametrize(
    "wrong",
    [{"target": 0.0}, {"target": 0.99}, {"target": math.nan}, {"gamma": 5e3}, {"gamma_min": 0.0}, {"period_s": 0.0}],
)
def test_what_cannot_be_controlled_is_refused(wrong):
    with pytest.raises(FirelaneError):
        controller(**wrong)


def test_gains_that_do_not_control_are_refused():
    with pytest.raises(FirelaneError, match="do not control"):
        Gains(proportional=0.0, integral=0.0)
    with pytest.raises(FirelaneError, match="do not control"):
        Gains(proportional=math.nan, integral=0.5)
