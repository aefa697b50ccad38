"""Requirements that conflict: no plan meets them all, and every smaller set has one that does."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from random_problems import some_requirements

from firelane.plan.conflict import conflict, conflict_among
from firelane.plan.levels import MOST_DROP
from firelane.predict.many import many_plans


def misses_of_every_plan(wanted, plans):
    """For plans on a grid that has every bound on loss: which requirements they miss."""
    limits = {0.0, MOST_DROP}
    limits |= {
        rate for n in range(len(wanted.bounds)) for rate in wanted.only([n]).most_drop.tolist() if not np.isnan(rate)
    }
    levels = sorted(rate for rate in limits if rate <= MOST_DROP)
    count = len(wanted.categories)
    every = list(product(permutations(range(count)), product(levels, repeat=count)))
    rank = np.argsort(np.array([order for order, _ in every]), axis=1)
    return wanted.violated(plans.values(wanted.targets, rank, np.array([drops for _, drops in every])))


@pytest.mark.parametrize(
    ("seed", "shape"),
    [
        *((seed, {"categories": 1 + seed % 3}) for seed in range(40)),
        # of a category on two links one may be full, so that dropping all it bears on both is too much
        *((seed, {"categories": 3, "links": 2}) for seed in (71, *range(20))),
    ],
)
def test_the_set_conflicts_and_no_part_of_it_does(seed, shape):
    wanted = some_requirements(seed, tightness=(1.0, 8.0), **shape)
    plans = many_plans(wanted.routes, wanted.group)
    misses = misses_of_every_plan(wanted, plans)
    chosen = conflict(wanted, plans)
    assert bool(chosen) == bool(misses.any(axis=1).all())
    if chosen:
        assert misses[:, chosen].any(axis=1).all()
        for one in chosen:
            rest = [other for other in chosen if other != one]
            assert not misses[:, rest].any(axis=1).all()


def test_among_plans_that_are_known_the_set_is_irreducible_too():
    misses = np.array([[True, False, True, False], [False, True, True, False], [True, True, False, False]])
    assert conflict_among(misses) == [0, 1]
    assert conflict_among(misses[:, :1]) == []


def test_a_category_that_bears_no_loss_is_named_in_the_conflict_it_causes():
    found = [
        (wanted, conflict(wanted, many_plans(wanted.routes, wanted.group)))
        for wanted in (some_requirements(seed, categories=3, load=1.4, tightness=(1.0, 4.0)) for seed in range(30))
    ]
    kinds = [[wanted.bounds[one] for one in chosen] for wanted, chosen in found]
    assert any(any(one.kind == "loss" and one.bound == 0 for one in chosen) for chosen in kinds)


@pytest.mark.parametrize("links", [1, 2])
def test_of_many_categories_what_cannot_be_is_named_and_what_can_is_not(links):
    shape = {"categories": 9, "subscribers": 18, "links": links}
    easy = some_requirements(3, load=0.3, tightness=(50.0, 80.0), **shape)
    assert conflict(easy, many_plans(easy.routes, easy.group)) == []
    hard = some_requirements(3, load=0.3, tightness=(0.001, 0.002), **shape)
    (impossible,) = conflict(hard, many_plans(hard.routes, hard.group))
    assert hard.bounds[impossible].kind == "delay"
