"""ENHSP, in its optimal configuration, agrees with our search; and when it cannot answer, one line says so."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from random_problems import some_problem

from firelane.errors import FirelaneError
from firelane.plan import enhsp
from firelane.plan.branch import branch_and_bound
from firelane.plan.enumerate import enumerate_all
from firelane.plan.pddl import pddl

TIGHTNESS = ((0.8, 6.0), (3.0, 20.0), (8.0, 60.0))


def agreement_problem(seed):
    return some_problem(seed, categories=1 + seed % 4, tightness=TIGHTNESS[seed % 3], links=1 + (seed % 7 == 0))


def agrees(seed):
    problem = agreement_problem(seed)
    table = problem.table()
    answer = table.found(enhsp.solve(pddl(problem.wanted, table), seconds=120))
    ours, bounded = enumerate_all(problem), branch_and_bound(problem)
    return answer.cost == ours.cost == bounded.cost


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 5, 6])
def test_the_planner_and_the_search_agree(seed):
    assert agrees(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200))
def test_the_planner_and_the_search_agree_on_200_problems(seed):
    assert agrees(seed)


def test_a_third_of_the_200_problems_are_infeasible_or_need_two_or_more_drops():
    found = [enumerate_all(agreement_problem(seed)) for seed in range(200)]
    infeasible = [one.cost.violated > 0 for one in found]
    hard = [bad or np.count_nonzero(one.drop_rate) >= 2 for bad, one in zip(infeasible, found, strict=True)]
    assert sum(hard) >= 67
    assert 30 <= sum(infeasible) <= 170


@pytest.fixture(scope="module")
def written():
    problem = some_problem(1, categories=2)
    return pddl(problem.wanted, problem.table())


def a_java(tmp_path, monkeypatch, script):
    """A Java that says it is a new one, and then does something else than planning."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"""#!/bin/sh
[ "$1" = -version ] && echo 'openjdk version "21"' >&2 && exit 0
{script}
""")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def test_a_planner_that_crashes_is_told_in_one_line(written, tmp_path, monkeypatch):
    a_java(tmp_path, monkeypatch, "echo 'Exception in thread main' >&2; exit 1")
    with pytest.raises(FirelaneError, match=r"the planner enhsp failed.*Exception in thread main.*--planner search"):
        enhsp.solve(written, seconds=20)


def test_a_planner_that_hangs_is_ended_and_told_in_one_line(written, tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    a_java(tmp_path, monkeypatch, f"echo $$ > {pid}; exec sleep 60")
    with pytest.raises(FirelaneError, match=r"the planner enhsp had no plan after 1 s; use --planner search"):
        enhsp.solve(written, seconds=1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_planner_that_is_not_installed_is_told_in_one_line(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "up_enhsp.enhsp_planner", None)
    with pytest.raises(FirelaneError, match=r"pip install 'firelane\[planners\]'"):
        enhsp.solve(written, seconds=20)


def test_what_is_no_pddl_is_told_in_one_line(written):
    with pytest.raises(FirelaneError, match="cannot read this PDDL"):
        enhsp.planned_steps(written.domain, written.problem.replace("(:init", "(:init ("), seconds=20)


def test_an_undefined_metric_is_an_error_before_anything_is_planned(written):
    with pytest.raises(FirelaneError, match="the metric names delay"):
        enhsp.planned_steps(written.domain, written.problem.replace("(total-cost)))", "(delay)))"), seconds=20)
