"""Predictions of whole scenarios: overload, losses, overlaps, own and shared links, notes."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.errors import ScenarioError
from firelane.metrics import SCHEMA
from firelane.predict import predict
from firelane.scenario import from_data
from firelane.scenario.plan import make_plan
from firelane.scenario.routes import routes


def scenario(**changes):
    data = {
        "name": "two",
        "priorities": 3,
        "links": {"l": {"bandwidth": "8 Mbps", "overhead": 0, "pace": 1}},
        "topics": {"a": {"size": "1000 B"}, "b": {"size": "1000 B"}},
        "publishers": {"p": {"publishes": {"a": "300 Hz", "b": "900 Hz"}}},
        "subscribers": {"s": {"link": "l", "subscribes": {"a": {"weight": 2}, "b": None}}},
    }
    return from_data({**data, **changes})


def planned(network, priority, drop):
    return make_plan(
        network,
        subscription_flow=np.arange(len(priority)),
        flow_priority=np.array(priority),
        flow_drop_rate=np.array(drop, float),
        made_by="test",
    )


def test_overload_shares_a_plain_link_and_reports_no_delay():
    metrics = predict(scenario())
    assert metrics.links["l"].load == pytest.approx(1.2)
    assert not metrics.links["l"].stable
    assert metrics.column("success") == pytest.approx([1 / 1.2, 1 / 1.2])
    assert np.isnan(metrics.column("delay_mean_s")).all()
    assert metrics.table.column("delay_mean_s").null_count == 2


def test_under_overload_the_top_class_is_served_whole_behind_one_residual_message():
    """Class 0 at 300 Hz, the link always busy: residual work is E[S^2]/2 per s of busy time = s; W = s/(1 - rho0)."""
    network = routes(scenario())
    metrics = predict(network, planned(network, [0, 1], [0, 0]))
    assert metrics.column("success") == pytest.approx([1, 0.7 / 0.9])
    delay = metrics.column("delay_mean_s")
    assert delay[0] == pytest.approx(1e-3 / (1 - 0.3) + 1e-3)
    assert np.isnan(delay[1])


def test_drop_rates_link_errors_and_propagation_enter_as_they_should():
    link = {"bandwidth": "8 Mbps", "overhead": 0, "pace": 1, "loss": "10 %", "propagation": "5 ms"}
    network = routes(scenario(links={"l": link}))
    metrics = predict(network, planned(network, [0, 0], [0, 0.5]))
    assert metrics.column("success") == pytest.approx([0.9, 0.45])
    assert metrics.column("delivered_hz") == pytest.approx([270, 405])
    assert metrics.column("delay_mean_s") == pytest.approx(np.full(2, 1 / (1000 - 750) + 5e-3))


def test_utility_is_that_of_the_delivered_share_and_its_rate_has_two_readings():
    metrics = predict(scenario())
    x = 1 / 1.2
    utility = metrics.utility()
    assert utility["achieved"] == pytest.approx(3 * np.log(1 + x))
    assert utility["maximum"] == pytest.approx(3 * np.log(2))
    assert utility["rate"] == pytest.approx(np.log(1 + x) / np.log(2))
    assert utility["mean_of_ratios"] == pytest.approx(np.log(1 + x) / np.log(2))


def test_late_deliveries_are_worth_less_in_the_discounted_utility():
    late = {"s": {"link": "l", "subscribes": {"a": {"max_delay": "1 ms"}}}}
    metrics = predict(scenario(subscribers=late, publishers={"p": {"publishes": {"a": 500}}}))
    assert metrics.utility()["delay_discounted"] == pytest.approx(np.log(2) * 1 / 2)


def test_pace_and_overhead_lengthen_service_times():
    link = {"bandwidth": "8 Mbps", "pace": 0.5, "overhead": "1000 B"}
    metrics = predict(scenario(links={"l": link}, publishers={"p": {"publishes": {"a": 100}}}))
    assert metrics.links["l"].load == pytest.approx(100 * 2000 * 8 / 4e6)


def test_subscribers_on_own_links_do_not_disturb_each_other():
    links = {"l": {"bandwidth": "8 Mbps", "overhead": 0, "pace": 1, "each": True}}
    subscribers = {n: {"link": "l", "subscribes": {"a": None}} for n in ("x", "y")}
    metrics = predict(scenario(links=links, subscribers=subscribers))
    assert set(metrics.links) == {"l:x", "l:y"}
    assert metrics.column("delay_mean_s") == pytest.approx(np.full(2, 1 / 700))


def test_a_subscriber_without_a_link_gets_everything_at_once():
    metrics = predict(scenario(subscribers={"s": {"subscribes": {"#": None}}}))
    assert metrics.column("success") == pytest.approx([1])
    assert metrics.column("delay_mean_s") == pytest.approx([0])


def test_overlapping_filters_make_one_copy_counted_on_the_winner():
    network = routes(scenario(subscribers={"s": {"link": "l", "subscribes": {"a": None, "#": None}}}))
    metrics = predict(network, planned(network, [0, 1], [0, 0.5]))
    assert metrics.column("offered_hz") == pytest.approx([300, 900])
    assert metrics.links["l"].load == pytest.approx(0.3 + 0.45)
    # Of the 1200 messages that # matches, 300 come whole with the other filter and half of 900.
    assert metrics.column("success") == pytest.approx([1, (300 + 450) / 1200])


def test_saturated_brokers_and_switches_are_named():
    slow = {"l": {"bandwidth": "80 Mbps", "overhead": 0, "pace": 1, "switch_rate": "100 Hz"}}
    broker = {"main": {"input_rate": "600 Hz", "output_rate": "300 Hz"}}
    metrics = predict(scenario(links=slow, brokers=broker))
    notes = " ".join(metrics.notes)
    assert "input" in notes
    assert "output to s" in notes
    assert "switch before l" in notes
    assert metrics.column("success") == pytest.approx(np.full(2, 100 / 1200))


def test_a_small_buffer_below_saturation_is_not_passed_over_in_silence():
    link = {"bandwidth": "20 Mbps", "overhead": 0, "pace": 1, "buffer": 5}
    assert any("buffer of 5" in note for note in predict(scenario(links={"l": link})).notes)


def test_a_buffer_that_whole_batches_fill_is_noted_once_and_a_large_one_is_not():
    """Twenty copies of every publication at load 0.8: about 80 messages wait on average, more than 60."""
    everyone = {f"s{k}": {"link": "l", "subscribes": {"a": None}} for k in range(20)}
    for buffer, noted in ((60, 1), (5000, 0)):
        link = {"bandwidth": "60 Mbps", "overhead": 0, "pace": 1, "buffer": buffer}
        metrics = predict(scenario(links={"l": link}, subscribers=everyone))
        assert metrics.links["l"].load == pytest.approx(0.8)
        assert sum("loses some" in note for note in metrics.notes) == noted


def test_a_class_with_a_saturated_member_has_no_mean_delay():
    links = {"l": {"bandwidth": "8 Mbps", "overhead": 0, "pace": 1, "each": True}}
    subscribers = {"x": {"link": "l", "subscribes": {"a": None}}, "y": {"link": "l", "subscribes": {"#": None}}}
    (row,) = predict(scenario(links=links, subscribers=subscribers)).classes()
    assert not row["stable"]
    assert row["delay_mean_s"] is None


def test_a_link_filled_to_the_brim_is_saturated_not_billions_of_seconds_slow():
    metrics = predict(scenario(publishers={"p": {"publishes": {"a": 1000 * (1 - 1e-12)}}}))
    assert not metrics.links["l"].stable
    assert np.isnan(metrics.column("delay_mean_s")[0])


def test_a_merged_filter_is_as_late_as_the_copy_it_shares():
    """Both filters match a; its one copy takes 1/700 s, within max_delay, so no value is discounted."""
    need = {"max_delay": "1 s"}
    network = routes(scenario(subscribers={"s": {"link": "l", "subscribes": {"a": need, "a/#": need}}}))
    metrics = predict(network)
    assert metrics.utility()["delay_discounted"] == pytest.approx(metrics.utility()["achieved"])


def test_without_a_plan_there_is_no_plan_version():
    assert predict(scenario()).table.column("plan_version").null_count == 2


def test_several_brokers_are_refused_in_one_line():
    with pytest.raises(ScenarioError, match="one broker"):
        predict(scenario(brokers={"a": {}, "b": {}}))


def test_the_table_has_the_columns_of_the_contract():
    metrics = predict(scenario())
    assert metrics.table.schema.equals(SCHEMA)
    assert metrics.table.column("delay_p99_s").null_count == metrics.table.num_rows


def test_metrics_survive_parquet(tmp_path):
    from pyarrow import parquet

    metrics = predict(scenario())
    metrics.save(tmp_path / "m.parquet")
    assert parquet.read_table(tmp_path / "m.parquet").equals(metrics.table)
