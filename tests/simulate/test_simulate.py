"""Whole simulations: conservation, known queues, repeatability, bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firelane.errors import FirelaneError, ScenarioError
from firelane.scenario import from_data
from firelane.scenario.model import plain_data
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
    """(waiting + published, delivered + lost + dropped + queued) per stream of one replication."""
    network, plan = system(shape, seed)
    one = build(network, plan, independent=shape.independent)
    outcome = replicate(one, publications=publications, seed=np.random.SeedSequence(seed), progress=lambda _: None)
    t = outcome.tally
    after = t.delivered + t.lost + t.policy + t.overflow + t.superseded + outcome.queued
    before = outcome.waiting_before + outcome.published[one.stream_published]
    return before, after + outcome.publisher_lost[one.stream_published]


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


@pytest.mark.parametrize("load", [0.5, 1.5])
def test_the_table_accounts_for_every_message(load):
    """Due = delivered + dropped by reason + queued; here links lose some, and at most 50 waited before."""
    data = plain_data(one_link(load, loss=0.3, buffer=50))
    data["links"]["up"] = {"bandwidth": "20 Mbps", "loss": 0.1, "overhead": 0}
    data["publishers"]["p"]["link"] = "up"
    metrics = simulate(from_data(data), publications=30_000, replications=3, seed=2)
    window = metrics.column("window_s")
    due, delivered = metrics.column("offered_hz") * window, metrics.column("delivered_hz") * window
    reasons = [name for name in metrics.table.schema.names if name.startswith("dropped")]
    drops = sum(np.nan_to_num(metrics.column(name)) for name in reasons)
    after = delivered + drops + metrics.column("lost") + metrics.column("queued")
    assert 0 <= (after - due)[0] <= 3 * 60


def test_a_full_buffer_does_not_bias_success_once_it_is_full():
    """Load 2, a buffer of 2000 that is full after 4000 publications, in the warm-up: half is delivered."""
    metrics = simulate(one_link(2.0, buffer=2000), publications=45_000, replications=4, seed=3)
    assert metrics.classes()[0]["success"] == pytest.approx(0.5, abs=0.01)
    assert metrics.notes == ()


def test_a_run_too_short_for_its_queues_says_so():
    metrics = simulate(one_link(2.0, buffer=2000), publications=9_000, replications=2, seed=3)
    assert any("not settled" in note for note in metrics.notes)


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


def test_drop_rates_are_met_within_the_binomial_interval():
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


def test_drops_of_different_subscriptions_are_independent():
    """The number of copies of one publication that are dropped is binomial: variance n p (1 - p), not n^2 p (1 - p)."""
    subscribers = {f"s{k}": {"subscribes": {"a": None}} for k in range(20)}
    network = routes(from_data({"name": "x", "topics": {"a": {"size": 1}}, "subscribers": subscribers,
                                "publishers": {"p": {"publishes": {"a": 1}}}}))  # fmt: skip
    plan = make_plan(network, subscription_flow=np.arange(20), flow_priority=np.zeros(20, np.int64),
                     flow_drop_rate=np.full(20, 0.3), made_by="test")  # fmt: skip
    sums = []
    system = build(network, plan, independent=False)
    for seed in np.random.SeedSequence(2).spawn(300):
        outcome = replicate(system, publications=100, seed=seed, progress=lambda _: None)
        sums.append(outcome.tally.policy.sum() - 0.3 * 90 * 20)
    each = 90 * 20 * 0.3 * 0.7
    assert np.var(sums) == pytest.approx(each, rel=0.35)  # 4 standard errors of a variance over 300 runs


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
