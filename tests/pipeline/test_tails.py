"""Against samples of known distributions; tolerances are four standard errors of the estimate."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.errors import FirelaneError
from firelane.pipeline.tails import CLOSEST, TOP_5, TOP_10, Sizes, fit, fits, hill, may_be_pareto


def counted(values):
    size, count = np.unique(np.round(values).astype(np.int64), return_counts=True)
    return Sizes(size=size[size > 0], count=count[size > 0])


def pareto(exponent, n, least=10.0, seed=1):
    return counted(least * np.random.default_rng(seed).random(n) ** (-1 / exponent))


def lognormal(mean, deviation, n, seed=2):
    return counted(np.random.default_rng(seed).lognormal(mean, deviation, n))


def test_the_exponent_of_two_sizes_is_what_the_formula_gives():
    sizes = Sizes(size=np.array([2, 8]), count=np.array([3, 1]))
    expected = 4 / (3 * np.log(2 / 1.5) + np.log(8 / 1.5))
    assert hill(sizes, 2) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("exponent", [0.8, 1.16, 2.5])
def test_a_pareto_tail_is_found_wherever_it_begins(exponent):
    made = fits(pareto(exponent, 20_000))
    assert [one.tail for one in made] == [TOP_10, TOP_5, CLOSEST]
    for one in made:
        assert one.exponent == pytest.approx(exponent, abs=4 * one.standard_error + 0.01)
        assert one.distance < 2 / np.sqrt(one.n)
        assert abs(one.log_ratio) < 5  # a lognormal tail that is wide enough is as good
        assert one.by_chance > 0.001
    assert may_be_pareto(made)


def test_shares_say_how_much_of_all_a_tail_is():
    made = {one.tail: one for one in fits(pareto(1.5, 20_000))}
    assert made[TOP_10].share == pytest.approx(0.1, abs=0.01)
    assert made[TOP_5].share == pytest.approx(0.05, abs=0.01)
    assert made[TOP_10].n == round(made[TOP_10].share * 20_000)


def test_a_lognormal_distribution_is_found_and_is_no_pareto_tail():
    made = fits(lognormal(4.0, 0.5, 20_000))
    by_tail = {one.tail: one for one in made}
    assert by_tail[TOP_5].exponent > by_tail[TOP_10].exponent + 2 * by_tail[TOP_5].standard_error
    assert by_tail[TOP_10].lognormal_distance < by_tail[TOP_10].distance
    assert by_tail[TOP_10].log_ratio < 0
    assert by_tail[TOP_10].by_chance < 0.01
    assert not may_be_pareto(made)
    whole = fit(lognormal(4.0, 0.5, 20_000), 1)
    assert whole.lognormal_mean == pytest.approx(4.0, abs=4 * 0.5 / np.sqrt(20_000))
    assert whole.lognormal_deviation == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(40_000))


def test_what_has_an_end_is_no_pareto_tail():
    assert not may_be_pareto(fits(counted(np.random.default_rng(3).uniform(1, 200, 20_000))))


def test_few_sizes_give_few_fits_and_none_an_error():
    assert fits(Sizes(size=np.array([3]), count=np.array([100]))) == []
    assert not may_be_pareto([])
    with pytest.raises(FirelaneError, match="no sizes"):
        Sizes(size=np.array([], np.int64), count=np.array([], np.int64))
