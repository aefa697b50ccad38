from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from firelane.errors import FirelaneError
from firelane.pipeline import writing


def rows_in(folder):
    return sorted(tuple(row.values()) for row in pq.read_table(folder).to_pylist())


def test_a_table_is_replaced_whole_and_counted(spark, tmp_path):
    place = tmp_path / "deep" / "loads"
    assert writing.write(spark.range(5), place) == 5
    assert writing.write(spark.range(2), place) == 2
    assert rows_in(place) == [(0,), (1,)]
    assert [one.name for one in place.parent.iterdir()] == ["loads"]


def test_partitions_that_are_gone_do_not_stay(spark, tmp_path):
    place = tmp_path / "loads"
    assert writing.write(spark.sql("SELECT id, id % 3 AS part FROM range(6)"), place, partition_by=["part"]) == 6
    assert {one.name for one in place.iterdir() if one.is_dir()} == {"part=0", "part=1", "part=2"}
    assert writing.write(spark.sql("SELECT id, 1 AS part FROM range(2)"), place, partition_by=["part"]) == 2
    assert {one.name for one in place.iterdir() if one.is_dir()} == {"part=1"}
    assert rows_in(place) == [(0, 1), (1, 1)]


def test_an_empty_table_is_a_table(spark, tmp_path):
    assert writing.write(spark.range(0), tmp_path / "none") == 0
    assert spark.read.parquet(str(tmp_path / "none")).columns == ["id"]


def test_a_write_that_fails_leaves_the_table_of_before(spark, tmp_path):
    place = tmp_path / "loads"
    writing.write(spark.range(3), place)
    with pytest.raises(Exception, match="no good"):
        writing.write(spark.range(9).selectExpr("IF(id > 7, raise_error('no good'), id) AS id"), place)
    assert rows_in(place) == [(0,), (1,), (2,)]
    assert [one.name for one in tmp_path.iterdir()] == ["loads"]


def test_what_a_killed_run_left_beside_is_swept_away(spark, tmp_path):
    left = tmp_path / ".loads.0a1b2c3d.unfinished" / "part=7"
    left.mkdir(parents=True)
    (left / "half.parquet").write_text("PAR1")
    writing.write(spark.sql("SELECT id, id % 2 AS part FROM range(4)"), tmp_path / "loads", partition_by=["part"])
    assert [one.name for one in tmp_path.iterdir()] == ["loads"]
    assert {one.name for one in (tmp_path / "loads").iterdir() if one.is_dir()} == {"part=0", "part=1"}


def test_a_folder_with_other_things_in_it_is_left_alone(spark, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("Dear")
    (tmp_path / "file").write_text("")
    for name, complaint in (("letters", "something else"), ("file", "this is a file")):
        with pytest.raises(FirelaneError, match=complaint):
            writing.write(spark.range(1), tmp_path / name)
        with pytest.raises(FirelaneError, match=complaint):
            writing.remove(tmp_path / name)
    assert (tmp_path / "letters" / "dear.txt").read_text() == "Dear"


def test_a_table_that_is_no_longer_written_goes(spark, tmp_path):
    writing.write(spark.range(1), tmp_path / "changes")
    writing.remove(tmp_path / "changes")
    writing.remove(tmp_path / "changes")
    assert not (tmp_path / "changes").exists()
