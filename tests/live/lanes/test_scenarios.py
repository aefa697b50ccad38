"""The systems that the exchange is judged by are what they claim to be."""

import numpy as np
import pytest

from firelane.predict import predict
from firelane.scenario.routes import routes
from live.lanes.scenarios import load_of, nine_classes, only, planemqx, planned, raised


@pytest.mark.parametrize("load", [0.6, 0.9])
def test_nine_classes_share_a_link_of_8_mbps_at_the_load_asked_for(load):
    network, plan = nine_classes(load)
    assert predict(network, plan).links["post"].load == pytest.approx(load)
    assert network.lanes[0].link.bandwidth_bps == 8e6
    assert network.lanes[0].link.pace == 0.97
    assert network.source_rate_hz.sum() <= 500
    assert len(network.subscribers) == 10
    assert set(np.bincount(network.stream_topic).tolist()) == {4}
    assert np.bincount(plan.flow_priority).tolist() == [20] * 9


def test_planemqx_has_the_counts_of_the_papers_tables():
    scenario = planemqx()
    rate_hz = {topic: rate for one in scenario.publishers.values() for topic, rate in one.publishes.items()}
    subscriptions: dict[str, list[str]] = {}
    for one in scenario.subscribers.values():
        for topic, need in one.subscribes.items():
            subscriptions.setdefault(need.category, []).append(topic)
    assert (len(scenario.topics), len(scenario.publishers), len(scenario.subscribers)) == (30, 30, 16)
    # Table I: subscriptions; Table II: messages in five minutes.
    assert {name: len(topics) for name, topics in subscriptions.items()} == {
        "analytics": 21,
        "real-time": 21,
        "transactional": 18,
        "streaming": 20,
    }
    assert {name: 300 * sum(rate_hz[topic] for topic in topics) for name, topics in subscriptions.items()} == {
        "analytics": 32_100,
        "real-time": 33_300,
        "transactional": 28_500,
        "streaming": 30_000,
    }


def test_planemqx_offers_8_3_mbps_to_a_link_of_8():
    assert load_of(planemqx()) == pytest.approx(8.3 / 8, rel=0.001)
    bits = {
        category: sum(
            8 * one.publishes[topic] * planemqx().topics[topic].mean_bytes
            for who in planemqx().subscribers.values()
            for topic, need in who.subscribes.items()
            if need.category == category
            for one in planemqx().publishers.values()
            if topic in one.publishes
        )
        for category in ("analytics", "real-time", "transactional", "streaming")
    }
    # Table I, in 2^20 bit/s.
    assert {name: round(value / 2**20, 1) for name, value in bits.items()} == {
        "analytics": 1.9,
        "real-time": 2.3,
        "transactional": 2.1,
        "streaming": 1.6,
    }


def test_others_are_raised_and_the_spared_category_gets_what_it_got():
    before, after = planemqx(), raised(planemqx(), 2.0, spare="real-time")
    assert load_of(after) == pytest.approx(2.0)
    assert load_of(only(after, "real-time")) == pytest.approx(load_of(only(before, "real-time")))


def test_the_planned_order_is_real_time_streaming_transactional_analytics():
    network = routes(planemqx())
    plan = planned(network)
    given = {
        need.category: (priority, rate)
        for need, priority, rate in zip(
            network.needs, plan.flow_priority.tolist(), plan.flow_drop_rate.tolist(), strict=True
        )
    }
    assert given == {
        "real-time": (0, 0.0),
        "streaming": (1, 0.02),
        "transactional": (2, 0.0),
        "analytics": (3, 0.05),
    }
