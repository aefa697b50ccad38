"""Streams of sensors under overload, as they are planned live: precision gives way, where it can."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fake_exchange import seen, topic, treated, want
from firelane.control import decide
from firelane.control.what_if import changes, foreseen
from firelane.scenario.model import Need, Scenario
from firelane.scenario.sense_settings import SenseSettings
from firelane.scenario.settings import ExchangeSettings

SENSORS = want("s", "heat", need=Need(tolerance=0.5))
OTHERS = [want("s", "video", need=Need(weight=5.0)), want("t", "video", need=Need(weight=5.0))]
TOPICS = [topic("heat", 6.0), topic("video", 4.0)]  # loads 0.6, and twice 0.4 of which 0.9 is allowed


def live(*wants, streams=None, topics=TOPICS):
    return replace(seen(topics, wants), streams={"heat": 0.5} if streams is None else streams)


def delta_of(decision, topic_filter="heat", subscriber="s"):
    plan = decision.plan
    rows = zip(plan.subscriber, plan.filter, plan.delta, strict=True)
    return {(name, one): delta for name, one, delta in rows}[subscriber, topic_filter]


def test_under_overload_precision_gives_way_and_keeps_more_value_than_holding_it():
    decision, held = decide(live(SENSORS, *OTHERS)), decide(live(SENSORS, *OTHERS, streams={}))
    assert treated(decision.plan)["s", "heat"][1] == treated(held.plan)["s", "heat"][1] == 0.0
    assert delta_of(decision) > 1.0
    assert delta_of(held) == 0.5
    assert any(f"s heat widened from 0.5 to {delta_of(decision):.3g}" in line for line in decision.plan.why)
    assert any("1 subscriptions with a tolerance are held at full rate" in line for line in held.plan.why)
    assert decision.plan.promised["utility"] > held.plan.promised["utility"]
    assert decision.plan.promised["widened"] == 1
    # What is predicted is what the exchange then does: fewer messages of it, and none dropped.
    expected = foreseen(decision.routes, decision.plan)
    row = decision.network.numbers()["s", "heat"]
    share = (delta_of(decision) / 0.5 - 1) ** -0.5
    assert expected.column("delivered_hz")[row] == pytest.approx(6.0 * share)
    assert expected.column("drop_rate")[row] == 0
    assert expected.links["thin"].load == pytest.approx(0.9)


def test_without_overload_nothing_is_widened():
    decision = decide(live(SENSORS, topics=[topic("heat", 6.0)]))
    assert delta_of(decision) == 0.5
    assert "widened" not in decision.plan.promised


@pytest.mark.parametrize(
    ("wants", "streams"),
    [
        ([SENSORS, want("s", "#"), *OTHERS], None),  # it gets all of the stream anyhow
        ([want("s", "+", need=Need(tolerance=0.5)), want("t", "video", need=Need(weight=5.0))], None),  # video, too
        ([SENSORS, *OTHERS], {"other": 0.5}),
    ],
)
def test_a_tolerance_is_held_where_nothing_would_give_way(wants, streams):
    decision = decide(live(*wants, streams=streams))
    assert all(one in (None, 0.5) for one in decision.plan.delta)


def test_how_far_precision_gives_way_is_configured():
    worthless = want("s", "heat", need=Need(tolerance=0.5, weight=0.0))
    for widen, expected in ((10.0, 5.0), (4.0, 2.0), (1.0, 0.5)):
        settings = ExchangeSettings(sense=SenseSettings(widen=widen))
        decision = decide(live(worthless, *OTHERS), Scenario(name="live", exchange=settings))
        assert delta_of(decision) == pytest.approx(expected)


def test_what_asks_for_little_is_known_to_cost_little():
    """At five times the delta of a stream a subscription gets half its messages, so there is no overload at all."""
    loose = want("s", "heat", need=Need(tolerance=2.5))
    decision = decide(live(loose, want("s", "video")))
    assert decision.plan.promised["loads"]["thin"] == pytest.approx(0.3 + 0.4)
    assert foreseen(decision.routes, decision.plan).column("success").tolist() == [1, 1]
    assert delta_of(decision) == 2.5


def test_reliable_subscriptions_keep_their_precision():
    decision = decide(live(replace(SENSORS, qos=1), *OTHERS))
    assert delta_of(decision) == 0.5


def test_when_nothing_fits_precision_has_given_way_all_it_can_and_the_rest_waits():
    wants = [SENSORS, want("t", "bulk", need=Need(), qos=1)]
    decision = decide(live(*wants, topics=[topic("heat", 6.0), topic("bulk", 20.0)]))
    assert decision.relaxed == ("thin",)
    assert delta_of(decision) == pytest.approx(5.0)
    assert not decision.plan.flow_drop_rate.any()


def test_of_twins_the_widest_precision_counts_for_all():
    decision = decide(live(SENSORS, SENSORS, *OTHERS))
    assert decision.plan.filter.count("heat") == 1
    assert delta_of(decision) > 1.0
    assert np.isfinite(decision.drop_rate).all()


def test_a_plan_that_only_changes_precision_is_another_plan():
    free, full = decide(live(SENSORS, topics=[topic("heat", 6.0)])), decide(live(SENSORS, *OTHERS))
    count, _ = changes(full, free.plan, 5)
    assert count >= 1
    same, _ = changes(full, full.plan, 5)
    assert same == 0
