"""Scenario -> Planned: what is required, what is known of plans, the planner, and the explanation."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from firelane.errors import FirelaneError
from firelane.plan import enhsp
from firelane.plan.cost import NO_BOUND, least
from firelane.plan.data import Conditions, read_data
from firelane.plan.knowledge import ByData, ByPrediction, Knowledge
from firelane.plan.levels import coarse
from firelane.plan.nearest import missed, nearest
from firelane.plan.pddl import check_size, pddl
from firelane.plan.problem import Found, Problem, Table
from firelane.plan.requirements import Requirements, requirements
from firelane.plan.result import Planned
from firelane.plan.search import best_plan, coarse_problem
from firelane.plan.spare import spared
from firelane.plan.why import tell
from firelane.predict.many import ManyPlans, many_plans
from firelane.scenario.model import Scenario
from firelane.scenario.routes import Routes, some_routes

PLANNERS = ("search", enhsp.NAME)
SECONDS = 24.0

Choice = tuple[Found, int, dict[str, list[float]]]  # how many plans there were, and the levels of drops


def plan(
    scenario: Scenario | Routes,
    *,
    data: str | Path | None = None,
    conditions: Conditions | None = None,
    planner: str = "search",
    pddl_folder: str | Path | None = None,
    spare: float = 0.0,
    seconds: float = SECONDS,
) -> Planned:
    """The order and the drops of categories that miss the fewest bounds, then are the least late, then drop least.

    By prediction, or by a data set of `firelane pipeline sweep`: those of its points that were made under these
    `conditions`, by default the scenario as it is written. `pddl_folder` gets the problem as PDDL. With something to
    `spare`, less is dropped for delays that are longer by that part of their bounds. FirelaneError if the requirements,
    the data or the planner cannot be used.
    """
    if planner not in PLANNERS:
        raise FirelaneError(f'planner: "{planner}" is not known; write one of {", ".join(PLANNERS)}')
    began = time.perf_counter()
    wanted = requirements(some_routes(scenario))
    folder = None if pddl_folder is None else Path(pddl_folder)
    known: Knowledge
    if data is None:
        _refuse_percentiles(wanted)
        plans = many_plans(wanted.routes, wanted.group)
        known = ByPrediction(wanted, plans)
        choose = _by_search if planner == "search" else _by_planner
        found, size, levels = choose(wanted, plans, folder, seconds)
    else:
        swept = read_data(data, wanted, conditions)
        known, wanted = ByData(swept), replace(wanted, notes=(*wanted.notes, *swept.notes))
        found, size, levels = _by_data(wanted, swept.table(), planner, folder, seconds)
    best = found
    if spare and not found.nothing:
        found = spared(wanted, known, best, spare, None if data is None else list(levels.values()))
    if (found.drop_rate < best.drop_rate).any():
        note = f"less is dropped than that, for delays that are longer by up to {spare:.0%} of what is required"
        wanted = replace(wanted, notes=(*wanted.notes, note))
    conflicting = known.conflict() if found.cost.violated else []
    near = nearest(wanted, known, found, None if data is None else list(levels.values()))
    nothing = np.zeros(len(found.rank), np.int64), np.zeros(len(found.rank))
    return Planned(
        planner=planner,
        wanted=wanted,
        found=found,
        tried=size,
        levels=levels,
        before=known.categories(*nothing),
        after=known.categories(found.rank, found.drop_rate),
        missed=missed(wanted, known, found),
        nearest=near,
        conflict=[wanted.name(wanted.bounds[one]) for one in conflicting],
        why=(_verdict(planner, best, size), *tell(wanted, known, found, conflicting, near)),
        seconds=time.perf_counter() - began,
    )


def _by_search(wanted: Requirements, plans: ManyPlans, folder: Path | None, seconds: float) -> Choice:
    problem, found = best_plan(wanted, plans, seconds=seconds)
    if folder is not None:
        written, _ = coarse_problem(wanted, plans, seconds=seconds)
        pddl(wanted, _small(written).table()).save(folder)
    return found, problem.size, _levels(wanted, problem)


def _by_planner(wanted: Requirements, plans: ManyPlans, folder: Path | None, seconds: float) -> Choice:
    """On the coarse grid; if every plan on it misses a bound, on the wide one."""
    for wide in (False, True):
        problem = _small(Problem(wanted=wanted, plans=plans, levels=coarse(wanted, plans.streams, wide=wide)))
        found = _ask(wanted, problem.table(), folder, seconds)
        if not found.cost.violated:
            break
    return found, problem.size, _levels(wanted, problem)


def _by_data(wanted: Requirements, table: Table, planner: str, folder: Path | None, seconds: float) -> Choice:
    rates = [sorted(set(column)) for column in table.drop_rate.T.tolist()]
    if planner == "search":
        found = table.found(least(table.costs))
        if folder is not None:
            pddl(wanted, table).save(folder)
    else:
        found = _ask(wanted, table, folder, seconds)
    return found, len(table.costs), dict(zip(wanted.categories, rates, strict=True))


def _ask(wanted: Requirements, table: Table, folder: Path | None, seconds: float) -> Found:
    written = pddl(wanted, table)
    if folder is not None:
        written.save(folder)
    return table.found(enhsp.solve(written, seconds=seconds))


def _small(problem: Problem) -> Problem:
    """Refuse, before anything is counted through, what is too much for PDDL."""
    check_size(problem.size)
    return problem


def _levels(wanted: Requirements, problem: Problem) -> dict[str, list[float]]:
    return {name: list(rates) for name, rates in zip(wanted.categories, problem.levels, strict=True)}


def _refuse_percentiles(wanted: Requirements) -> None:
    for one in wanted.bounds:
        if one.kind == "delay_p95":
            raise FirelaneError(
                f"categories.{wanted.categories[one.category]}.max_delay_p95: a prediction has no percentiles; "
                "give --data, a data set that `firelane pipeline sweep` has simulated"
            )


def _verdict(planner: str, found: Found, size: int) -> str:
    if found.proven:
        proof = "proved to be the best"
    elif found.lower_bound == NO_BOUND:
        proof = "not proved, as filters of different categories overlap, or stages before links draw batches apart"
    else:
        proof = f"not proved; none costs less than {found.lower_bound}"
    return f"{planner}: {found.cost}; of {size:,} plans, {proof}"
