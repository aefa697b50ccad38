"""Ours against the paper's baseline and against the simple script, over seeded cases and a grid of thresholds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from firelane.balance.cases import SEEDS, SIZES, TAILS, Case, day, one_case
from firelane.balance.compare import BANDS, MAX_MOVES, SHARES, curve, duels


def cases(seeds, steps, sizes=SIZES, tails=TAILS):
    for (topics, brokers), tail, seed in product(sizes, tails, seeds):
        yield one_case(topics=topics, brokers=brokers, tail=tail, seed=seed, steps=steps)


@pytest.mark.parametrize(
    ("seeds", "steps"),
    [
        pytest.param(SEEDS[:2], 200, marks=pytest.mark.slow, id="twelve"),
        pytest.param(SEEDS, 300, marks=pytest.mark.soak, id="sixty"),
    ],
)
def test_ours_is_as_balanced_with_never_more_and_typically_twenty_times_fewer_switches(seeds, steps):
    ratios = []
    for case in cases(seeds, steps):
        ours = curve(case, "bounded-moves", BANDS, max_moves=MAX_MOVES)
        for duel in duels(curve(case, "threshold", SHARES), ours):
            assert duel.ours is not None, (case.name, duel.rival)
            assert duel.ours.switches <= duel.rival.switches, (case.name, duel)
            if duel.rival.switches:
                ratios.append(duel.ratio)
    assert len(ratios) >= 4 * len(seeds) * len(SIZES) * len(TAILS)
    assert np.median(ratios) >= 20


@pytest.mark.parametrize(
    ("sizes", "least"),
    [
        pytest.param(SIZES[:2], 3, marks=pytest.mark.slow, id="up to 300 topics"),
        pytest.param(SIZES[2:], 3, marks=pytest.mark.soak, id="1000 topics"),
    ],
)
def test_where_one_topic_dominates_ours_goes_on_where_the_naive_move_stalls(sizes, least):
    """Over whole days: at the same settings far less excess, and with others no more switches at no more excess."""
    dominated = [case for case in cases(SEEDS, 1380, sizes, ["heavy"]) if dominates(case)]
    assert len(dominated) >= least
    for case in dominated:
        (naive,) = curve(case, "naive-move", (0.0,), max_moves=1)
        (same,) = curve(case, "bounded-moves", (0.0,), max_moves=1)
        assert same.excess < 0.6 * naive.excess, case.name
        (duel,) = duels([naive], curve(case, "bounded-moves", np.geomspace(0.02, 2.0, 20), max_moves=MAX_MOVES))
        assert duel.ours is not None, case.name
        assert duel.ours.switches <= naive.switches, (case.name, duel)


def dominates(case):
    """Is one topic more than a broker's fair share, at nine of ten steps?"""
    load = case.loads.load
    return np.mean(load.max(axis=1) > load.sum(axis=1) / case.brokers) >= 0.9


def test_a_curve_has_fewer_switches_and_more_excess_at_wider_bands():
    case = Case(name="", tail="light", brokers=3, loads=day(topics=30, tail="light", seed=1, steps=200))
    narrow, wide = curve(case, "bounded-moves", (0.01, 0.3), max_moves=9)
    assert narrow.switches > wide.switches
    assert narrow.excess < wide.excess
