"""Utility curves against their formulas."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.scenario import Need
from firelane.scenario.utility import NeedTable, utilities

CONCAVE = [
    Need(weight=2.0),
    Need(utility="linear", weight=3.0),
    Need(utility="saturating"),
    Need(utility="saturating", knee=0.05, weight=0.5),
    Need(utility="piecewise", weight=4.0, points=((0.0, 0.0), (0.3, 0.8), (1.0, 1.0))),
]
STEP = Need(utility="step", weight=5.0)

shares = st.floats(min_value=0, max_value=1)


def value(need: Need, share: float) -> float:
    return float(utilities([need]).value(np.array([share]))[0])


@pytest.mark.parametrize(
    ("need", "share", "expected"),
    [
        (Need(weight=2.0), 0.5, 2 * math.log(1.5)),  # firedex Eq. 8
        (Need(weight=2.0), 1.0, 2 * math.log(2)),
        (Need(utility="linear", weight=3.0), 0.25, 0.75),
        (Need(utility="saturating", knee=0.5), 0.5, (1 - math.exp(-1)) / (1 - math.exp(-2))),
        (Need(utility="saturating", weight=7.0), 1.0, 7.0),
        (STEP, 0.89, 0.0),
        (STEP, 0.9, 5.0),
        (Need(utility="step", knee=0.5), 0.5, 1.0),
        (Need(utility="piecewise", weight=2.0, points=((0.0, 0.0), (0.5, 0.8), (1.0, 1.0))), 0.25, 0.8),
        (Need(utility="piecewise", weight=2.0, points=((0.0, 0.0), (0.5, 0.8), (1.0, 1.0))), 0.75, 1.8),
        (Need(weight=0.0), 1.0, 0.0),
    ],
)
def test_a_curve_has_the_value_of_its_formula(need, share, expected):
    assert value(need, share) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("need", [*CONCAVE, STEP])
def test_nothing_delivered_is_worth_nothing(need):
    assert value(need, 0.0) == 0.0


@pytest.mark.parametrize("need", [*CONCAVE, STEP])
@given(first=shares, second=shares)
def test_more_delivered_is_never_worth_less(need, first, second):
    low, high = sorted((first, second))
    assert value(need, low) <= value(need, high) + 1e-12


@pytest.mark.parametrize("need", CONCAVE)
@given(first=shares, second=shares, between=shares)
def test_all_but_the_step_are_concave(need, first, second, between):
    chord = between * value(need, first) + (1 - between) * value(need, second)
    assert value(need, between * first + (1 - between) * second) >= chord - 1e-12


@pytest.mark.parametrize("need", [*CONCAVE, STEP])
@given(share=shares)
def test_everything_delivered_is_worth_the_most(need, share):
    assert value(need, share) <= float(utilities([need]).most[0]) + 1e-12


@given(st.lists(st.sampled_from([*CONCAVE, STEP]), max_size=12), st.integers(min_value=0))
def test_many_curves_at_once_are_the_single_ones(needs, seed):
    x = np.random.default_rng(seed).random(len(needs))
    np.testing.assert_allclose(utilities(needs).value(x), [value(n, s) for n, s in zip(needs, x, strict=True)])


def test_a_table_of_needs_says_of_each_what_it_says_itself():
    kinds = [
        Need(),
        Need(weight=3.0, min_share=0.4),
        Need(tolerance=0.5),
        Need(max_delay_s=0.2, keep="latest", category="x"),
        Need(utility="piecewise", points=((0.0, 0.0), (0.5, 0.9), (1.0, 1.0)), max_loss=0.1),
    ]
    needs = NeedTable(kinds[n] for n in np.random.default_rng(1).integers(0, len(kinds), 40))
    assert needs.least_share.tolist() == [one.least_share for one in needs]
    assert needs.tolerant.tolist() == [one.tolerance is not None for one in needs]
    assert np.nan_to_num(needs.tolerance).tolist() == [one.tolerance or 0.0 for one in needs]
    assert needs.max_delay_s.tolist() == [one.max_delay_s or np.inf for one in needs]
    assert needs.latest.tolist() == [one.keep == "latest" for one in needs]
    assert needs.within("x").tolist() == [one.category == "x" for one in needs]
    share = np.linspace(0.0, 1.0, len(needs))
    assert needs.curves.value(share).tolist() == utilities(needs).value(share).tolist()
