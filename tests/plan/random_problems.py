"""Planning problems by chance, of random scenarios and on random grids."""

from __future__ import annotations

import numpy as np

from category_cases import some_scenario
from firelane.plan.problem import Problem
from firelane.plan.requirements import Requirements, requirements
from firelane.predict.many import many_plans
from firelane.scenario.routes import routes


def some_requirements(seed: int, **shape) -> Requirements:
    return requirements(routes(some_scenario(seed, **shape)))


def some_problem(seed: int, **shape) -> Problem:
    """On levels within what a category can bear, and beyond."""
    wanted = some_requirements(seed, **shape)
    rng = np.random.default_rng(seed + 10_000)
    levels = []
    for most in wanted.most_drop.tolist():
        limit = float(rng.uniform(0.1, 0.8)) if np.isnan(most) else most
        more = [0.9] if rng.random() < 0.5 else []
        levels.append((0.0,) if most <= 0 else tuple(sorted({0.0, limit, *more})))
    return Problem(wanted=wanted, plans=many_plans(wanted.routes, wanted.group), levels=tuple(levels))
