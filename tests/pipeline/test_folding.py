"""Folded records: fewer, and nothing that is computed of them differs."""

from __future__ import annotations

import random

import pytest

WINDOW_S = 10.0
KEYS = ("window_start", "subscriber", "filter", "priority", "time_s", "topic")


def rows(count):
    chance = random.Random(2)
    outcomes = ["delivered"] * 8 + ["policy", "overflow", "expired"]
    made = []
    for number in range(count):
        outcome = chance.choice(outcomes)
        known = outcome == "delivered" and chance.random() < 0.95
        made.append(
            {
                "record_id": f"aa-{number}",
                "exchange": "e",
                "ingress_us": 1_767_225_600_000_000 + chance.randrange(40_000_000),
                "subscriber": chance.choice(["x", "y", None]),
                "filter": chance.choice(["a/#", "b", None]),
                "topic": chance.choice(["a/1", "a/2", "b", None]),
                "priority": chance.randrange(2),
                "qos": 0,
                "wire_bytes": chance.randrange(50, 500),
                "delay_us": round(chance.choice((2, 20, 200)) * chance.uniform(1000, 1002)) if known else None,
                "outcome": outcome,
                "weight": chance.choice([10.0, 1 / 0.3]) if outcome == "delivered" else 1.0,
                "plan_version": chance.choice([None, 1, 2]),
            }
        )
    return made


def by_keys(table):
    found = table.toArrow().to_pylist()
    return {tuple(one.get(name) for name in KEYS): one for one in found}


def test_metrics_and_loads_of_folded_records_are_those_of_all(spark):
    from firelane.pipeline.schemas import DELIVERIES
    from firelane.pipeline.telemetry import buckets, metrics, timed, topic_loads
    from firelane.pipeline.watch.folding import folded

    every = timed(spark.createDataFrame(rows(6000), DELIVERIES)).persist()
    fewer = folded(every, window_s=WINDOW_S).persist()
    assert fewer.count() < 3000
    for made, expected in (
        (metrics(buckets(fewer, window_s=WINDOW_S)), metrics(buckets(every, window_s=WINDOW_S))),
        (topic_loads(fewer, window_s=WINDOW_S), topic_loads(every, window_s=WINDOW_S)),
    ):
        found, wanted = by_keys(made), by_keys(expected)
        assert found.keys() == wanted.keys()
        for key, one in wanted.items():
            assert found[key] == {
                name: pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
                for name, value in one.items()
            }


def test_counts_of_topics_are_those_of_the_records_behind_folded_ones(spark):
    from firelane.pipeline.schemas import DELIVERIES
    from firelane.pipeline.telemetry import timed
    from firelane.pipeline.watch.folding import folded, topic_counts

    given = rows(300)
    counted = topic_counts(folded(timed(spark.createDataFrame(given, DELIVERIES)), window_s=WINDOW_S))
    for one in counted.toArrow().to_pylist():
        start_us = round(one["window_start"].timestamp()) * 1_000_000
        weights = [
            each["weight"]
            for each in given
            if each["topic"] == one["topic"] and 0 <= each["ingress_us"] - start_us < WINDOW_S * 1e6
        ]
        assert one["records"] == len(weights)
        assert one["messages"] == pytest.approx(sum(weights))
        assert one["squares"] == pytest.approx(sum(weight * weight for weight in weights))
