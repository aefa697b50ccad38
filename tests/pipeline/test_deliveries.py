"""Delivery records to Metrics and loads: worked by hand, and counted again with numpy."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from some_records import START_US, delivery, drop

from firelane.histogram import BUCKETS, bucket_of, edges_s, percentiles_s
from firelane.metrics import DROP_REASONS, SCHEMA
from firelane.pipeline.schemas import DELIVERIES

WINDOW_S = 60
EMPTY = {f"dropped_{reason}": 0 for reason in DROP_REASONS}


def measured(spark, rows, window_s=WINDOW_S):
    """The Metrics of these records by subscriber, as plain rows."""
    from firelane.pipeline.telemetry import buckets, metrics, once, timed

    records = once(timed(spark.createDataFrame(rows, DELIVERIES)))
    found = metrics(buckets(records, window_s=window_s)).toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["window_start"], row["subscriber"], row["filter"], row["priority"]))


def test_every_delay_falls_into_the_bucket_that_the_exchange_counts_it_in(spark):
    from pyspark.sql import functions as sf

    from firelane.pipeline import delays

    edges = edges_s()
    chance = np.random.default_rng(5)
    extremes = [0.0, -1.0, -math.inf, math.inf, 5e-324, 1e300, 1e-6]
    micros = chance.integers(0, 10**10, 5000) / 1e6
    spread = 10.0 ** chance.uniform(-8, 5, 5000)
    delays_s = np.concatenate([edges, np.nextafter(edges, -1), np.nextafter(edges, 9e9), extremes, micros, spread])
    table = spark.createDataFrame(pa.table({"number": np.arange(len(delays_s)), "delay_s": delays_s}))
    placed = table.withColumn("bucket", delays.bucket_of(sf.col("delay_s")))
    edged = placed.select(
        "number",
        "bucket",
        delays.edge_s(sf.col("bucket")).alias("lower"),
        delays.edge_s(sf.col("bucket") + 1).alias("upper"),
    )
    found = edged.toArrow().sort_by("number")
    expected = bucket_of(delays_s)
    np.testing.assert_array_equal(found["bucket"], expected)
    np.testing.assert_array_equal(found["lower"], edges[expected])
    np.testing.assert_array_equal(found["upper"], edges[expected + 1])


def test_a_window_of_one_subscription_worked_by_hand(spark):
    rows = [
        delivery(1, delay_us=1000, weight=10.0),
        delivery(2, delay_us=3000, weight=30.0, plan_version=8),
        delivery(3, delay_us=None, weight=10.0),  # made, but when is not known
        drop(4, "policy"),
        drop(5, "policy"),
        drop(6, "overflow", plan_version=None),
        delivery(1, delay_us=1000, weight=10.0),  # a twin of the first
    ]
    (row,) = measured(spark, rows)
    edges = edges_s()
    first, second = bucket_of(np.array([0.001, 0.003]))
    # Of 40 timed deliveries the 20th is a third of the way through the second bucket's 30, and so on.
    p50, p95, p99 = (edges[second] + (rank - 10) / 30 * (edges[second + 1] - edges[second]) for rank in (20, 38, 39.6))
    assert first != second
    assert row == {
        "source": "live",
        "window_start": datetime(2026, 2, 2, 2, 40, tzinfo=UTC),
        "window_s": 60.0,
        "subscriber": "ann",
        "filter": "a/+",
        "flow": None,
        "priority": 2,
        "drop_rate": 2 / 53,
        "stable": False,
        "offered_hz": 53 / 60,
        "delivered_hz": 50 / 60,
        "success": 50 / 53,
        "delay_mean_s": pytest.approx(0.0025, rel=1e-15),
        "delay_p50_s": pytest.approx(p50, rel=1e-12),
        "delay_p95_s": pytest.approx(p95, rel=1e-12),
        "delay_p99_s": pytest.approx(p99, rel=1e-12),
        "bytes": 5000,
        "utility": None,
        "utility_max": None,
        **EMPTY,
        "dropped_policy": 2,
        "dropped_overflow": 1,
        "lost": None,
        "queued": None,
        "plan_version": 8,
    }


def test_classes_subscriptions_and_windows_stand_apart_and_folded_records_stand_alone(spark):
    rows = [
        delivery(1),
        delivery(2, priority=3),
        delivery(3, filter="b"),
        delivery(4, ingress_us=START_US + 59_999_999),
        delivery(5, ingress_us=START_US + 60_000_000),
        delivery(6, topic=None, weight=400.0),  # folded, but of a known subscription
        delivery(7, subscriber=None, filter=None, topic=None, qos=None, plan_version=None, weight=5000.0),
        drop(8, "overflow", subscriber=None, filter=None, topic=None, qos=None, plan_version=None, weight=70.4),
    ]
    found = measured(spark, rows)
    minutes = [(row["window_start"].minute, row["subscriber"], row["filter"], row["priority"]) for row in found]
    assert minutes == [(40, "", "", 2), (40, "ann", "a/+", 2), (40, "ann", "a/+", 3), (40, "ann", "b", 2),
                       (41, "ann", "a/+", 2)]  # fmt: skip
    assert [round(row["offered_hz"] * 60, 6) for row in found] == [5070.4, 402, 1, 1, 1]
    assert (found[0]["dropped_overflow"], found[0]["plan_version"]) == (70, None)


def test_a_subscription_that_only_loses_has_no_delay(spark):
    (row,) = measured(spark, [drop(1, "expired"), drop(2, "superseded"), drop(3, "too_large"), drop(4, "disconnected")])
    assert (row["success"], row["bytes"], row["delay_mean_s"], row["delay_p50_s"]) == (0, 0, None, None)
    assert {name: row[name] for name in EMPTY} == {
        **dict.fromkeys(EMPTY, 1), "dropped_policy": 0, "dropped_overflow": 0
    }  # fmt: skip


def random_records(chance, count):
    outcomes = ["delivered", *DROP_REASONS]
    rows = []
    for number in range(count):
        outcome = outcomes[chance.choice(len(outcomes), p=[0.7, *[0.05] * 6])]
        made = outcome == "delivered"
        rows.append(
            delivery(
                number,
                ingress_us=START_US + int(chance.integers(0, 180_000_000)),
                subscriber=[None, "ann", "ben"][chance.integers(3)],
                filter=["a", "b/#"][chance.integers(2)],
                topic=[None, "a", "b/c", "b/d"][chance.integers(4)],
                priority=int(chance.integers(3)),
                wire_bytes=int(chance.integers(60, 1500)),
                delay_us=int(10 ** chance.uniform(0, 8)) if made and chance.random() < 0.95 else None,
                outcome=outcome,
                weight=float(chance.choice([1, 2, 100])) if made else 1.0,
                plan_version=int(chance.integers(5)),
            )
        )
    return rows


def counted_again(rows):
    """The same Metrics by numpy, from the definitions."""
    names = [field.split()[0] for field in DELIVERIES.split(",")]
    table = [dict(zip(names, row, strict=True)) for row in rows]
    groups = {}
    for row in table:
        key = (row["ingress_us"] // 60_000_000, row["subscriber"] or "", row["filter"], row["priority"])
        groups.setdefault(key, []).append(row)
    result = []
    for key in sorted(groups):
        group = groups[key]
        weight = np.array([row["weight"] for row in group])
        made = np.array([row["outcome"] == "delivered" for row in group])
        timed = np.array([row["delay_us"] is not None for row in group])
        delay_s = np.array([row["delay_us"] or 0 for row in group]) / 1e6
        counts = np.zeros((1, BUCKETS), np.int64)
        np.add.at(counts[0], bucket_of(delay_s[timed]), weight[timed].astype(np.int64))
        p50, p95, p99 = percentiles_s(counts, (0.5, 0.95, 0.99))[0]
        result.append(
            {
                "subscriber": key[1],
                "priority": key[3],
                "offered_hz": weight.sum() / 60,
                "delivered_hz": weight[made].sum() / 60,
                "success": weight[made].sum() / weight.sum(),
                "delay_p50_s": p50,
                "delay_p95_s": p95,
                "delay_p99_s": p99,
                "bytes": sum(int(row["weight"]) * row["wire_bytes"] for row in group if row["outcome"] == "delivered"),
                **{f"dropped_{why}": sum(row["outcome"] == why for row in group) for why in DROP_REASONS},
                "plan_version": max(row["plan_version"] for row in group),
            }
        )
        total_us = sum(row["weight"] * row["delay_us"] for row in group if row["delay_us"] is not None)
        result[-1]["delay_mean_s"] = total_us / weight[timed].sum() / 1e6
    return result


def test_many_random_records_agree_bit_by_bit_with_numpy_however_they_are_cut_and_merged(spark):
    from firelane.pipeline.telemetry import buckets, metrics, once, timed

    rows = random_records(np.random.default_rng(11), 3000)
    expected = counted_again(rows)
    assert len(expected) > 30
    twins = rows[::7]
    records = timed(spark.createDataFrame(rows + twins, DELIVERIES)).repartition(5)
    halves = [buckets(once(records).where(f"ingress_us % 2 = {half}"), window_s=60) for half in (0, 1)]
    found = metrics(halves[0].unionAll(halves[1])).toArrow().to_pylist()
    found.sort(key=lambda row: (row["window_start"], row["subscriber"], row["filter"], row["priority"]))
    assert [{name: row[name] for name in expected[0]} for row in found] == expected


def test_the_columns_are_those_of_metrics(spark):
    from firelane.pipeline.telemetry import buckets, metrics, timed

    table = metrics(buckets(timed(spark.createDataFrame([delivery(1)], DELIVERIES)), window_s=1)).toArrow()
    assert [(one.name, one.type) for one in table.schema] == [(one.name, one.type) for one in SCHEMA]
    assert table.cast(SCHEMA).num_rows == 1  # nothing is null that may not be


def test_loads_of_topics_count_all_that_was_due(spark):
    from firelane.pipeline.telemetry import timed, topic_loads

    rows = [
        delivery(1, weight=10.0),
        drop(2, "overflow", wire_bytes=500),
        delivery(3, topic="a/c", subscriber="ben", ingress_us=START_US + 61_000_000),
        delivery(4, topic=None, weight=90.0),
    ]
    loads = topic_loads(timed(spark.createDataFrame(rows, DELIVERIES)), window_s=60).toArrow().to_pylist()
    assert sorted(tuple(row.values()) for row in loads) == [
        (1_770_000_000, "", None, 90 / 60, 9000 / 60),
        (1_770_000_000, "a/b", None, 11 / 60, 1500 / 60),
        (1_770_000_060, "a/c", None, 1 / 60, 100 / 60),
    ]


def test_bad_records_are_told_apart_with_the_reason(spark):
    from firelane.pipeline.telemetry import delivery_fault

    bad = {
        "no record_id": [{"record_id": None}, {"record_id": ""}],
        "ingress_us is no time": [{"ingress_us": None}, {"ingress_us": -1}, {"ingress_us": 2**63 - 1}],
        "priority is not from 0 to 15": [{"priority": None}, {"priority": -1}, {"priority": 16}],
        "wire_bytes is missing or negative": [{"wire_bytes": None}, {"wire_bytes": -5}],
        "wire_bytes is above 1000000000000": [{"wire_bytes": 2**63 - 1}, {"wire_bytes": 10**12 + 1}],
        "delay_us is negative or longer than a year": [{"delay_us": -1}],
        "outcome is unknown": [{"outcome": None}, {"outcome": "eaten"}, {"outcome": "Delivered"}],
        "weight is not above 0": [{"weight": one} for one in (None, 0.0, -1.0, math.nan, math.inf)],
        "weight is above 1000000000000": [{"weight": 1e308}, {"weight": 1.1e12}],
        None: [
            {},
            {"wire_bytes": 10**12, "weight": 1e12},
            {"delay_us": None},
            {"subscriber": None, "filter": None, "topic": None, "qos": None},
        ],
    }
    cases = [(reason, given) for reason, many in bad.items() for given in many]
    rows = [delivery(number, **given, plan_version=number) for number, (_, given) in enumerate(cases)]
    judged = spark.createDataFrame(rows, DELIVERIES).select("plan_version", delivery_fault().alias("fault"))
    assert [row.fault for row in judged.sort("plan_version").collect()] == [reason for reason, _ in cases]
