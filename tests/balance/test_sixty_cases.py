"""Ours against the paper's baseline and against the simple script, over sixty seeded cases and a grid of thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.balance.cases import day, sixty
from firelane.balance.compare import BANDS, MAX_MOVES, SHARES, Case, curve, duels

STEPS = 480  # the night and the morning's rise; `reproduce brokers` has whole days


@pytest.fixture(scope="module")
def contests():
    """(case, our curve, the baseline's) of every case."""
    return [
        (case, curve(case, "bounded-moves", BANDS, max_moves=MAX_MOVES), curve(case, "threshold", SHARES))
        for case in sixty(steps=STEPS)
    ]


@pytest.mark.soak
def test_ours_is_as_balanced_with_never_more_and_typically_twenty_times_fewer_switches(contests):
    ratios = []
    for case, ours, baseline in contests:
        for duel in duels(baseline, ours):
            assert duel.ours is not None, (case.name, duel.rival)
            assert duel.ours.switches <= duel.rival.switches, (case.name, duel)
            if duel.rival.switches:
                ratios.append(duel.ratio)
    assert len(ratios) >= 250
    assert np.median(ratios) >= 20


@pytest.mark.soak
def test_where_one_topic_dominates_ours_beats_the_naive_move(contests):
    dominated = [(case, ours) for case, ours, _ in contests if dominates(case)]
    assert len(dominated) >= 10
    for case, ours in dominated:
        for duel in duels(curve(case, "naive-move", (0.0, 0.02, 0.1), max_moves=1), ours):
            assert duel.ours is not None, case.name
            assert duel.ours.switches <= duel.rival.switches, (case.name, duel)


def dominates(case):
    """Is one topic more than a broker's fair share, at every step?"""
    load = case.loads.load
    return np.all(load.max(axis=1) > load.sum(axis=1) / case.brokers)


def test_a_curve_has_fewer_switches_and_more_excess_at_wider_bands():
    case = Case(name="", tail="light", brokers=3, loads=day(topics=30, tail="light", seed=1, steps=200))
    narrow, wide = curve(case, "bounded-moves", (0.01, 0.3), max_moves=9)
    assert narrow.switches > wide.switches
    assert narrow.excess < wide.excess
