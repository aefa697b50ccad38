"""`firelane balance` as its users meet it."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from firelane.balance import METHODS
from firelane.cli import main
from firelane.cli.plans import BALANCE_METHODS

ROWS = """time_s,topic,subscribers,bytes_hz
0,a,6,600
0,b,5,10
0,c,2,10
0,d,1,10
60,a,6,600
60,b,1,10
60,c,2,10
60,d,5,10
"""


@pytest.fixture
def loads(tmp_path):
    path = tmp_path / "loads.csv"
    path.write_text(ROWS)
    return path


def firelane(*arguments):
    return CliRunner().invoke(main, ["balance", *map(str, arguments)])


def test_the_methods_on_the_command_line_are_those_there_are():
    assert tuple(METHODS) == BALANCE_METHODS


@pytest.mark.parametrize("method", BALANCE_METHODS)
def test_every_method_works_and_json_has_the_documented_numbers(loads, method):
    result = firelane(loads, "--brokers", 2, "--method", method, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["method"] == method
    numbers = ("load_difference_mean", "load_difference_max", "excess_mean", "switches", "reconfigurations", "seconds")
    assert all(data[name] >= 0 for name in numbers)
    assert "series" not in data
    assert "moves" not in data


def test_the_series_have_a_value_for_each_step(loads):
    options = ("--method", "threshold", "--threshold", 100, "--series", "--json")
    data = json.loads(firelane(loads, "--brokers", 2, *options).stdout)
    assert data["series"]["time_s"] == [0, 60]
    assert data["series"]["load_difference"] == [0, 8]  # 6 + 1 and 5 + 2, then 6 + 5 and 1 + 2
    assert data["series"]["switches"] == [0, 0]


def test_the_load_can_be_chosen(loads):
    data = json.loads(firelane(loads, "--brokers", 2, "--load", "bytes", "--method", "greedy", "--json").stdout)
    assert data["load"] == "bytes/s"
    assert data["load_difference_max"] == 570  # 600 alone against 30
    assert data["excess_mean"] == 0


def test_the_plan_is_written_and_the_next_one_starts_from_it(loads, tmp_path):
    plan = tmp_path / "plan.json"
    result = firelane(loads, "--brokers", 2, "--threshold", 1, "-o", plan)
    assert result.exit_code == 0, result.output
    assert f"written to {plan}" in result.stdout
    first = json.loads(plan.read_text())
    assert set(first["placement"].values()) == {"broker-1", "broker-2"}
    assert firelane(loads, "--brokers", 2, "--current", plan, "-o", plan).exit_code == 0
    assert json.loads(plan.read_text())["version"] == first["version"] + 1


def test_a_dry_run_shows_before_after_and_the_moves_and_writes_nothing(loads, tmp_path):
    plan = tmp_path / "plan.json"
    options = ("--brokers", 2, "--threshold", 1, "--dry-run", "-o", plan)
    shown = firelane(loads, *options).stdout
    words = [line.split() for line in shown.splitlines()]
    assert ["broker-1", "11", "7"] in words
    assert ["broker-2", "3", "7"] in words
    assert ["difference", "8", "0"] in words
    assert "2 moves" in shown
    assert ["topic", "from", "to", "load"] in words
    assert "nothing written" in shown
    assert not plan.exists()
    data = json.loads(firelane(loads, *options, "--json").stdout)
    assert data["before"] == {"broker-1": 11, "broker-2": 3}
    assert data["after"] == {"broker-1": 7, "broker-2": 7}
    assert set(data["moves"][0]) == {"topic", "from", "to", "load"}
    assert not plan.exists()


def test_a_dry_run_says_when_there_is_nothing_to_move(loads):
    options = ("--brokers", 2, "--method", "long-term", "--dry-run")
    assert "nothing to move" in firelane(loads, *options).stdout


def test_the_summary_is_for_people(loads):
    shown = firelane(loads, "--brokers", 2, "--max-moves", 3).stdout
    assert "bounded-moves (threshold 5 %, max moves 3): 4 topics over 2 brokers, 2 steps" in shown
    assert "switches" in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "greedy", "--max-moves", 3), "max_moves: greedy does not use it"),
        (("--load", "messages"), "the column messages_hz is missing; it has subscribers, bytes_hz"),
        (("--threshold", "much"), 'threshold: "much" is not a load'),
        (("--current", "nowhere.json"), "nowhere.json: cannot read the plan"),
        (("--method", "exact", "--threshold", 1), "threshold: exact uses it with the objective moves only"),
        (("--brokers", 99_999_999_999), "brokers: 99999999999 are more than"),
        (("--max-moves", 10**30), f"max_moves: {10**30} are more than"),
        (("--series",), "--series goes with --json"),
    ],
)
def test_mistakes_are_told_in_one_line(loads, options, words):
    result = firelane(loads, *(() if "--brokers" in options else ("--brokers", 2)), *options)
    assert result.exit_code == 1
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("method", BALANCE_METHODS)
@pytest.mark.parametrize("brokers", [10, 12])
def test_equal_loads_that_cannot_be_added_exactly_are_balanced(tmp_path, method, brokers):
    path = tmp_path / "tenths.csv"
    path.write_text("time_s,topic,messages_hz\n" + "".join(f"0,t{number},0.1\n" for number in range(brokers)))
    result = firelane(path, "--brokers", brokers, "--method", method, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["load_difference_max"] < 1e-9


@pytest.mark.parametrize("method", BALANCE_METHODS)
@pytest.mark.parametrize(("large", "small"), [("1e15", "1e-9"), ("1e-300", "1e-310"), ("1", "5e-324")])
def test_a_topic_that_is_lost_in_rounding_beside_another_is_no_problem(tmp_path, method, large, small):
    path = tmp_path / "loads.csv"
    path.write_text(f"time_s,topic,messages_hz\n0,a,{large}\n0,b,{small}\n60,a,{small}\n60,b,{large}\n")
    result = firelane(path, "--brokers", 2, "--method", method, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["load_difference_max"] == pytest.approx(float(large), rel=1e-9, abs=0)


@pytest.mark.parametrize("method", BALANCE_METHODS)
def test_a_step_without_any_load_is_no_problem(tmp_path, method):
    path = tmp_path / "night.csv"
    path.write_text("time_s,topic,subscribers\n0,a,3\n0,b,2\n60,a,0\n60,b,0\n120,a,3\n120,b,2\n")
    result = firelane(path, "--brokers", 2, "--method", method, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["load_difference_max"] == 1


def test_the_folder_of_a_job_stands_for_its_loads(tmp_path):
    for name in ("loads", "rejects"):
        (tmp_path / name).mkdir()
    pq.write_table(
        pa.table({"time_s": [0, 0], "topic": ["a", "b"], "subscribers": [1, 2]}), tmp_path / "loads/1.parquet"
    )
    pq.write_table(pa.table({"reason": ["bad"], "line": ["x"]}), tmp_path / "rejects/1.parquet")
    assert firelane(tmp_path, "--brokers", 2).exit_code == 0
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "there is no Parquet file in it" in firelane(empty, "--brokers", 2).stderr


def test_a_plan_without_a_placement_or_of_other_topics_is_no_start(loads, tmp_path):
    plan = tmp_path / "plan.json"
    assert CliRunner().invoke(main, ["tune", "office-fire", "-o", str(plan)]).exit_code == 0
    assert "plan.json: it places no topics" in firelane(loads, "--brokers", 2, "--current", plan).stderr
    other = tmp_path / "other.csv"
    other.write_text("time_s,topic,subscribers\n0,x,3\n0,y,2\n")
    assert firelane(other, "--brokers", 2, "-o", plan).exit_code == 0
    assert "it places none of these topics" in firelane(loads, "--brokers", 2, "--current", plan).stderr


def test_a_step_that_cannot_be_balanced_so_well_is_named(tmp_path):
    path = tmp_path / "loads.csv"
    path.write_text("time_s,topic,subscribers\n0,a,3\n0,b,3\n60,a,9\n60,b,2\n")
    options = ("--method", "exact", "--objective", "moves", "--threshold", 1)
    assert "step 2 of 2: no placement has so small a load difference" in firelane(path, "--brokers", 2, *options).stderr


def test_the_number_of_brokers_is_needed(loads):
    assert firelane(loads).exit_code == 2
