"""The best plan by prediction: on a coarse grid of drop levels, then finer around what is best there.

Small problems are tried through, others go to branch and bound; both are exact on their grid. The last search is over
all levels that were ever looked at, so that what it proves holds for all of them.
"""

from __future__ import annotations

import time
from dataclasses import replace

from firelane.plan.bound import is_exact
from firelane.plan.branch import branch_and_bound
from firelane.plan.cost import NO_BOUND
from firelane.plan.enumerate import enumerate_all
from firelane.plan.levels import around, coarse, joined
from firelane.plan.problem import Found, Problem
from firelane.plan.requirements import Requirements
from firelane.predict.many import ManyPlans

FEW = 50_000  # plans that are tried through


def search(problem: Problem, *, seconds: float = 20.0, most_violated: int | None = None) -> Found:
    """The best plan on the levels of a problem; branch and bound gives up if all miss more bounds than that."""
    if problem.size <= FEW:
        return enumerate_all(problem)
    return branch_and_bound(problem, seconds=seconds, most_violated=most_violated)


def best_plan(wanted: Requirements, plans: ManyPlans, *, seconds: float = 24.0) -> tuple[Problem, Found]:
    """The best plan for these requirements, and the problem, with its levels, on which it is that."""
    problem, found = coarse_problem(wanted, plans, seconds=seconds * 2 / 3)
    finer, better = refined(problem, found, seconds=seconds / 3)
    if found.proven and not better.proven and better.cost == found.cost:
        return problem, found
    return finer, better


def coarse_problem(wanted: Requirements, plans: ManyPlans, *, seconds: float) -> tuple[Problem, Found]:
    """The problem on the smallest grid that has a plan which misses no bound, or else on the wide one."""
    end = time.monotonic() + seconds
    narrow = Problem(wanted=wanted, plans=plans, levels=coarse(wanted, plans.streams, wide=False))
    found = search(narrow, seconds=seconds / 2, most_violated=0)
    if not found.cost.violated:
        return narrow, found
    problem = narrow.with_levels(coarse(wanted, plans.streams, wide=True))
    return problem, search(problem, seconds=end - time.monotonic())


def refined(problem: Problem, found: Found, *, seconds: float) -> tuple[Problem, Found]:
    """The problem on a grid that is finer around its best plan, and the best plan on that."""
    end = time.monotonic() + seconds / 2
    levels = problem.levels
    while not found.nothing and time.monotonic() < end:
        near = around(levels, found)
        if all(len(one) == 1 for one in near):
            break
        levels = joined(levels, near)
        better = search(problem.with_levels(near), seconds=seconds / 4)
        found = better if better.cost < found.cost else found
    if levels == problem.levels:
        return problem, found
    whole = problem.with_levels(levels)
    if whole.size > FEW and not is_exact(problem.plans.streams):
        return whole, replace(found, lower_bound=NO_BOUND, proven=False)
    last = search(whole, seconds=seconds / 2)
    if found.cost < last.cost:  # the time was up
        last = replace(found, lower_bound=min(last.lower_bound, found.cost), proven=False)
    return whole, last
