"""Tables that grow by batches: a batch that comes again takes its own place."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.dataset as ds

from firelane.pipeline.watch.batches import write_batch

BEFORE, AFTER = datetime(2026, 5, 8, 23, 59, 59, 999_999, UTC), datetime(2026, 5, 9, tzinfo=UTC)


def table(*rows):
    kinds = pa.schema([("time", pa.timestamp("us", tz="UTC")), ("value", pa.int64())])
    return pa.Table.from_pylist([{"time": time, "value": value} for time, value in rows], schema=kinds)


def read(folder):
    rows = ds.dataset(folder, partitioning="hive").to_table().to_pylist()
    return sorted((str(one["day"]), one["value"]) for one in rows)


def test_rows_go_where_their_day_is(tmp_path):
    write_batch(table((BEFORE, 1), (AFTER, 2)), tmp_path, query="q", batch=7, time="time")
    assert read(tmp_path) == [("2026-05-08", 1), ("2026-05-09", 2)]
    assert sorted(one.name for one in tmp_path.rglob("*.parquet")) == ["q-0000000007.parquet"] * 2


def test_a_batch_that_comes_again_replaces_itself_and_no_other(tmp_path):
    write_batch(table((AFTER, 1)), tmp_path, query="q", batch=1, time="time")
    write_batch(table((AFTER, 2)), tmp_path, query="q", batch=2, time="time")
    write_batch(table((AFTER, 2)), tmp_path, query="q", batch=2, time="time")
    write_batch(table((AFTER, 3)), tmp_path, query="other", batch=2, time="time")
    assert [value for _, value in read(tmp_path)] == [1, 2, 3]


def test_times_may_be_whole_seconds_and_need_not_be_kept(tmp_path):
    seconds = pa.table({"time_s": [int(BEFORE.timestamp()), int(AFTER.timestamp())], "value": [1, 2]})
    write_batch(seconds, tmp_path, query="q", batch=0, time="time_s", keep=False)
    assert read(tmp_path) == [("2026-05-08", 1), ("2026-05-09", 2)]
    assert ds.dataset(tmp_path).schema.names == ["value"]


def test_half_a_file_is_not_seen(tmp_path):
    (tmp_path / "day=2026-05-09").mkdir()
    (tmp_path / "day=2026-05-09" / ".q-0000000000.parquet").write_bytes(b"half")
    write_batch(table((AFTER, 1)), tmp_path, query="q", batch=1, time="time")
    assert [value for _, value in read(tmp_path)] == [1]
