from __future__ import annotations

import json
from contextlib import nullcontext

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from firelane.cli import main
from firelane.errors import FirelaneError


@pytest.fixture
def firelane(spark, monkeypatch):
    monkeypatch.setattr("firelane.pipeline.session.session", lambda _: nullcontext(spark))

    def run(*words):
        return CliRunner().invoke(main, list(map(str, words)))

    return run


def test_from_a_generated_city_to_what_its_loads_look_like(firelane, tmp_path):
    made = firelane("generate", "city", "--vehicles", 500, "--zones", 25, "--step", "20min", "-o", tmp_path / "city")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("city: ")
    asked = ("pipeline", "positions", tmp_path / "city", "--window", "20min", "-o", tmp_path / "out")
    told = json.loads(firelane(*asked, "--changes", "--json").stdout)
    rows = pq.read_table(tmp_path / "out" / "loads").num_rows
    assert told["rows_in"] == pq.read_table(tmp_path / "city").num_rows
    assert told["rows_out"]["loads"] == rows
    assert told["rejects"] == {}
    looks = firelane("pipeline", "characteristics", tmp_path / "out", "-o", tmp_path / "looks")
    assert looks.stdout.startswith(f"characteristics: {rows:,} rows in, ")
    assert "Pareto tail: exponent" in looks.stdout


def test_zones_windows_origin_and_bounds_are_taken(firelane, tmp_path):
    (tmp_path / "some.tr").write_text("0 a 0 0 0\n90 b 1400 0 0\n0 c 3000 0 0\n")
    done = firelane(
        "pipeline", "positions", tmp_path / "some.tr", "-o", tmp_path / "out", "--zone", "1km", "--window", "2min",
        "--origin", "-500,-500", "--city-bounds", "-500,-500,2000,2000",
    )  # fmt: skip
    assert "3 rows in, 2 loads, 1 reject (1 outside the city)" in done.stdout
    table = pq.read_table(tmp_path / "out" / "loads")
    assert sorted(zip(table["time_s"].to_pylist(), table["topic"].to_pylist(), strict=True)) == [
        (0, "zone/0/0"),
        (0, "zone/1/0"),
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--zone", "5 furlongs"), "is not a length"),
        (("--zone", "0m"), "out of range"),
        (("--window", "1.5s"), "whole seconds"),
        (("--origin", "1"), "write 2 numbers"),
        (("--city-bounds", "0,0,1"), "write 4 numbers"),
        (("--city-bounds", "0,0,nan,1"), "write 4 numbers"),
    ],
)
def test_what_is_written_wrong_is_a_matter_of_usage(words, complaint, tmp_path):
    done = CliRunner().invoke(main, ["pipeline", "positions", "some.tr", "-o", str(tmp_path), *words])
    assert done.exit_code == 2
    assert complaint in done.stderr


@pytest.mark.parametrize(
    ("job", "option", "value", "complaint"),
    [
        ("deliveries", "--window", "999ms", "write from 1 s to 31622400 s"),
        ("deliveries", "--window", "1e15s", "write from 1 s to 31622400 s"),
        ("watch", "--window", "0.5s", "write from 1 s to 31622400 s"),
        ("watch", "--late", "0s", "write from 0.001 s to 31622400 s"),
        ("watch", "--late", "1e15s", "write from 0.001 s to 31622400 s"),
        ("positions", "--window", "1e15s", "write from 1 s to 31622400 s"),
    ],
)
def test_windows_are_from_a_second_to_a_year(job, option, value, complaint, tmp_path):
    done = CliRunner().invoke(main, ["pipeline", job, str(tmp_path), "-o", str(tmp_path / "out"), option, value])
    assert done.exit_code == 2
    assert complaint in done.stderr


def test_a_trace_that_is_not_there_is_one_line(firelane, tmp_path):
    done = firelane("pipeline", "positions", tmp_path / "none.tr", "-o", tmp_path / "out")
    assert isinstance(done.exception, (FirelaneError, SystemExit))
    assert done.exit_code == 1
