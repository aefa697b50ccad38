"""Means that follow a change at once, told by looks whose true values are known."""

import numpy as np
import pytest

from firelane.exchange.measuring.levels import LEVEL, look

WEIGHT = 0.1


def after(seen, noise=0.0):
    """The level after one look after another."""
    levels, first = np.zeros(1, LEVEL), np.array([0])
    changes = [bool(look(levels, first, np.array([one]), np.array([noise]), WEIGHT)[0]) for one in seen]
    return float(levels["value"][0]), changes


@pytest.mark.parametrize("part", [0.3, 0.5, 0.8, 1.0])
def test_a_jump_is_followed_to_its_end_though_the_first_look_saw_only_part_of_it(part):
    seen = [250.0] * 20 + [250 + 500 * part, 750.0]
    value, changes = after(seen, noise=1.0)
    assert changes == [False] * 21 + [True]
    assert value == pytest.approx(750.0, abs=1.0)


def test_two_looks_that_differ_by_chance_are_averaged():
    value, changes = after([100.0] * 20 + [195.0, 205.0], noise=100.0)
    assert changes[-1]
    assert value == pytest.approx(200.0)


def test_a_single_surprise_is_no_change():
    value, changes = after([100.0] * 20 + [300.0] + [100.0] * 2, noise=4.0)
    assert not any(changes)
    assert value < 125


def test_of_a_jump_the_later_looks_count_alike_until_they_fade():
    seen = [100.0] * 20 + [350.0, 500.0, 520.0, 510.0]
    assert after(seen, noise=16.0)[0] == pytest.approx((500 + 520 + 510) / 3)
