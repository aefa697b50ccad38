from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from firelane.errors import InfeasibleError
from firelane.scenario import from_data
from firelane.tune import tune
from firelane.tune.drops import policy_drop_rates
from firelane.tune.flows import Flows

POLICIES = ("flat", "linear", "exponential")


def _flows(load: list[float], *, least: list[float] | None = None, lane: list[int] | None = None) -> Flows:
    n = len(load)
    return Flows(
        lanes=max(lane or [0]) + 1,
        subscription_flow=np.arange(n),
        subscriber=np.zeros(n, np.int64),
        lane=np.array(lane or [0] * n),
        place=np.arange(n),
        load=np.array(load),
        least_share=np.array(least or [0.0] * n),
        gain=np.ones(n),
    )


def _solved(method, load, classes, allowed, **more):
    return policy_drop_rates(method, _flows(load, **more), np.array(classes), allowed)


def test_flat_drops_the_same_everywhere():
    """Eq. 13: 1.8 (1 - beta) = 0.9."""
    drop_rate, fell_back = _solved("flat", [0.6, 0.6, 0.6], [0, 1, 2], 0.9)
    assert drop_rate == pytest.approx([0.5, 0.5, 0.5], abs=1e-11)
    assert not fell_back.any()


def test_linear_drops_in_proportion_to_the_class():
    """Eq. 14: 0.6 (1 + 1 - beta + 1 - 2 beta) = 0.9, so beta = 0.5 and class 2 is dropped entirely."""
    drop_rate, _ = _solved("linear", [0.6, 0.6, 0.6], [0, 1, 2], 0.9)
    assert drop_rate == pytest.approx([0, 0.5, 1], abs=1e-11)


def test_exponential_keeps_a_power_of_beta():
    """Eq. 15: 0.4 (1 + b + b^2) = 0.7 for b = 1 / beta = 0.5."""
    drop_rate, _ = _solved("exponential", [0.4, 0.4, 0.4], [0, 1, 2], 0.7)
    assert drop_rate == pytest.approx([0, 0.5, 0.75], abs=1e-11)


def test_clipping_at_the_least_share_is_solved_again():
    """The second flow may lose 0.2 only; the third makes up for it: 0.5 (1 + 0.8 + 1 - 2 beta) = 1."""
    drop_rate, _ = _solved("linear", [0.5, 0.5, 0.5], [0, 1, 2], 1.0, least=[0, 0.8, 0])
    assert drop_rate == pytest.approx([0, 0.2, 0.8], abs=1e-11)


def test_a_link_within_the_allowed_load_drops_nothing():
    for method in POLICIES:
        drop_rate, _ = _solved(method, [0.5, 0.4], [0, 1], 0.9)
        assert not drop_rate.any()


@pytest.mark.parametrize("method", ["linear", "exponential"])
def test_a_top_class_that_is_too_much_falls_back_to_flat_on_its_link_only(method):
    load, classes, lane = [1.0, 0.8, 0.5, 1.0], [0, 1, 0, 1], [0, 0, 1, 1]
    drop_rate, fell_back = _solved(method, load, classes, 0.9, lane=lane)
    assert fell_back.tolist() == [True, False]
    assert drop_rate == pytest.approx([0.5, 0.5, 0, 0.6], abs=1e-11)


@pytest.mark.parametrize("method", ["linear", "exponential"])
def test_least_shares_in_lower_classes_can_force_flat_too(method):
    """Class 1 may lose 0.3 at most, so class 0 must lose some as well: 2 - 0.3 - beta = 1.2."""
    drop_rate, fell_back = _solved(method, [1.0, 1.0], [0, 1], 1.2, least=[0, 0.7])
    assert fell_back.all()
    assert drop_rate == pytest.approx([0.5, 0.3], abs=1e-11)


SYSTEMS = st.lists(
    st.tuples(st.floats(1e-6, 1), st.integers(0, 8), st.floats(0, 0.5)), min_size=2, max_size=30
).flatmap(lambda rows: st.tuples(st.just(rows), st.floats(0.55, 1.1)))


@given(SYSTEMS, st.sampled_from(POLICIES))
def test_drop_rates_follow_their_equation_where_unclipped_and_fill_the_link(system, method):
    rows, part = system
    load, klass, least = (np.array(column) for column in zip(*rows, strict=True))
    allowed = float(load.sum() * part)
    drop_rate, fell_back = _solved(method, load.tolist(), klass.tolist(), allowed, least=least.tolist())
    used = float(np.sum(load * (1 - drop_rate)))
    assert used <= allowed
    assert np.all(drop_rate <= 1 - least)
    if load.sum() > allowed:
        assert used == pytest.approx(allowed, rel=1e-9)
    level = klass if method != "flat" and not fell_back[0] else np.ones(len(klass))
    expected = np.minimum(1 - least, _equation(method, level, _beta(method, level, load, 1 - least, allowed)))
    assert drop_rate == pytest.approx(expected, abs=1e-7)


def _equation(method, level, beta):
    return 1 - (1 + beta) ** -level.astype(float) if method == "exponential" and level.max() > 1 else beta * level


def _beta(method, level, load, most, allowed):
    """By Brent's method, on the equation as printed (exponential: beta - 1)."""

    def excess(beta):
        return float(np.sum(load * (1 - np.minimum(most, _equation(method, level, beta))))) - allowed

    high = 1.0
    while excess(high) > 0 and high < 1e300:
        high *= 4
    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14))


def _overloaded(**need):
    return from_data(
        {
            "name": "tight",
            "topics": {"a": {"size": "100 B"}, "b": {"size": "100 B"}},
            "links": {"thin": {"bandwidth": "8 kbps", "overhead": 0, "pace": 1}},
            "publishers": {"p": {"publishes": {"a": "8 Hz", "b": "8 Hz"}}},
            "subscribers": {"s": {"link": "thin", "subscribes": {"a": need, "b": {}}}},
            "headroom": 0.25,
        }
    )


@pytest.mark.parametrize("drops", [*POLICIES, "optimised"])
def test_least_shares_that_do_not_fit_are_refused_in_one_line(drops):
    with pytest.raises(InfeasibleError) as problem:
        tune(_overloaded(min_share=0.95), drops=drops)
    assert problem.value.link == "thin"
    assert problem.value.needed_load == pytest.approx(0.76)
    assert problem.value.allowed_load == pytest.approx(0.75)
    assert "need load 0.760" in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("drops", [*POLICIES, "optimised"])
def test_least_shares_that_just_fit_are_kept_and_the_rest_is_dropped(drops):
    plan = tune(_overloaded(min_share=0.9375), drops=drops)
    assert plan.flow_drop_rate == pytest.approx([0.0625, 1], abs=1e-9)


def test_without_drops_nothing_is_refused():
    plan = tune(_overloaded(min_share=0.95), drops="none")
    assert not plan.flow_drop_rate.any()
    assert any("its queue will overflow" in line for line in plan.why)
