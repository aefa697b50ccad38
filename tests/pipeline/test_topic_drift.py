"""Topics that drift, and those that only scatter."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.pipeline.watch.drift import Count, Drift, expected_hz
from firelane.scenario import from_data

WINDOW_S = 10.0


def count(messages, weight=1.0):
    return Count(records=round(messages / weight), messages=messages, squares=messages * weight)


def begun(**expected_hz):
    return Drift(expected_hz=expected_hz, begun=True)


def names(found):
    return [one.topic for one in found]


def test_a_topic_three_times_as_fast_as_expected_has_drifted_and_one_twice_as_fast_has_not_yet():
    drift = begun(a=10.0, b=10.0)
    (found,) = drift.look({"a": count(300.0), "b": count(200.0)}, WINDOW_S)
    assert (found.topic, found.measured, found.expected, found.records) == ("a", 30.0, 10.0, 300)


def test_a_topic_that_has_fallen_silent_has_drifted():
    drift = begun(a=10.0, b=10.0)
    (found,) = drift.look({"a": count(100.0)}, WINDOW_S)
    assert (found.topic, found.records) == ("b", 0)


def test_a_slow_topic_that_is_silent_for_a_window_has_not():
    drift = begun(a=10.0, slow=0.2)  # two messages a window
    assert drift.look({"a": count(100.0)}, WINDOW_S) == []


def test_a_topic_of_which_a_hundredth_is_sampled_may_scatter_more():
    drift = begun(a=10.0)
    assert drift.look({"a": count(400.0, weight=100.0)}, WINDOW_S) == []  # four records where one was expected
    assert names(drift.look({"a": count(400.0)}, WINDOW_S)) == ["a"]


@pytest.mark.parametrize("weight", [1.0, 20.0])
def test_a_poisson_stream_that_keeps_its_rate_hardly_ever_drifts(weight):
    rng = np.random.default_rng(5)
    drift = begun(**{str(n): 10.0 for n in range(100)})
    records = rng.poisson(10.0 * WINDOW_S / weight, (200, 100))
    found = 0
    for row in records.tolist():
        found += len(drift.look({str(n): count(one * weight, weight) for n, one in enumerate(row) if one}, WINDOW_S))
    assert found <= 0.002 * records.size


def test_without_a_scenario_a_topic_is_compared_with_how_it_has_been():
    drift = begun()
    for _ in range(5):
        assert drift.look({"a": count(100.0)}, WINDOW_S) == []
    (found,) = drift.look({"a": count(500.0)}, WINDOW_S)
    assert found.expected == pytest.approx(10.0)
    for _ in range(30):
        last = drift.look({"a": count(500.0)}, WINDOW_S)
    assert last == []  # that is how it is now


def test_topics_that_are_gone_are_forgotten():
    drift = begun()
    drift.look({str(n): count(100.0) for n in range(50)}, WINDOW_S)
    for _ in range(200):
        drift.look({"other": count(100.0)}, WINDOW_S)
    assert set(drift.average_hz) == {"other"}


def test_what_a_scenario_expects_is_a_delivery_for_every_subscriber():
    scenario = from_data(
        {
            "name": "s",
            "topics": {"a/1": {"size": "10 B"}, "a/2": {"size": "10 B"}, "b": {"size": "10 B"}},
            "publishers": {"p": {"publishes": {"a/1": 5, "a/2": 2, "b": 1}}, "q": {"publishes": {"a/1": 1}}},
            "subscribers": {"x": {"subscribes": {"a/#": None, "a/1": None}}, "y": {"subscribes": {"a/1": None}}},
        }
    )
    assert expected_hz(scenario) == {"a/1": 12.0, "a/2": 2.0}  # overlapping filters of one subscriber make one copy


def test_the_first_window_is_not_judged_as_it_may_have_begun_before():
    drift = Drift(expected_hz={"a": 10.0})
    assert drift.look({"b": count(3.0)}, WINDOW_S) == []
    assert names(drift.look({"b": count(100.0)}, WINDOW_S)) == ["a"]
