"""The broker-cluster paper's experiments on small cities."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest

from firelane.balance import Loads, balance
from firelane.errors import FirelaneError
from firelane.reproduce import brokers
from firelane.reproduce.brokers.experiments import all_figures, always_there, claims, mean_broker_load


@pytest.fixture(scope="module")
def loads():
    """A day of forty topics; some are wanted only in the afternoon."""
    random = np.random.default_rng(3)
    hour = np.arange(96)[:, None] / 4
    peak = random.uniform(7, 19, 40)
    load = np.round(50 * (1 + random.pareto(1.5, 40)) * np.exp(-(((hour - peak) / 4) ** 2)))
    return Loads(topics=tuple(f"zone/{n}" for n in range(40)), times_s=np.arange(96) * 900, load=load)


@pytest.fixture(scope="module")
def figures(loads):
    return all_figures(always_there(loads), 4)


def test_with_no_reconfigurations_nothing_is_switched(figures):
    assert figures["long_term"][0]["switches"] == figures["long_term"][0]["reconfigurations"] == 0
    assert sum(figures["series"]["switches"]["threshold_never"]) == 0


def test_a_higher_threshold_saves_switches_between_its_extremes(figures):
    switches = [point["switches"] for point in figures["baseline"]]
    assert switches[0] == max(switches)
    assert switches[-1] == min(switches)


def test_a_limit_of_reconfigurations_is_kept(figures):
    assert all(point["reconfigurations"] <= point["limit"] for point in figures["long_term"])


def test_topics_that_are_always_there_carry_what_they_did(loads):
    assert mean_broker_load(always_there(loads), 4) == pytest.approx(mean_broker_load(loads, 4))
    assert (always_there(loads).load > 0).all()


def test_zones_that_nobody_is_in_all_come_to_the_emptiest_broker(loads):
    """Which is why the paper's baseline, placed once at night, is so far off by day."""
    night = Loads(
        topics=("a", "b", "c", "d", "e"), times_s=np.arange(2), load=np.array([[9, 8, 0, 0, 0], [9, 8, 7, 7, 7.0]])
    )
    placed = balance(always_there(night), brokers=3, method="threshold", threshold=1e9).placed
    assert len(set(placed[1, 2:].tolist())) == 1
    assert len(set(balance(night, brokers=3, method="threshold", threshold=1e9).placed[1].tolist())) == 3


def test_claims_compare_with_the_cheapest_baseline_that_is_as_balanced():
    def point(difference, switches, **about):
        return {"load_difference_mean": difference, "switches": switches, "reconfigurations": switches, **about}

    found = claims(
        {
            "baseline": [point(1, 100, threshold=0.1), point(5, 40, threshold=0.2)],
            "never": point(60, 0),
            "long_term": [point(3, 0, limit=0), point(2, 50, limit=1), point(0.5, 70, limit=2)],
        }
    )
    assert found["difference_ratio"] == 20
    assert found["saved"] == [{"limit": 1, "long_term": 50, "baseline": 100, "saved": 0.5}]
    assert found["least_saved"] == 0.5


def test_a_trace_too_small_for_the_figures_is_one_line(tmp_path):
    few = Loads(topics=("a", "b"), times_s=np.arange(2), load=np.array([[1, 2], [3, 4.0]]))
    with pytest.raises(FirelaneError, match="village: its zones have too few different sizes"):
        brokers._city(few, tmp_path, "village")


@pytest.mark.slow
def test_a_small_city_is_generated_counted_and_reported(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("firelane.pipeline.session.session", lambda: nullcontext(spark))
    small = brokers.Effort(vehicles=300, hours=2.0, zones=30, seeds=(1,), steps=20)
    trace = tmp_path / "generated.tr"
    trace.write_text("".join(f"{n // 20 * 60} v{n} {100 * (n % 20) ** 0.5} 5 1\n" for n in range(600)))
    results = brokers.reproduce(tmp_path, quick=True, seed=2, effort=small, trace=trace)
    city = results["cities"][brokers.GENERATED]
    assert city["steps"] == 120
    assert city["topics"] <= 60  # commuters also pass between zones
    assert results["cities"].keys() == json.loads((tmp_path / "results.json").read_text())["cities"].keys()
    told = (tmp_path / "report.md").read_text()
    assert "## In short" in told
    assert "6 seeded cases" in told
    assert (tmp_path / "sixty.png").exists()
    for folder in ("generated", "trace"):
        assert {one.name for one in (tmp_path / folder).iterdir()} == {f"figure-{n}.png" for n in range(2, 8)}
    assert list(results["cities"]) == [brokers.GENERATED, "the trace generated"]
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("firelane-city-")] == []
