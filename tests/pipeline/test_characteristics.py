from __future__ import annotations

import csv
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firelane.errors import FirelaneError
from firelane.pipeline import characteristics, jobs
from firelane.pipeline.positions import Grid
from firelane.pipeline.schemas import LOADS
from trace_data import BOLOGNA, needs_bologna

ROWS = [
    (0, "a", 10, None, None),
    (0, "b", 2, None, None),
    (0, "c", 3, None, None),
    (60, "a", 1, None, None),
    (60, "b", 5, None, None),
    (120, "b", 5, None, None),
]


def test_sizes_over_time_are_those_of_the_topics_that_are_there(spark):
    table = characteristics.over_time(spark.createDataFrame(ROWS, LOADS))
    assert [tuple(row) for row in table.collect()] == [
        (0, 3, 15, 5.0, 3.0, pytest.approx(9.3), 10),  # 95 %: nine tenths of the way from 3 to 10
        (60, 2, 6, 3.0, 3.0, pytest.approx(4.8), 5),
        (120, 1, 5, 5.0, 5.0, 5.0, 5),
    ]


def test_the_largest_topics_are_those_over_the_whole_time(spark):
    table = characteristics.largest(spark.createDataFrame(ROWS, LOADS), most=2)
    assert [tuple(row)[:3] for row in table.collect()] == [
        (0, "b", 2),
        (60, "b", 5),
        (120, "b", 5),
        (0, "a", 10),
        (60, "a", 1),
    ]


def test_sizes_are_counted_with_the_share_that_reaches_them(spark):
    counted = characteristics.sizes(spark.createDataFrame(ROWS, LOADS))
    assert counted.size.tolist() == [1, 2, 3, 5, 10]
    assert counted.count.tolist() == [1, 1, 1, 2, 1]
    assert counted.at_least.tolist() == pytest.approx([1, 5 / 6, 4 / 6, 3 / 6, 1 / 6])


def test_the_job_writes_tables_pictures_and_rejects_and_again_the_same(spark, tmp_path):
    loads = tmp_path / "in" / "loads"
    loads.mkdir(parents=True)
    unusable = [(0, "d", 0, None, None), (0, "e", None, 1.0, 1.0), (None, "f", 1, None, None)]
    columns = zip(*ROWS, *unusable, strict=True)
    pq.write_table(
        pa.table(dict(zip(("time_s", "topic", "subscribers"), columns, strict=False))), loads / "part.parquet"
    )
    for _ in range(2):
        done = jobs.characteristics(spark, source=tmp_path / "in", output=tmp_path / "out")
        assert (done.rows_in, done.rejects) == (9, {"subscribers is not above 0": 2, "time_s is no number": 1})
        assert done.rows_out == {"over_time": 3, "largest": 6, "distribution": 5, "fits": 0}
        assert done.notes == ("too few sizes to say anything of their tail",)
        assert {one.name for one in (tmp_path / "out").iterdir()} == {
            *(f"{table}{end}" for table in done.rows_out for end in ("", ".csv")),
            "rejects",
            "_lock",
            "over_time.png",
            "distribution.png",
        }
    with (tmp_path / "out" / "over_time.csv").open() as text:
        assert [row["largest"] for row in csv.DictReader(text)] == ["10", "5", "5"]


def test_loads_without_subscribers_or_of_other_columns_are_one_line(spark, tmp_path):
    (tmp_path / "none").mkdir()
    pq.write_table(pa.table({"time_s": [1], "topic": ["a"]}), tmp_path / "other.parquet")
    zeros = pa.table({"time_s": [1], "topic": ["a"], "subscribers": pa.array([None], pa.int64())})
    pq.write_table(zeros, tmp_path / "zeros.parquet")
    for name, complaint in (
        ("none", "there are no Parquet files with loads in them"),
        ("missing", "no such file or folder"),
        ("other.parquet", "no row has a time, a topic and subscribers"),
        ("zeros.parquet", "no row has a time, a topic and subscribers"),
    ):
        with pytest.raises(FirelaneError, match=complaint):
            jobs.characteristics(spark, source=tmp_path / name, output=tmp_path / "out")


def test_loads_of_other_types_are_read_as_far_as_they_go(spark, tmp_path):
    (tmp_path / "in").mkdir()
    steps, topics = [0.0, math.nan, 60.0, 60.0], ["a", "b", None, "d"]
    sizes = {"one": [2.0, 3.0, 4.0, math.nan], "two": ["5", "six", "7", "8"]}
    for name, subscribers in sizes.items():
        table = pa.table({"time_s": steps, "topic": topics, "subscribers": subscribers})
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet")
    done = jobs.characteristics(spark, source=tmp_path / "in", output=tmp_path / "out")
    assert done.rejects == {"no topic": 2, "subscribers is not above 0": 1, "time_s is no number": 2}
    assert sorted(pq.read_table(tmp_path / "out" / "distribution")["subscribers"].to_pylist()) == [2, 5, 8]
    assert done.notes[1:] == ("topics that are in a step more than once, and count each time: 1",)


def test_more_subscribers_than_there_can_be_are_refused_and_harm_nobody(spark, tmp_path):
    sizes = [2**62, 2**62, 2**63 - 1, 10**10, 7]
    table = pa.table({"time_s": [0] * 5, "topic": list("abcde"), "subscribers": sizes})
    pq.write_table(table, tmp_path / "some.parquet")
    done = jobs.characteristics(spark, source=tmp_path / "some.parquet", output=tmp_path / "out")
    assert done.rejects == {"subscribers is above 10000000000": 3}
    assert pq.read_table(tmp_path / "out" / "over_time")["subscribers"].to_pylist() == [10**10 + 7]


@pytest.mark.parametrize("name", ["over_time.csv", "fits.csv", "over_time.png", "distribution.png"])
def test_files_that_were_there_before_are_not_replaced(spark, tmp_path, name):
    pq.write_table(pa.table({"time_s": [0], "topic": ["a"], "subscribers": [1]}), tmp_path / "some.parquet")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("Dear")
    with pytest.raises(FirelaneError, match=f"out/{name}: this file was there before"):
        jobs.characteristics(spark, source=tmp_path / "some.parquet", output=tmp_path / "out")
    assert (tmp_path / "out" / name).read_text() == "Dear"


def test_the_tables_of_positions_are_not_replaced(spark, tmp_path):
    (tmp_path / "some.tr").write_text("0 a 1 1 1\nhalf\n")
    jobs.positions(spark, source=tmp_path / "some.tr", output=tmp_path / "out", grid=Grid())
    with pytest.raises(FirelaneError, match="out/rejects: this table is of the job positions"):
        jobs.characteristics(spark, source=tmp_path / "out", output=tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "rejects").num_rows == 1


@pytest.mark.slow
@needs_bologna
def test_bologna_is_said_to_have_no_pareto_tail(spark, tmp_path):
    """As the README beside the trace has it: exponents 3.2 and 5.7 of the top 10 and 5 %, empty zones included."""
    jobs.positions(spark, source=BOLOGNA, output=tmp_path / "in", grid=Grid())
    done = jobs.characteristics(spark, source=tmp_path / "in", output=tmp_path / "out")
    assert done.notes[0].startswith("this is not a Pareto tail")
    fits = {row["tail"]: row for row in pq.read_table(tmp_path / "out" / "fits").to_pylist()}
    assert fits["top 10 %"]["exponent"] == pytest.approx(3.2, abs=0.4)
    assert fits["top 5 %"]["exponent"] == pytest.approx(5.7, abs=0.6)
    assert fits["top 10 %"]["lognormal_distance"] < fits["top 10 %"]["distance"]
