"""Traces by the thousand on Spark: the same numbers as `firelane sense replay` gives one by one."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from firelane.cli import main
from firelane.errors import FirelaneError
from firelane.pipeline import jobs
from firelane.sense import Fire, Trace, fire_trace, replay

NUMBERS = ("readings", "sent", "suppressed", "max_error", "rmse")


def sending(**changed):
    from firelane.pipeline.replays import Sending

    return Sending(**changed)


def run(spark, source, output, **changed):
    return jobs.sense(spark, source=source, output=output, how=sending(**changed))


def rows(folder, table="replays"):
    return pq.read_table(folder / table).to_pylist()


def small_fires(count):
    return {f"fire-{seed}": fire_trace(Fire(seed=seed, rooms=2, sensors=2, seconds=60)) for seed in range(count)}


def alone(trace, sensor, **how):
    """What `sense replay --sensors SENSOR` says."""
    one = trace.names.index(sensor)
    only = Trace(names=(sensor,), times_s=trace.times_s, values=trace.values[:, [one]])
    return replay(only, **how).to_data()


def long_table(traces):
    parts = [
        {"trace": name, "time_s": float(time_s), "sensor": sensor, "value": float(value)}
        for name, trace in traces.items()
        for time_s, values in zip(trace.times_s, trace.values, strict=True)
        for sensor, value in zip(trace.names, values, strict=True)
    ]
    return pa.Table.from_pylist(parts).take(np.random.default_rng(1).permutation(len(parts)))


@pytest.fixture
def firelane(spark, monkeypatch):
    monkeypatch.setattr("firelane.pipeline.session.session", lambda _: nullcontext(spark))
    return lambda *words: CliRunner().invoke(main, list(map(str, words)))


@pytest.mark.parametrize("model", ["auto", "last-value"])
def test_files_and_rows_give_exactly_what_a_replay_of_each_sensor_gives(spark, tmp_path, model):
    fires = small_fires(3)
    for name, trace in fires.items():
        (tmp_path / "csv" / "deep").mkdir(parents=True, exist_ok=True)
        trace.save(tmp_path / "csv" / "deep" / f"{name}.csv")
    pq.write_table(long_table(fires), tmp_path / "long.parquet")
    from_files = run(spark, tmp_path / "csv", tmp_path / "a", model=model)
    from_rows = run(spark, tmp_path / "long.parquet", tmp_path / "b", model=model)
    assert from_files.rows_in == from_rows.rows_in == sum(trace.values.size for trace in fires.values())
    for prefix, found in (("deep/", rows(tmp_path / "a")), ("", rows(tmp_path / "b"))):
        assert {(row["trace"], row["sensor"]) for row in found} == {
            (f"{prefix}{name}", sensor) for name, trace in fires.items() for sensor in trace.names
        }
        for row in found:
            assert (row["model"], row["delta"]) == (model, 0.5)
            trace = fires[row["trace"].removeprefix(prefix)]
            assert {name: row[name] for name in NUMBERS} == alone(trace, row["sensor"], delta=0.5, model=model)


def test_the_command_adds_up_to_what_sense_replay_prints(firelane, tmp_path):
    fire_trace(Fire(seed=4, rooms=2, seconds=60)).save(tmp_path / "fire.csv")
    told = json.loads(firelane("sense", "replay", tmp_path / "fire.csv", "--delta", 1, "--json").stdout)
    asked = ("pipeline", "sense", tmp_path / "fire.csv", "--delta", 1, "-o", tmp_path / "out")
    done = json.loads(firelane(*asked, "--json").stdout)
    found = rows(tmp_path / "out")
    assert done["rows_in"] == told["readings"] == sum(row["readings"] for row in found)
    assert told["sent"] == sum(row["sent"] for row in found)
    assert told["max_error"] == max(row["max_error"] for row in found)
    again = firelane(*asked)
    assert f"{told['sent']} of {told['readings']} readings sent" in again.stdout.replace(",", "")
    assert len(rows(tmp_path / "out")) == len(found)  # a table is replaced, not added to


def test_sensors_are_chosen_by_pattern(spark, tmp_path):
    fires = small_fires(1)
    fires["fire-0"].save(tmp_path / "fire.csv")
    pq.write_table(long_table(fires), tmp_path / "long.parquet")
    for source in ("fire.csv", "long.parquet"):
        run(spark, tmp_path / source, tmp_path / "out", sensors="T?_2*")
        assert {row["sensor"] for row in rows(tmp_path / "out")} == {"T1_2", "T2_2"}


def test_sensors_of_one_trace_may_be_read_at_times_of_their_own(spark, tmp_path):
    draw = np.random.default_rng(2)
    own = {
        f"s{count}": Trace(
            names=("x",), times_s=np.cumsum(draw.random(count)), values=np.cumsum(draw.normal(0, 1, (count, 1)), 0)
        )
        for count in (1, 7, 40)
    }
    table = pa.concat_tables(
        [
            pa.table({"trace": ["t"] * len(one.times_s), "time_s": one.times_s, "sensor": [name] * len(one.times_s),
                      "value": one.values[:, 0]})
            for name, one in own.items()
        ]
    )  # fmt: skip
    pq.write_table(table, tmp_path / "long.parquet")
    run(spark, tmp_path / "long.parquet", tmp_path / "out")
    found = {row["sensor"]: row for row in rows(tmp_path / "out")}
    for name, one in own.items():
        assert {column: found[name][column] for column in NUMBERS} == replay(one, delta=0.5).to_data()


def test_bad_rows_are_refused_with_the_reason_and_the_others_used(spark, tmp_path):
    good = [("t", 0.0, "a", 1.0), ("t", 1.0, "a", 9.0), ("u", 0.0, "a", 1.0)]
    bad = {
        "no trace": [(None, 0.0, "a", 1.0), ("", 0.0, "a", 1.0)],
        "no sensor": [("t", 0.0, None, 1.0)],
        "time_s is no number": [("t", None, "a", 1.0), ("t", np.nan, "a", 1.0), ("t", np.inf, "a", 1.0)],
        "value is no number": [("t", 5.0, "a", one) for one in (None, np.nan, -np.inf, 1e16)],
        "the sensor has another reading at this time": [("t", 3.0, "a", 1.0), ("t", 3.0, "a", 2.0)],
    }  # fmt: skip
    every = good + [row for some in bad.values() for row in some]
    columns = zip(*every, strict=True)
    table = pa.table(dict(zip(("trace", "time_s", "sensor", "value"), map(pa.array, columns), strict=True)))
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "some.parquet")
    (tmp_path / "in" / "half.parquet").write_bytes(b"PAR1")
    done = run(spark, tmp_path / "in", tmp_path / "out", model="last-value")
    assert done.rejects == {**{reason: len(some) for reason, some in bad.items()}, "not a whole Parquet file": 1}
    assert done.rows_in == len(every) + 1
    assert {(row["trace"], row["readings"], row["sent"]) for row in rows(tmp_path / "out")} == {
        ("t", 2, 2),
        ("u", 1, 1),
    }


def test_a_file_that_is_no_trace_is_refused_with_what_is_wrong_and_the_others_used(spark, tmp_path):
    (tmp_path / "in").mkdir()
    small_fires(1)["fire-0"].save(tmp_path / "in" / "good.csv")
    bad = {
        "nan.csv": ("TIME,a\n0,nan\n", 'sensor "a" reads nan at 0 s'),
        "back.csv": ("TIME,a\n1,1\n0,1\n", "time does not go forward in row 2"),
        "empty.csv": ("", "this cannot be read"),
    }
    for name, (text, _) in bad.items():
        (tmp_path / "in" / name).write_text(text)
    done = run(spark, tmp_path / "in", tmp_path / "out")
    assert done.rejects == {"not a trace": 3}
    refused = {row["source"].rpartition("/")[2]: row["row"] for row in rows(tmp_path / "out", "rejects")}
    assert all(words in refused[name] for name, (_, words) in bad.items())
    assert {row["trace"] for row in rows(tmp_path / "out")} == {"good"}


def test_what_makes_no_sense_is_one_line_before_spark_begins(firelane, tmp_path):
    for words, complaint in (
        ((tmp_path / "none",), "there is no such file or folder"),
        ((tmp_path,), "there are no traces in it"),
    ):
        done = firelane("pipeline", "sense", *words, "-o", tmp_path.parent / "out")
        assert done.exit_code == 1
        assert complaint in done.stderr
    with pytest.raises(FirelaneError, match="a delta must be from"):
        sending(delta=1e-300)
    with pytest.raises(FirelaneError, match="no model"):
        sending(model="arima")
    (tmp_path / "a.csv").write_text("TIME,a\n0,1\n")
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    assert "files of several kinds here" in firelane("pipeline", "sense", tmp_path, "-o", tmp_path.parent / "o").stderr
