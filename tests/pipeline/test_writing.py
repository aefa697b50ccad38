from __future__ import annotations

import errno
import os
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest

from firelane.errors import FirelaneError
from firelane.pipeline import writing


def rows_in(folder):
    return sorted(tuple(row.values()) for row in pq.read_table(folder).to_pylist())


@contextmanager
def loads_in(folder, job="deliveries", tables=("loads",)):
    with writing.reserved(folder, job, tables) as output:
        yield output


def write(table, folder, **options):
    with loads_in(folder) as output:
        return output.write("loads", table, **options)


def names_in(folder):
    return {one.name for one in folder.iterdir() if one.name != writing.LOCK}


def test_a_table_is_replaced_whole_and_counted(spark, tmp_path):
    place = tmp_path / "deep"
    assert write(spark.range(5), place) == 5
    assert write(spark.range(2), place) == 2
    assert rows_in(place / "loads") == [(0,), (1,)]
    assert names_in(place) == {"loads"}


def test_partitions_that_are_gone_do_not_stay(spark, tmp_path):
    place = tmp_path / "loads"
    assert write(spark.sql("SELECT id, id % 3 AS part FROM range(6)"), tmp_path, partition_by=["part"]) == 6
    assert {one.name for one in place.iterdir() if one.is_dir()} == {"part=0", "part=1", "part=2"}
    assert write(spark.sql("SELECT id, 1 AS part FROM range(2)"), tmp_path, partition_by=["part"]) == 2
    assert {one.name for one in place.iterdir() if one.is_dir()} == {"part=1"}
    assert rows_in(place) == [(0, 1), (1, 1)]


def test_an_empty_table_is_a_table(spark, tmp_path):
    assert write(spark.range(0), tmp_path) == 0
    assert spark.read.parquet(str(tmp_path / "loads")).columns == ["id"]


def test_a_write_that_fails_leaves_the_tables_of_before(spark, tmp_path):
    with loads_in(tmp_path, tables=("loads", "changes")) as output:
        output.write("loads", spark.range(3))
        output.write("changes", spark.range(1))
    with pytest.raises(Exception, match="no good"):
        write(spark.range(9).selectExpr("IF(id > 7, raise_error('no good'), id) AS id"), tmp_path)
    assert rows_in(tmp_path / "loads") == [(0,), (1,), (2,)]
    assert names_in(tmp_path) == {"loads", "changes"}


def test_a_full_disk_is_one_line_and_leaves_no_draft(spark, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing, "count", full)
    with pytest.raises(FirelaneError, match="cannot be written: No space left on device"):
        write(spark.range(3), tmp_path)
    assert names_in(tmp_path) == set()


def test_what_a_killed_run_left_beside_is_swept_away(spark, tmp_path):
    left = tmp_path / ".loads.0a1b2c3d.unfinished" / "part=7"
    left.mkdir(parents=True)
    (left / "half.parquet").write_text("PAR1")
    write(spark.sql("SELECT id, id % 2 AS part FROM range(4)"), tmp_path, partition_by=["part"])
    assert names_in(tmp_path) == {"loads"}
    assert {one.name for one in (tmp_path / "loads").iterdir() if one.is_dir()} == {"part=0", "part=1"}


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_lives(spark, tmp_path):
    draft = tmp_path / ".loads.0a1b2c3d.unfinished"
    with loads_in(tmp_path) as first:
        draft.mkdir()  # the first is writing this
        for job in ("deliveries", "city"):
            with pytest.raises(FirelaneError, match="another run is writing to this folder"), loads_in(tmp_path, job):
                pass
        assert draft.exists()
        assert first.write("loads", spark.range(3)) == 3


@pytest.mark.parametrize(
    ("mark", "content", "complaint"),
    [("dear.txt", b"", "something else"), ("_SUCCESS", b"", "something else"), ("_job", b"\xff", "of the job \ufffd;")],
)
def test_a_folder_that_no_job_has_written_is_left_alone(tmp_path, mark, content, complaint):
    (tmp_path / "loads").mkdir()
    (tmp_path / "loads" / "part-0.csv").write_text("Dear")
    (tmp_path / "loads" / mark).write_bytes(content)
    with pytest.raises(FirelaneError, match=complaint), loads_in(tmp_path):
        pass
    assert (tmp_path / "loads" / "part-0.csv").read_text() == "Dear"


def test_a_file_in_the_place_of_a_table_or_folder_is_one_line(tmp_path):
    (tmp_path / "loads").write_text("")
    with pytest.raises(FirelaneError, match="this is a file"), loads_in(tmp_path):
        pass
    with (
        pytest.raises(FirelaneError, match=r"loads/x: cannot be written: Not a directory"),
        loads_in(tmp_path / "loads" / "x"),
    ):
        pass


def test_a_file_beside_a_table_is_only_replaced_if_the_table_is_there(spark, tmp_path):
    (tmp_path / "loads.csv").write_text("Dear")
    with (
        pytest.raises(FirelaneError, match=r"loads\.csv: this file was there before"),
        writing.reserved(tmp_path, "deliveries", ("loads",), ("loads.csv",)),
    ):
        pass
    assert (tmp_path / "loads.csv").read_text() == "Dear"
    write(spark.range(1), tmp_path)
    with writing.reserved(tmp_path, "deliveries", ("loads",), ("loads.csv",)) as output:
        output.write("loads", spark.range(2))


def test_a_table_of_another_job_is_refused_by_its_name(spark, tmp_path):
    write(spark.range(1), tmp_path)
    with (
        pytest.raises(FirelaneError, match="of the job deliveries; name another folder for those of positions"),
        loads_in(tmp_path, "positions", ("changes", "loads")),
    ):
        pass
    assert rows_in(tmp_path / "loads") == [(0,)]


def test_a_table_that_is_no_longer_written_goes(spark, tmp_path):
    for written in (("loads", "changes"), ("loads",), ("loads",)):
        with loads_in(tmp_path, tables=("loads", "changes")) as output:
            for name in written:
                output.write(name, spark.range(1))
        assert names_in(tmp_path) == set(written)


def test_tables_are_not_written_into_what_is_read(tmp_path):
    writing.refuse_inside(tmp_path / "out", tmp_path / "in")
    for output in (tmp_path / "in", tmp_path / "in" / "deep", tmp_path / "x" / ".." / "in"):
        with pytest.raises(FirelaneError, match="this is where the input is"):
            writing.refuse_inside(output, tmp_path / "in")
