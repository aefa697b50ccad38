"""Whole simulations: conservation, known queues, repeatability, bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firelane.errors import FirelaneError, ScenarioError
from firelane.scenario import from_data
from firelane.scenario.plan import make_plan
from firelane.scenario.routes import routes
from firelane.simulate import simulate
from firelane.simulate.replication import replicate
from firelane.simulate.system import build
from systems import Shape, system


def one_link(load: float, **link):
    return from_data(
        {
            "name": "one",
            "links": {"l": {"bandwidth": "8 Mbps", "overhead": 0, "pace": 1, **link}},
            "topics": {"a": {"size": "1000 B"}},
            "publishers": {"p": {"publishes": {"a": 1000 * load}}},
            "subscribers": {"s": {"link": "l", "subscribes": {"a": None}}},
        }
    )


def counted(shape: Shape, seed: int, publications: int = 3000):
    """(published, delivered + lost + dropped + queued) per stream of one replication."""
    network, plan = system(shape, seed)
    one = build(network, plan, independent=shape.independent)
    outcome = replicate(one, publications=publications, seed=np.random.SeedSequence(seed), progress=lambda _: None)
    t = outcome.tally
    after = t.delivered + t.lost + t.policy + t.overflow + t.superseded + outcome.queued
    return (outcome.published - outcome.publisher_lost)[one.stream_published], after


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    load=st.sampled_from([0.3, 0.9, 1.7]),
    classes=st.integers(1, 9),
    shared=st.booleans(),
    independent=st.booleans(),
    buffer=st.sampled_from([None, 1, 5, 100]),
    loss=st.sampled_from([0, 0.2]),
)
def test_every_copy_is_delivered_dropped_with_a_reason_lost_or_queued(
    seed, load, classes, shared, independent, buffer, loss
):
    shape = Shape(
        load=load, classes=classes, shared=shared, independent=independent, link={"buffer": buffer, "loss": loss}
    )
    published, after = counted(shape, seed)
    assert (published == after).all()


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), buffer=st.sampled_from([None, 3]), publishers=st.integers(0, 3))
def test_stages_before_the_link_lose_nothing_in_silence(seed, buffer, publishers):
    shape = Shape(
        load=0.8,
        link={"buffer": buffer, "switch_rate": "5 kHz"},
        broker={"input_rate": "3 kHz", "output_rate": "2 kHz"},
        publishers=max(1, publishers),
        publisher_load=0.5 if publishers else 0.0,
    )
    published, after = counted(shape, seed)
    assert (published == after).all()


def test_an_mm1_queue_has_the_delay_and_percentiles_of_theory():
    """Sojourn in M/M/1 is exponential with mean 1/(mu - lambda): here 1/(1000 - 500) s."""
    metrics = simulate(one_link(0.5), publications=400_000, replications=8, seed=11)
    row = metrics.classes()[0]
    assert row["delay_mean_s"] == pytest.approx(0.002, abs=4 * row["delay_mean_se_s"] + 1e-5)
    assert row["delay_p50_s"] == pytest.approx(0.002 * np.log(2), rel=0.03)
    assert row["delay_p99_s"] == pytest.approx(0.002 * np.log(100), rel=0.03)


def test_a_finite_buffer_loses_what_the_mm1k_formula_says():
    """M/M/1/K: loss = (1 - rho) rho^K / (1 - rho^(K + 1)); K counts the message in service."""
    rho, waiting = 0.9, 4
    metrics = simulate(one_link(rho, buffer=waiting), publications=400_000, replications=8, seed=5)
    k = waiting + 1
    loss = (1 - rho) * rho**k / (1 - rho ** (k + 1))
    row = metrics.classes()[0]
    assert 1 - row["success"] == pytest.approx(loss, abs=4 * row["success_se"] + 1e-4)


def test_link_errors_come_after_transmission():
    metrics = simulate(one_link(0.5, loss=0.25), publications=200_000, replications=4, seed=5)
    row = metrics.classes()[0]
    assert row["success"] == pytest.approx(0.75, abs=4 * row["success_se"] + 1e-4)


def test_the_newest_reading_replaces_a_queued_one_when_asked_to():
    data = {
        "name": "latest",
        "links": {"l": {"bandwidth": "8 Mbps", "overhead": 0, "pace": 1}},
        "topics": {"a": {"size": "1000 B"}, "b": {"size": "1000 B"}},
        "publishers": {"p": {"publishes": {"a": 900, "b": 900}}},
        "subscribers": {"s": {"link": "l", "subscribes": {"a": {"keep": "latest"}, "b": {"keep": "latest"}}}},
    }
    metrics = simulate(from_data(data), publications=100_000, replications=2, seed=1)
    # Two streams, each at most one waiting: nobody waits longer than the other's and the running service.
    assert metrics.column("delay_mean_s").max() < 0.004
    assert metrics.column("dropped_superseded").min() > 0
    assert metrics.column("delivered_hz").sum() == pytest.approx(1000, rel=0.15)


def test_equal_seeds_give_equal_results_and_different_seeds_do_not():
    network, plan = system(Shape(load=0.8), 1)
    first, again, other = (
        simulate(network, plan, publications=20_000, replications=3, seed=s).classes() for s in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_drop_rates_are_met_within_the_binomial_interval_and_independently():
    network, plan = system(Shape(load=0.5, subscribers=4), 3)
    rows = len(network.filters)
    plan = make_plan(
        network,
        subscription_flow=np.arange(rows),
        flow_priority=np.zeros(rows, np.int64),
        flow_drop_rate=np.full(rows, 0.3),
        made_by="test",
    )
    metrics = simulate(network, plan, publications=300_000, replications=1, seed=9)
    offered = metrics.column("offered_hz") * metrics.column("window_s")
    dropped = metrics.column("dropped_policy")
    z = (dropped - 0.3 * offered) / np.sqrt(offered * 0.3 * 0.7)
    assert np.abs(z).max() < 5
    # Independence between subscriptions of one topic: the variance of their sum is the sum of variances.
    assert np.var(z) == pytest.approx(1, abs=0.6)


def test_an_unlimited_buffer_is_bounded_in_memory():
    shape = one_link(3.0)
    metrics = simulate(shape, publications=3_000_000, replications=1, seed=1)
    assert metrics.column("queued")[0] <= 1_000_001
    assert metrics.column("dropped_overflow")[0] > 0
    assert not metrics.links["l"].stable


def test_independent_arrivals_are_for_links_alone():
    network, plan = system(Shape(load=0.5, broker={"input_rate": "5 kHz"}), 1)
    with pytest.raises(ScenarioError, match="independent"):
        simulate(network, plan, publications=100, independent=True)


@pytest.mark.parametrize("bad", [{"publications": 0}, {"replications": 0}])
def test_nothing_to_simulate_is_said_in_one_line(bad):
    with pytest.raises(FirelaneError):
        simulate(routes(one_link(0.5)), **bad)


def test_a_silent_scenario_is_refused():
    with pytest.raises(ScenarioError, match="nothing is published"):
        simulate(one_link(0.0), publications=100)
