"""`firelane plan` as its users meet it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from planned_case import TEXT

from firelane.cli import main
from firelane.cli.plans import PLANNERS
from firelane.plan import PLANNERS as KNOWN


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "post.yaml"
    path.write_text(TEXT)
    return path


def firelane(*arguments):
    return CliRunner().invoke(main, ["plan", *map(str, arguments)])


def test_the_planners_on_the_command_line_are_those_there_are():
    assert PLANNERS == KNOWN


def test_json_is_one_document_with_what_was_decided(scenario):
    result = firelane(scenario, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["planner"] == "search"
    assert data["proven_optimal"] is True
    assert data["order"] == ["urgent", "bulk"]
    assert data["drops"] == {"urgent": 0, "bulk": 0.1}
    assert set(data["before"]["urgent"]) == {"delay_mean_s", "loss"}
    assert data["after"]["urgent"]["delay_mean_s"] < data["before"]["urgent"]["delay_mean_s"]
    assert data["cost"]["violated"] == 0
    assert data["seconds"] > 0


def test_people_get_a_table_and_reasons_and_the_plan_is_written(scenario, tmp_path):
    plan = tmp_path / "plan.json"
    shown = firelane(scenario, "-o", plan).stdout
    words = [line.split() for line in shown.splitlines()]
    assert ["urgent", "0", "0", "104", "15.02", "30", "0", "0", "0"] in words
    assert ["bulk", "1", "10", "104", "87.72", "0", "10", "10"] in words
    assert "- classes: urgent > bulk" in shown
    assert f"written to {plan}" in shown
    written = json.loads(plan.read_text())
    assert written["made_by"] == "plan search"
    assert [flow["drop_rate"] for flow in written["flows"]] == [0, 0.1]


def test_a_category_without_traffic_is_not_called_saturated(scenario):
    scenario.write_text(TEXT.replace("{a: 60 Hz, b: 60 Hz}", "{a: 60 Hz, b: 0 Hz}"))
    result = firelane(scenario)
    assert result.exit_code == 0, result.output
    assert "bulk" in result.stdout
    assert "saturated" not in result.stdout


def test_the_plan_can_be_predicted_with(scenario, tmp_path):
    plan = tmp_path / "plan.json"
    firelane(scenario, "-o", plan)
    result = CliRunner().invoke(main, ["predict", str(scenario), "--plan", str(plan), "--json"])
    assert json.loads(result.stdout)["classes"][0]["delay_mean_s"] == pytest.approx(0.01502, abs=1e-5)


def test_pddl_is_written_where_the_user_can_read_it(scenario, tmp_path):
    shown = firelane(scenario, "--pddl", tmp_path / "pddl").stdout
    assert f"PDDL written to {tmp_path / 'pddl'}" in shown
    assert "(define (problem" in (tmp_path / "pddl" / "problem.pddl").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--data", "nowhere"), "nowhere: there is no such data set"),
        (("--time-limit", "0.000001", "--planner", "enhsp"), "had no plan after 1e-06 s; use --planner search"),
    ],
)
def test_mistakes_are_told_in_one_line(scenario, options, words):
    result = firelane(scenario, *options)
    assert result.exit_code == 1
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_bound_that_no_prediction_has_is_told_in_one_line(scenario):
    scenario.write_text(TEXT.replace("max_delay:", "max_delay_p95:"))
    result = firelane(scenario)
    assert result.exit_code == 1
    assert "a prediction has no percentiles; give --data" in result.stderr
