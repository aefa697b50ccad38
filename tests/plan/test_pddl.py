"""A problem in PDDL says what it is about, in names that PDDL can have, and a planner reads it."""

from __future__ import annotations

import re

import pytest
from random_problems import some_problem

from firelane.errors import FirelaneError
from firelane.plan.pddl import MOST_PLANS, _names, check_names, pddl


@pytest.fixture(scope="module")
def written():
    problem = some_problem(10, categories=3)
    return problem, pddl(problem.wanted, problem.table())


def test_every_plan_has_its_cost_in_the_order_of_all_costs(written):
    problem, files = written
    table = problem.table()
    places = {pair: int(place) for *pair, place in re.findall(r"\(joint-cost (\S+) (\S+)\) (\d+)\)", files.problem)
              for pair in [tuple(pair)]}  # fmt: skip
    assert len(places) == problem.size - 1 == len(files.settles)
    nothing = int(re.search(r"\(cost-of-nothing\) (\d+)\)", files.problem)[1])
    rows = [(nothing, 0), *((place, files.settles[pair]) for pair, place in places.items())]
    for place, row in rows:
        for other_place, other in rows[:: max(1, len(rows) // 20)]:
            cheaper = tuple(table.costs[row]) < tuple(table.costs[other])
            assert (place < other_place) == cheaper


def test_it_says_in_comments_what_is_required_and_what_levels_are(written):
    problem, files = written
    for one in problem.wanted.bounds:
        assert f"; required: {problem.wanted.name(one)}" in files.problem
    assert "; real-time is the category real-time: level-0 0.00%" in files.problem


def test_both_files_are_written(written, tmp_path):
    _, files = written
    files.save(tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder" / "domain.pddl").read_text() == files.domain
    assert "(:goal (settled))" in (tmp_path / "new" / "folder" / "problem.pddl").read_text()


def test_a_folder_that_cannot_be_written_to_is_told(written, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FirelaneError, match="cannot write PDDL here"):
        written[1].save(tmp_path / "file")


@pytest.mark.parametrize("names", [("Real Time", "real-time", "2 cents", "Ärger"), ("and", "level-1", "order", "x\ny")])
def test_any_category_gets_a_name_of_its_own(names):
    plain = _names(names)
    assert len(set(plain)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", one) and "--" not in one for one in plain)
    assert "and" not in plain
    assert "order" not in plain


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("(:goal (settled))", "(:goal (and (settled) (satisfied)))", "the goal names satisfied"),
        ("(total-cost)))", "(response-time)))", "the metric names response-time"),
        ("(:metric minimize (total-cost))", "(:metric minimize latency)", "the metric names latency"),
    ],
)
def test_a_goal_or_metric_that_names_something_undefined_is_an_error(written, old, new, words):
    _, files = written
    assert old in files.problem
    check_names(files.domain, files.problem)
    with pytest.raises(FirelaneError, match=f"{words}, which the domain does not define"):
        check_names(files.domain, files.problem.replace(old, new))


def test_more_plans_than_a_planner_can_read_are_refused():
    problem = some_problem(3, categories=4)
    wide = problem.with_levels((tuple(i / 10 for i in range(6)),) * 4)
    assert wide.size > MOST_PLANS
    with pytest.raises(FirelaneError, match="use --planner search"):
        pddl(wide.wanted, wide.table())
