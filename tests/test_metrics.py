"""The one table: classes, comparisons, and what JSON shows of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from firelane.metrics import class_mean, delays_compared
from firelane.predict import predict
from firelane.scenario import from_data
from firelane.scenario.plan import make_plan
from firelane.scenario.routes import routes


@pytest.fixture
def network():
    return routes(
        from_data(
            {
                "name": "three",
                "priorities": 3,
                "links": {"l": {"bandwidth": "8 Mbps", "overhead": 0, "pace": 1}},
                "topics": {name: {"size": "1000 B"} for name in "abc"},
                "publishers": {"p": {"publishes": {"a": 100, "b": 200, "c": 300}}},
                "subscribers": {"s": {"link": "l", "subscribes": {"a": {"weight": 3}, "b": None, "c": None}}},
            }
        )
    )


def planned(network, priority, drop_rate):
    return make_plan(
        network,
        subscription_flow=np.arange(3),
        flow_priority=np.array(priority),
        flow_drop_rate=np.array(drop_rate, float),
        made_by="test",
    )


def test_a_class_is_the_sum_of_its_subscriptions_with_delays_weighted_by_deliveries(network):
    metrics = predict(network, planned(network, [0, 1, 1], [0, 0, 0.5]))
    top, low = metrics.classes()
    assert (top["offered_hz"], low["offered_hz"]) == (100, 500)
    assert low["delivered_hz"] == pytest.approx(350)
    assert low["success"] == pytest.approx(0.7)
    delay = metrics.column("delay_mean_s")
    assert low["delay_mean_s"] == pytest.approx((200 * delay[1] + 150 * delay[2]) / 350)


def test_delays_are_compared_over_what_every_plan_delivers(network):
    """Value-weighted: sum(weight x delay) / sum(weight), over subscriptions alive under both plans."""
    first = predict(network, planned(network, [0, 1, 2], [0, 0, 1]))
    second = predict(network, planned(network, [1, 0, 2], [0, 0, 0]))
    weights = np.array([3.0, 1.0, 1.0])
    compared = delays_compared(weights, [first, second])
    for metrics, result in zip((first, second), compared, strict=True):
        delay = metrics.column("delay_mean_s")
        assert result["value_weighted_s"] == pytest.approx((3 * delay[0] + delay[1]) / 4)
        assert result["message_weighted_s"] == pytest.approx((100 * delay[0] + 200 * delay[1]) / 300)


def test_class_means_leave_out_what_weighs_nothing():
    values, weight = np.array([1.0, 3.0, np.nan]), np.array([1.0, 3.0, 0.0])
    assert class_mean(values, weight, np.array([0, 0, 1])) == {0: 2.5}


def test_the_json_document_is_json_even_where_delays_are_unknown(network):
    overloaded = predict(network, planned(network, [0, 0, 0], [0, 0, 1]))
    text = json.dumps(overloaded.to_data(per_subscription=True), allow_nan=False)
    assert json.loads(text)["subscriptions"][2]["delay_mean_s"] is None


def test_the_json_document_is_json_even_where_a_stage_is_saturated():
    data = {
        "name": "stuck",
        "topics": {"a": {"size": 10}},
        "publishers": {"p": {"publishes": {"a": 100}}},
        "subscribers": {"s": {"subscribes": {"a": None}}},
        "brokers": {"main": {"input_rate": 50}},
    }
    document = json.loads(json.dumps(predict(from_data(data)).to_data(), allow_nan=False))
    assert document["stages"]["broker_in"] == {"0": None}
