"""Points of a sweep: what is varied, and that a trial is what `predict` and `simulate` say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sweep_case import SCENARIO, TEXT

from firelane.errors import FirelaneError
from firelane.histogram import percentiles_s
from firelane.pipeline.sweep.grid import Point, make_grid, scenario_at
from firelane.pipeline.sweep.trial import Trial
from firelane.predict import predict
from firelane.scenario import from_text
from firelane.simulate import run as simulate_run
from firelane.simulate import simulate

POINT = Point(
    link_bps=2e6,
    rate_factor=1.5,
    order=("urgent", "none", "bulk"),
    drops=(("bulk", 0.5), ("none", 0.25), ("urgent", 0.0)),
)


def test_a_grid_is_every_combination():
    grid = make_grid(
        SCENARIO, rates="0.5, 0.8", bandwidths="1 Mbps,2 Mbps", drops=["0,0.1", "bulk=0,20 %,0.5"], seeds=3
    )
    points = list(grid.points())
    assert len(grid) == len(points) == len(set(points)) == 2 * 2 * 6 * (3 * 2 * 2)
    assert {point.rate_factor for point in points} == {0.5, 0.8}
    assert {point.link_bps for point in points} == {1e6, 2e6}
    assert {point.order for point in points} >= {("urgent", "none", "bulk"), ("bulk", "none", "urgent")}
    assert {dict(point.drops)["bulk"] for point in points} == {0.0, 0.2, 0.5}
    assert {dict(point.drops)["none"] for point in points} == {0.0, 0.1}
    assert list(grid.seeds) == [0, 1, 2]


def test_what_is_not_varied_is_as_in_the_scenario():
    (point,) = make_grid(SCENARIO, orders="urgent>none>bulk").points()
    assert point == replace(POINT, link_bps=1e6, rate_factor=1.0, drops=(("bulk", 0.0), ("none", 0.0), ("urgent", 0.0)))
    unlike = from_text(TEXT.replace("wide: {}", "wide: {bandwidth: 5 Mbps}"))
    (point,) = make_grid(unlike, orders="urgent > none > bulk").points()
    assert point.link_bps is None
    assert scenario_at(unlike, point) == unlike
    assert [one.bandwidth_bps for one in scenario_at(unlike, POINT).links.values()] == [2e6, 2e6]
    assert [one.bandwidth_bps for one in scenario_at(SCENARIO, POINT).links.values()] == [2e6, None]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"rates": "0.5,fast"}, '--rates: "fast" is not a weight'),
        ({"rates": "0"}, "nothing is published"),
        ({"bandwidths": "1 Mbps,"}, "--bandwidths"),
        ({"orders": "urgent>bulk"}, "does not name every category once"),
        ({"drops": ["1.5"]}, "--drops"),
        ({"drops": ["video=0.5"]}, "there is no category video; there are bulk, none, urgent"),
        ({"drops": [",".join(map(str, np.arange(0, 1, 0.005)))]}, "simulations and predictions are more than"),
        ({"seeds": 99_999_999_999}, "are more than 10,000,000; vary less"),
        ({"seeds": 10**30}, "are more than 10,000,000; vary less"),
        ({"seeds": 2, "seed": 2**63 - 1}, "--seed: seeds go up to 9223372036854775807"),
    ],
)
def test_what_cannot_be_varied_is_said_in_one_line(given, complaint):
    with pytest.raises(FirelaneError, match=complaint):
        make_grid(SCENARIO, **given)


def test_categories_need_classes():
    with pytest.raises(FirelaneError, match="3 categories need as many classes"):
        make_grid(replace(SCENARIO, priorities=2))


def varied(bandwidth="2 Mbps"):
    """The scenario at POINT, written as another scenario."""
    text = TEXT.replace("1 Mbps", bandwidth).replace("100 Hz", "150 Hz").replace("150 Hz}}", "225 Hz}}")
    return from_text(text)


def test_the_scenario_and_the_plan_are_those_of_the_point():
    plan = Trial(SCENARIO, POINT).plan
    decided = zip(plan.flow_priority.tolist(), plan.flow_drop_rate.tolist(), strict=True)
    given = dict(zip(zip(plan.subscriber, plan.filter, strict=True), decided, strict=True))
    assert given == {
        ("ann", "t/1"): (0, 0.0),
        ("ann", "t/2"): (2, 0.5),
        ("ben", "t/+"): (1, 0.25),
        ("cid", "t/2"): (2, 0.0),  # its tolerance is what gives way
    }
    assert Trial(SCENARIO, replace(POINT, rate_factor=1.0)).plan_hash == Trial(SCENARIO, POINT).plan_hash
    other = replace(POINT, drops=(("bulk", 0.5), ("none", 0.25), ("urgent", 0.1)))
    assert Trial(SCENARIO, other).plan_hash != Trial(SCENARIO, POINT).plan_hash


def test_a_predicted_row_is_the_class_of_the_prediction():
    trial = Trial(SCENARIO, replace(POINT, link_bps=4e6))
    classes = {row["priority"]: row for row in predict(varied("4 Mbps"), trial.plan).classes()}
    rows = {row["category"]: row for row in trial.predicted()}
    for priority, category in enumerate(POINT.order):
        row, expected = rows[category], classes[priority]
        assert (row["seed"], row["source"], row["n"], row["delay_histogram"]) == (None, "predicted", None, None)
        assert row["delay_mean_s"] == pytest.approx(expected["delay_mean_s"], rel=1e-12)
        assert row["loss"] == pytest.approx(1 - expected["delivered_hz"] / expected["offered_hz"], rel=1e-12)
    row = rows["bulk"]
    assert row["scenario_hash"] == SCENARIO.digest()
    assert (row["link_bps"], row["rate_factor"], row["order"]) == (4e6, 1.5, "urgent>none>bulk")
    assert json.loads(row["drops"]) == {"bulk": 0.5, "none": 0.25, "urgent": 0.0}


@pytest.mark.parametrize("few_histograms", [False, True])
def test_a_simulated_row_is_the_class_of_the_simulation(monkeypatch, few_histograms):
    if few_histograms:  # so many subscriptions that delays are only counted per class
        monkeypatch.setattr("firelane.simulate.system.MOST_HISTOGRAM_ROWS", 1)
    trial = Trial(SCENARIO, POINT)
    metrics = simulate(varied(), trial.plan, publications=20_000, replications=1, seed=7)
    classes = {row["priority"]: row for row in metrics.classes()}
    window_s = metrics.column("window_s")[0]
    for row in trial.simulated(7, 20_000):
        expected = classes[POINT.order.index(row["category"])]
        assert (row["seed"], row["source"]) == (7, "simulated")
        assert row["n"] == round(expected["offered_hz"] * window_s) > 1000
        assert row["delay_mean_s"] == pytest.approx(expected["delay_mean_s"], rel=1e-12)
        assert row["loss"] == pytest.approx(1 - expected["delivered_hz"] / expected["offered_hz"], abs=1e-12)
        delivered = round(expected["delivered_hz"] * window_s)
        assert sum(row["delay_histogram"]) == delivered
        found = percentiles_s(row["delay_histogram"][None, :], simulate_run.PERCENTILES)[0]
        assert found.tolist() == [expected[f"delay_p{p}_s"] for p in (50, 95, 99)]


def test_a_queue_without_end_has_no_delay_but_a_loss():
    endless = from_text(TEXT.replace(", buffer: 200", ""))
    rows = {row["category"]: row for row in Trial(endless, replace(POINT, rate_factor=9.0)).simulated(1, 20_000)}
    assert rows["none"]["delay_mean_s"] is rows["none"]["delay_histogram"] is None
    assert rows["none"]["loss"] > 0.25
    assert rows["none"]["n"] > 0
