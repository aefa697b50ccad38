"""Rates on their way to the links, with every stage in turn too slow, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.predict import predict
from firelane.scenario import from_data
from firelane.scenario.routes import routes
from firelane.scenario.upstream import upstream
from firelane.simulate import simulate
from firelane.tune import tune

FAST = {"bandwidth": "8 Mbps", "overhead": 0, "pace": 1}


def network(*, up=None, broker=None, switch=None, needs=None):
    """500 Hz of 1000 B on topic a (half of it from a publisher with the link `up`), and 100 Hz on topic b."""
    return routes(
        from_data(
            {
                "name": "stages",
                "links": {
                    "down": {**FAST, **({"switch_rate": switch} if switch else {})},
                    "up": {**FAST, **(up or {})},
                },
                "topics": {"a": {"size": "1000 B"}, "b": {"size": "1000 B"}},
                "publishers": {
                    "p": {"publishes": {"a": 250}, **({"link": "up"} if up else {})},
                    "q": {"publishes": {"a": 250, "b": 100}},
                },
                "subscribers": {"s": {"link": "down", "subscribes": needs or {"a": None, "b": None}}},
                "brokers": {"main": broker} if broker else {},
            }
        )
    )


SATURATED = {
    "publisher": {"up": {"bandwidth": "1 Mbps"}},  # 125 of its 250 Hz
    "broker in": {"broker": {"input_rate": "300 Hz"}},
    "broker out": {"broker": {"output_rate": "300 Hz"}},
    "switch": {"switch": "300 Hz"},
}
REACHING_HZ = {"publisher": (375, 100), "broker in": (250, 50), "broker out": (250, 50), "switch": (250, 50)}


def test_without_stages_everything_reaches_the_links():
    found = upstream(network())
    assert found.stream_rate_hz == pytest.approx([500, 100])
    assert found.stable.all()
    assert found.notes == ()


def test_losses_of_the_publishers_links_are_taken_off():
    assert upstream(network(up={"loss": "20 %"})).stream_rate_hz == pytest.approx([450, 100])


@pytest.mark.parametrize("stage", SATURATED)
def test_a_saturated_stage_lets_through_what_it_can_and_is_named(stage):
    found = upstream(network(**SATURATED[stage]))
    assert found.stream_rate_hz == pytest.approx(REACHING_HZ[stage])
    assert not found.stable.all()
    assert any("saturated" in note for note in found.notes)


@pytest.mark.parametrize("stage", SATURATED)
def test_prediction_and_simulation_agree_on_a_saturated_stage(stage):
    r = network(**SATURATED[stage])
    predicted, simulated = predict(r), simulate(r, publications=60_000, replications=2, seed=4)
    assert simulated.column("success") == pytest.approx(predicted.column("success"), abs=0.02)
    assert simulated.column("offered_hz") == pytest.approx(predicted.column("offered_hz"), rel=0.05)
    assert (simulated.column("stable") == predicted.column("stable")).all()
    assert (np.isnan(simulated.column("delay_mean_s")) == np.isnan(predicted.column("delay_mean_s"))).all()
    assert simulated.notes[: len(predicted.notes)] == predicted.notes
    assert simulated.links["down"].load == pytest.approx(predicted.links["down"].load)


def test_a_plan_counts_on_what_reaches_its_links():
    """Half of what p publishes is lost before it arrives: the link is not full, so nothing need be dropped."""
    r = network(up={"loss": "90 %"}, needs={"a": {"max_loss": "20 %"}, "b": None})
    plan = tune(r, headroom=0.5)
    assert plan.promised["loads"]["down"] == pytest.approx(0.375)
    assert plan.flow_drop_rate == pytest.approx([0, 0])
    assert any("lose more on the way" in line for line in plan.why)
    assert predict(r, plan).utility()["rate"] == pytest.approx(plan.promised["utility_rate"])


def test_an_optimised_plan_keeps_its_promise_behind_lossy_publishers():
    r = network(up={"loss": "50 %"})
    plan = tune(r, headroom=0.7)
    assert plan.promised["loads"]["down"] == pytest.approx(0.3)
    assert predict(r, plan).utility()["rate"] == pytest.approx(plan.promised["utility_rate"], abs=1e-9)
    assert plan.promised["utility"] <= plan.promised["upper_bound"] * (1 + 1e-9)


def test_a_stage_filled_to_the_brim_is_saturated():
    """Ten topics of 0.1 Hz add up to 1 - 1e-16 Hz, or to 1: either way a server of 1 Hz never catches up."""
    data = {
        "name": "brim",
        "topics": {f"t{n}": {"size": 1} for n in range(10)},
        "publishers": {"p": {"publishes": {f"t{n}": 0.1 for n in range(10)}}},
        "subscribers": {"s": {"subscribes": {"#": None}}},
        "brokers": {"main": {"output_rate": 1}},
    }
    metrics = predict(from_data(data))
    assert np.isnan(metrics.column("delay_mean_s")).all()
    assert not metrics.column("stable").any()


def test_a_long_way_to_the_exchange_delays_messages_but_loses_none():
    r = network(up={"propagation": "1 h"})
    simulated, predicted = simulate(r, publications=20_000, replications=2, seed=1), predict(r)
    assert simulated.column("success") == pytest.approx([1, 1], abs=0.01)
    assert simulated.stages["publisher"][0] == pytest.approx(predicted.stages["publisher"][0], rel=0.03)


@pytest.mark.parametrize("stage", [{"broker": {"output_rate": "620 Hz"}}, {"switch": "650 Hz"}])
def test_no_stage_takes_less_than_no_time_however_short_the_run(stage):
    for seed in range(5):
        metrics = simulate(network(**stage), publications=2000, replications=2, seed=seed)
        assert metrics.stages["link"][0] > 0
