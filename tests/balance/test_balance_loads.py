"""Loads from Parquet and CSV, and what is said of files that cannot be used."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from loads_made import some_loads
from pyarrow import csv, parquet

from firelane.balance import Loads, read_loads
from firelane.balance.loads import LoadsError, loads_of

ROWS = {
    "time_s": pa.array([0, 0, 60, 60], pa.int64()),
    "topic": ["a", "b", "b", "c"],
    "subscribers": pa.array([10, 20, 25, 5], pa.int64()),
    "messages_hz": [1.5, 2.5, 3.5, 4.5],
}


def table(**changes):
    columns = {name: column for name, column in {**ROWS, **changes}.items() if column is not None}
    return pa.table(columns)


def written(folder, **changes):
    path = folder / "loads.parquet"
    parquet.write_table(table(**changes), path)
    return path


def test_a_row_for_each_topic_and_step_becomes_a_grid_with_zeros(tmp_path):
    loads = read_loads(written(tmp_path))
    assert loads.topics == ("a", "b", "c")
    assert loads.times_s.tolist() == [0, 60]
    assert loads.load.tolist() == [[10, 20, 0], [0, 25, 5]]
    assert loads.unit == "subscribers"


def test_the_load_to_go_by_can_be_chosen(tmp_path):
    loads = read_loads(written(tmp_path), load="messages")
    assert loads.load.tolist() == [[1.5, 2.5, 0], [0, 3.5, 4.5]]
    assert loads.unit == "messages/s"


def test_without_a_choice_the_first_load_that_is_there_counts(tmp_path):
    assert read_loads(written(tmp_path, subscribers=None)).unit == "messages/s"
    nothing = pa.nulls(4, pa.int64())
    assert read_loads(written(tmp_path, subscribers=nothing)).unit == "messages/s"


def test_a_folder_of_parquet_files_is_one_table(tmp_path):
    folder = tmp_path / "loads"
    folder.mkdir()
    parquet.write_table(table().slice(0, 2), folder / "part-0.parquet")
    parquet.write_table(table().slice(2, 2), folder / "part-1.parquet")
    assert read_loads(folder).load.tolist() == [[10, 20, 0], [0, 25, 5]]


def test_csv_says_the_same_as_parquet_and_topics_may_look_like_numbers(tmp_path):
    path = tmp_path / "loads.csv"
    csv.write_csv(table(topic=["1", "2", "2", "3"]), path)
    loads = read_loads(path)
    assert loads.topics == ("1", "2", "3")
    assert loads.load.tolist() == [[10, 20, 0], [0, 25, 5]]


def test_steps_are_put_in_order_of_time():
    mixed = table().take([3, 0, 2, 1])
    assert loads_of(mixed).times_s.tolist() == [0, 60]
    assert loads_of(mixed).load.sum(axis=1).tolist() == [30, 30]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time_s": None}, "column time_s is missing"),
        ({"topic": None}, "column topic is missing"),
        ({"subscribers": None, "messages_hz": None}, "column subscribers is missing"),
        ({"subscribers": [10, -1, 25, 5]}, 'topic "b" at 0 s has the load -1; write'),
        ({"subscribers": [10.0, float("nan"), 25.0, 5.0]}, "has the load nan"),
        ({"subscribers": [10.0, float("inf"), 25.0, 5.0]}, "has the load inf"),
        ({"subscribers": [10.0, 1e308, 25.0, 5.0]}, "has the load 1e+308; write a number from 0 to 1e+15"),
        ({"subscribers": pa.array([10, None, 25, 5], pa.int64())}, "subscribers: row 2 has no value"),
        ({"subscribers": ["10", "x", "25", "5"]}, "subscribers: this column holds string, not numbers"),
        ({"time_s": [0.0, 0.5, 60.0, 60.0]}, "time_s: this column holds double, not whole numbers"),
        ({"topic": ["a", "a", "b", "c"]}, 'topic "a" is there twice at 0 s; add its rows up'),
    ],
)
def test_what_is_wrong_with_loads_is_said_in_one_line_with_the_file(tmp_path, changes, words):
    path = written(tmp_path, **changes)
    with pytest.raises(LoadsError) as problem:
        read_loads(path)
    assert str(problem.value).startswith(f"{path}: ")
    assert words in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_load_that_is_not_there_is_refused_with_what_is(tmp_path):
    with pytest.raises(LoadsError, match="bytes_hz is missing; it has subscribers, messages_hz"):
        read_loads(written(tmp_path), load="bytes")


def test_no_rows_no_file_and_no_table_are_refused(tmp_path):
    with pytest.raises(LoadsError, match="no rows"):
        loads_of(table().slice(0, 0))
    with pytest.raises(LoadsError, match="there is no such file"):
        read_loads(tmp_path / "nowhere.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LoadsError, match="there is no Parquet file in it"):
        read_loads(tmp_path / "empty")
    (tmp_path / "twice.csv").write_text("time_s,topic,subscribers,subscribers\n1,a,1,2\n")
    with pytest.raises(LoadsError, match="the column subscribers is there twice"):
        read_loads(tmp_path / "twice.csv")
    (tmp_path / "text.parquet").write_text("time_s,topic\n")
    with pytest.raises(LoadsError, match=r"cannot be read: .*give a Parquet file or folder"):
        read_loads(tmp_path / "text.parquet")
    (tmp_path / "bad.csv").write_text("time_s,topic,subscribers\n1,a\n")
    with pytest.raises(LoadsError, match="cannot be read"):
        read_loads(tmp_path / "bad.csv")


def test_more_cells_than_fit_are_refused_before_memory_is_taken():
    rows = 30_000
    wide = pa.table({"time_s": np.arange(rows), "topic": [str(i) for i in range(rows)], "subscribers": np.ones(rows)})
    with pytest.raises(LoadsError, match="take longer steps"):
        loads_of(wide)


@given(some_loads())
def test_a_grid_survives_its_long_form(load):
    loads = Loads(topics=tuple(map(str, range(load.shape[1]))), times_s=np.arange(len(load)), load=load)
    step, topic = np.nonzero(np.ones_like(load))
    long = pa.table(
        {"time_s": loads.times_s[step], "topic": [loads.topics[i] for i in topic], "bytes_hz": load.ravel()}
    )
    again = loads_of(long)
    assert again.topics == loads.topics
    assert np.array_equal(again.load, load)
