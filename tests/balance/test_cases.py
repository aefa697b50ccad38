"""The seeded loads: repeatable, with the tails and the restlessness they promise."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.balance.cases import SEEDS, SIZES, TAILS, day, sixty


def test_a_seed_makes_the_same_day_again_and_another_seed_another():
    first = day(topics=50, tail="light", seed=1, steps=100)
    assert np.array_equal(first.load, day(topics=50, tail="light", seed=1, steps=100).load)
    assert not np.array_equal(first.load, day(topics=50, tail="light", seed=2, steps=100).load)
    assert first.topics[0] == "zone/1"
    assert first.times_s[:3].tolist() == [0, 60, 120]


def test_there_are_sixty_cases_of_three_sizes_and_two_tails():
    cases = list(sixty(steps=2))
    assert len(cases) == 60 == len(SIZES) * len(TAILS) * len(SEEDS)
    assert {(len(case.loads.topics), case.brokers) for case in cases} == {(100, 3), (300, 5), (1000, 10)}
    assert len({case.name for case in cases}) == 60


@pytest.mark.parametrize(("tail", "index"), TAILS.items())
def test_mean_sizes_have_a_pareto_tail_of_the_index_asked_for(tail, index):
    mean = day(topics=4000, tail=tail, seed=1, steps=300).load.mean(axis=0)
    largest = np.sort(mean[mean > 0])[::-1][:200]
    hill = 1 / np.mean(np.log(largest[:-1] / largest[-1]))  # Hill's estimator, error about 7 % from 200 values
    assert hill == pytest.approx(index, rel=0.25)


def test_loads_rise_and_fall_with_the_day_and_some_topics_come_and_go():
    load = day(topics=500, tail="light", seed=1).load
    total = load.sum(axis=1)
    assert total[8 * 60] > 2 * total[0]
    assert total[17 * 60 + 30] > 1.5 * total[12 * 60 + 45]
    restless = ((load > 0).mean(axis=0) < 1).mean()
    assert 0.1 < restless < 0.3
    assert np.all(load == np.round(load))
