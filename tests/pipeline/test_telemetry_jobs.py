"""The jobs `deliveries` and `subscriptions` on files: what an exchange wrote, and what somebody else did."""

from __future__ import annotations

import json
import math

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from some_records import START_US, delivery, delivery_table, membership_table

from firelane.errors import FirelaneError
from firelane.metrics import SCHEMA
from firelane.pipeline.jobs import deliveries, subscriptions

START_S = START_US // 1_000_000


def tables(folder):
    """The rows of every table, without the day of their folder."""
    return {
        one.name: pq.read_table(one).drop_columns([] if one.name == "rejects" else ["day"]).to_pylist()
        for one in folder.iterdir()
        if one.is_dir()
    }


def write(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def test_good_files_and_bad_ones_lose_nothing_in_silence(spark, tmp_path):
    kept = tmp_path / "data" / "telemetry" / "deliveries"
    rows = [delivery(number, ingress_us=START_US + number * 1_000_000) for number in range(100)]
    write(kept / "day=2026-02-02" / "part-1.parquet", delivery_table(rows[:60]))
    write(kept / "day=2026-02-02" / "part-2.parquet", delivery_table(rows[40:]))  # twenty of them twice
    bad = [delivery(200, weight=math.nan), delivery(201, ingress_us=-5), delivery(202, outcome="eaten"),
           delivery(None), delivery(203, ingress_us=START_US + 90_000_000)]  # fmt: skip
    write(kept / "day=2026-02-03" / "part-3.parquet", delivery_table(bad))
    (kept / "day=2026-02-03" / "part-4.parquet").write_bytes(b"PAR1 and no more")
    (kept / "day=2026-02-03" / ".part-5.draft").write_bytes(b"PAR1")
    write(kept / "day=2026-02-03" / "part-6.parquet", pa.table({}))
    other = delivery_table([delivery(301), delivery(302)]).drop_columns(["qos", "plan_version"])
    strange = {
        "weight": pa.array(["2", "two"]),
        "ingress_us": pa.array([float(START_US), float(START_US)]),
        "delay_us": pa.array([[1], [2]]),  # nothing that could be taken for a delay
        "colour": pa.array(["red", "blue"]),
    }
    for name, column in strange.items():
        place = other.schema.get_field_index(name)
        other = other.append_column(name, column) if place < 0 else other.set_column(place, name, column)
    write(kept / "by-hand.parquet", other)

    result = deliveries(spark, source=tmp_path / "data", output=tmp_path / "out", window_s=60)
    assert result.rows_in == 60 + 60 + 5 + 1 + 2
    assert result.rejects == {
        "ingress_us is no time": 1,
        "no record_id": 1,
        "not a whole Parquet file": 1,
        "outcome is unknown": 1,
        "weight is not above 0": 2,
    }
    assert result.notes == ("20 records had come before and count once",)
    found = tables(tmp_path / "out")
    assert result.rows_out == {"metrics": len(found["metrics"]), "loads": len(found["loads"])}
    assert [round(row["offered_hz"] * 60) for row in sorted(found["metrics"], key=lambda one: one["window_start"])] == [
        60 + 2, 40 + 1
    ]  # fmt: skip
    refused = {row["reason"]: row for row in found["rejects"]}
    assert refused["not a whole Parquet file"]["source"].endswith("part-4.parquet")
    assert json.loads(refused["outcome is unknown"]["row"])["outcome"] == "eaten"
    assert refused["outcome is unknown"]["source"].endswith("part-3.parquet")
    assert any("two" in row["row"] for row in found["rejects"] if row["row"])

    again = deliveries(spark, source=tmp_path / "data", output=tmp_path / "out", window_s=60)
    assert again.rows_out == result.rows_out
    assert sorted(map(repr, tables(tmp_path / "out")["metrics"])) == sorted(map(repr, found["metrics"]))
    plain = pq.read_table(tmp_path / "out" / "metrics").drop_columns(["day"])
    assert plain.cast(SCHEMA).num_rows == 2
    assert [field.type for field in plain.schema] == [field.type for field in SCHEMA]


def test_sums_agree_with_duckdb_on_the_same_files(spark, tmp_path):
    rows = [
        delivery(number, topic=f"t/{number % 7}", subscriber=f"s{number % 3}", weight=1 + number % 4,
                 ingress_us=START_US + number * 700_000, outcome=("delivered", "overflow")[number % 5 == 0])
        for number in range(2000)
    ]  # fmt: skip
    write(tmp_path / "in" / "one.parquet", delivery_table(rows))
    deliveries(spark, source=tmp_path / "in", output=tmp_path / "out", window_s=300)
    records = f"read_parquet('{tmp_path}/in/*.parquet')"
    window = "ingress_us // 300000000 * 300"
    loads = f"""SELECT {window} AS time_s, topic, sum(weight) / 300, sum(weight * wire_bytes) / 300
        FROM {records} GROUP BY ALL"""
    metrics = f"""SELECT {window} AS time_s, subscriber, sum(weight) / 300,
        coalesce(sum(weight) FILTER (outcome = 'delivered'), 0) / 300,
        coalesce(sum(weight) FILTER (outcome = 'overflow'), 0)::BIGINT FROM {records} GROUP BY ALL"""
    ours = {
        loads: f"""SELECT time_s, topic, messages_hz, bytes_hz FROM read_parquet('{tmp_path}/out/loads/*/*.parquet')""",
        metrics: f"""SELECT epoch(window_start)::BIGINT, subscriber, offered_hz, delivered_hz, dropped_overflow
            FROM read_parquet('{tmp_path}/out/metrics/*/*.parquet')""",
    }
    for theirs, query in ours.items():
        expected = sorted(duckdb.sql(theirs).fetchall())
        assert len(expected) > 10
        assert sorted(duckdb.sql(query).fetchall()) == expected


def test_who_is_subscribed_and_what_is_not_known(spark, tmp_path):
    rows = [(1, 0, "ann", "a", "subscribe"), (2, 61, "ben", "a", "subscribe"), (3, 125, "ann", "a", "lost"),
            (4, 130, None, "a", "lost")]  # fmt: skip
    write(tmp_path / "membership" / "day=2026-02-02" / "part-1.parquet", membership_table(rows))
    write(tmp_path / "membership" / "day=2026-02-02" / "part-2.parquet", membership_table(rows[1:]))
    result = subscriptions(spark, source=tmp_path, output=tmp_path / "out")
    start_s = START_US // 1_000_000
    loads = sorted(
        (row["time_s"] - start_s, row["topic"], row["subscribers"]) for row in tables(tmp_path / "out")["loads"]
    )
    assert loads == [(0, "a", 1), (60, "a", 2), (120, "a", 2)]
    assert (result.rows_in, result.rejects) == (7, {"no client": 2})
    assert "before 2026-02-02 02:40:00 UTC" in result.line()
    assert "2 records had come before" in result.line()


def test_a_clock_that_was_wrong_does_not_fill_the_disk_with_minutes(spark, tmp_path):
    rows = [(1, 5 - START_S, "ann", "a", "subscribe"), (2, 0, "ben", "a", "subscribe"), (3, 1, "cid", "a", "subscribe")]
    write(tmp_path / "in" / "one.parquet", membership_table(rows))
    result = subscriptions(spark, source=tmp_path / "in", output=tmp_path / "out")
    assert result.rejects == {"time_us is years away from the others": 1}
    assert result.rows_out == {"loads": 1}


def test_a_folder_without_records_is_refused(spark, tmp_path):
    (tmp_path / "in").mkdir()
    with pytest.raises(FirelaneError, match="there are no Parquet files with membership in them here"):
        subscriptions(spark, source=tmp_path / "in", output=tmp_path / "out")


def test_without_one_good_record_tables_are_empty_and_all_is_told(spark, tmp_path):
    write(tmp_path / "in" / "one.parquet", delivery_table([delivery(1, outcome="eaten"), delivery(2, weight=-1.0)]))
    result = deliveries(spark, source=tmp_path / "in", output=tmp_path / "out", window_s=60)
    assert (result.rows_in, result.rows_out, result.notes) == (2, {"metrics": 0, "loads": 0}, ())
    assert result.rejects == {"outcome is unknown": 1, "weight is not above 0": 1}


def test_a_folder_whose_name_looks_like_a_pattern_is_the_one_that_is_read(spark, tmp_path):
    write(tmp_path / "in [x]" / "one.parquet", delivery_table([delivery(1), delivery(2)]))
    write(tmp_path / "in x" / "one.parquet", delivery_table([delivery(number) for number in range(5)]))
    assert deliveries(spark, source=tmp_path / "in [x]", output=tmp_path / "out [x]").rows_in == 2
    assert (tmp_path / "out [x]" / "loads").is_dir()


def test_a_name_that_spark_cannot_read_is_one_line(spark, tmp_path):
    write(tmp_path / "in" / "12:00.parquet", delivery_table([delivery(1)]))
    with pytest.raises(FirelaneError, match=r"12:00.parquet: Spark cannot read names with a colon in them"):
        deliveries(spark, source=tmp_path / "in", output=tmp_path / "out")


def test_columns_with_a_dot_or_that_differ_in_case_harm_nobody(spark, tmp_path):
    more = delivery_table([delivery(1), delivery(2, outcome="eaten")])
    for name in ("a.b", "Topic", "`x`", "source"):
        more = more.append_column(name, pa.array(["red", "blue"]))
    write(tmp_path / "in" / "one.parquet", more)
    result = deliveries(spark, source=tmp_path / "in", output=tmp_path / "out")
    assert (result.rows_out["loads"], result.rejects) == (1, {"outcome is unknown": 1})
    (refused,) = tables(tmp_path / "out")["rejects"]
    assert refused["source"].endswith("one.parquet")
    assert '"a.b":"blue"' in refused["row"] or len(refused["row"]) == 300


def test_delays_longer_than_a_year_are_refused(spark, tmp_path):
    year_us = 366 * 86_400 * 1_000_000
    rows = [delivery(1, delay_us=2**62), delivery(2, delay_us=year_us + 1), delivery(3, delay_us=year_us)]
    write(tmp_path / "in" / "one.parquet", delivery_table(rows))
    result = deliveries(spark, source=tmp_path / "in", output=tmp_path / "out")
    assert result.rejects == {"delay_us is negative or longer than a year": 2}


def test_jobs_do_not_replace_the_tables_of_each_other(spark, tmp_path):
    write(tmp_path / "deliveries" / "one.parquet", delivery_table([delivery(1)]))
    write(tmp_path / "membership" / "one.parquet", membership_table([(1, 0, "ann", "a", "subscribe")]))
    deliveries(spark, source=tmp_path, output=tmp_path / "out")
    before = tables(tmp_path / "out")
    with pytest.raises(FirelaneError, match="out/loads: this table is of the job deliveries"):
        subscriptions(spark, source=tmp_path, output=tmp_path / "out")
    assert tables(tmp_path / "out") == before
