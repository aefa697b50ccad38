"""Sweeps as Spark jobs: what is there is not done again, and a kill costs nothing but time."""

from __future__ import annotations

import fcntl
import re
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from sweep_case import SCENARIO, TEXT

from firelane.errors import FirelaneError
from firelane.pipeline import jobs
from firelane.pipeline.sweep.grid import make_grid
from firelane.scenario import from_text

ORDERS = "urgent>none>bulk,bulk>none>urgent"
PUBLICATIONS = 500


def rows_of(folder):
    """All rows, in an order of their own; the histogram, a list, as text."""
    columns = pq.read_table(folder, partitioning=None).to_pylist()
    return sorted(tuple(repr(value) for value in row.values()) for row in columns)


def in_order(folder):
    table = pq.read_table(folder, partitioning=None)
    keys = ("rate_factor", "order", "drops", "source", "seed", "category")
    return table.sort_by([(name, "ascending") for name in keys])


def swept(spark, folder, scenario=SCENARIO, publications=PUBLICATIONS, **varied):
    from firelane.pipeline.sweep.run import sweep

    told = []
    grid = make_grid(scenario, orders=ORDERS, **varied)
    return sweep(spark, scenario, grid, folder, publications=publications, progress=told.append), told


def test_a_sweep_fills_its_grid_once_and_a_wider_one_adds_to_it(spark, tmp_path):
    from firelane.pipeline.sweep.trial import Trial

    folder = tmp_path / "data of [one]" / "sweep"
    first, told = swept(spark, folder, rates="0.5,1", seeds=2)
    points = 2 * 2
    assert (first.trials, first.found, first.rows) == (points * 3, 0, points * 3 * 3)
    assert told == [0, points * 3]
    before = rows_of(folder)
    grid = make_grid(SCENARIO, orders=ORDERS, rates="0.5,1")
    expected = [
        row for point in grid.points() for trial in [Trial(SCENARIO, point)]
        for row in [*trial.predicted(), *trial.simulated(0, PUBLICATIONS), *trial.simulated(1, PUBLICATIONS)]
    ]  # fmt: skip
    for row in expected:
        row["delay_histogram"] = None if row["delay_histogram"] is None else row["delay_histogram"].tolist()
    assert before == sorted(tuple(repr(value) for value in row.values()) for row in expected)

    again, told = swept(spark, folder, rates="0.5,1", seeds=2)
    assert (again.found, told, rows_of(folder)) == (points * 3, [points * 3], before)

    (folder / ".0123456789abcdef").mkdir()  # as a killed sweep leaves behind
    wider, told = swept(spark, folder, rates="1,2", seeds=3)
    assert (wider.trials, wider.found) == (points * 4, 2 * 3)
    assert told == [6, 10]
    assert len(set(rows_of(folder))) == wider.rows == (12 + 10) * 3
    assert set(rows_of(folder)) > set(before)
    assert not list(folder.glob(".*"))


def test_a_sweep_is_told_in_one_line(spark, tmp_path):
    grid = make_grid(SCENARIO, orders=ORDERS)
    ends = ("4 trials, 0 of them there before", "4 trials, 4 of them there before")
    for end in ends:
        done = jobs.sweep(spark, scenario=SCENARIO, grid=grid, output=tmp_path, publications=PUBLICATIONS)
        assert re.fullmatch(rf"sweep: 12 sweep, \d+\.\d s; in {tmp_path}; {end}", done.line())


def test_a_folder_is_for_one_scenario_and_one_sweep_at_a_time(spark, tmp_path):
    folder = tmp_path / "sweep"
    folder.mkdir()
    (folder / "_about.json").write_text(f'{{"scenario_hash": "{SCENARIO.digest()}", "publications": {PUBLICATIONS}}}')
    with pytest.raises(FirelaneError, match="another publications; name another folder"):
        swept(spark, folder, publications=7)
    with pytest.raises(FirelaneError, match="another scenario hash and publications"):
        swept(spark, folder, scenario=from_text(TEXT.replace("name: post", "name: other")), publications=7)
    with (folder / "_lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(FirelaneError, match="another run is writing"):
            swept(spark, folder)
    for half in ('{"scenario_hash": "', "[1]"):
        (folder / "_about.json").write_text(half)
        with pytest.raises(FirelaneError, match="this does not say what the sweep was made with"):
            swept(spark, folder)
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(FirelaneError, match="something else"):
        swept(spark, tmp_path)


def test_what_cannot_be_simulated_ends_a_sweep_in_one_line(spark, tmp_path, monkeypatch):
    from firelane.pipeline.sweep import run

    def fail(*_):
        raise FirelaneError("more than 3 messages wait; simulate fewer")

    monkeypatch.setattr(run, "_results", fail)
    with pytest.raises(FirelaneError, match=r"^more than 3 messages wait; simulate fewer$"):
        swept(spark, tmp_path / "sweep")


@pytest.mark.slow
def test_a_killed_sweep_goes_on_where_it_was_and_ends_with_the_same_numbers(spark, tmp_path):
    varied = {"rates": "0.5,0.8,1,1.2", "drops": "0,0.2", "seeds": 16}
    (tmp_path / "post.yaml").write_text(TEXT)
    options = [word for name, value in varied.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "firelane.cli", "pipeline", "sweep", str(tmp_path / "post.yaml"), *options]
    command += ["--orders", ORDERS, "--publications", str(PUBLICATIONS), "-o", str(tmp_path), "--master", "local[1]"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline_s = time.monotonic() + 300
    while not list((tmp_path / "sweep").glob("chunk=*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    varied["drops"] = ["0,0.2"]
    resumed, _ = swept(spark, tmp_path / "sweep", **varied)
    assert 0 < resumed.found < resumed.trials
    whole, _ = swept(spark, tmp_path / "whole", **varied)
    assert whole.found == 0
    assert resumed.rows == whole.rows == whole.trials * 3
    assert in_order(tmp_path / "sweep").equals(in_order(tmp_path / "whole"))
