"""A plan for what is live: caps, subscriptions without traffic, and least shares that do not fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_exchange import observed, seen, topic, treated, want
from firelane.control import decide
from firelane.errors import FirelaneError, ScenarioError
from firelane.predict import predict
from firelane.scenario.model import Link, Need, Scenario
from systems import Shape, system

CLASSES = Scenario(name="live", priorities=4)


def capped(scene, caps):
    return replace(
        scene,
        subscriptions=tuple(replace(one, best_class=cap) for one, cap in zip(scene.subscriptions, caps, strict=False)),
    )


@given(st.integers(0, 1000), st.sampled_from([None, 3]), st.data())
@settings(max_examples=25)
def test_nobody_gets_a_class_above_its_cap_and_without_caps_nothing_is_lowered(seed, flows, data):
    scenario = replace(system(Shape(load=1.4, classes=6), seed)[0].scenario, flows=flows)
    scene = observed(scenario)
    free = decide(scene, scenario)
    caps = data.draw(st.lists(st.integers(0, 7), min_size=72, max_size=72))
    held = decide(capped(scene, caps), scenario)
    assert len(scene.subscriptions) == 72
    assert (held.priority >= np.minimum(caps, 5)).all()
    if flows is None:
        assert held.priority.tolist() == np.maximum(free.priority, np.minimum(caps, 5)).tolist()
    assert held.drop_rate == pytest.approx(free.drop_rate)


def test_a_subscription_without_traffic_gets_the_lowest_class_and_is_not_dropped():
    wants = [want("s", "a"), want("s", "silent"), want("t", "x/#", need=Need(weight=99.0))]
    plan = treated(decide(seen([topic("a", 30.0)], wants), CLASSES).plan)
    assert plan["s", "silent"] == plan["t", "x/#"] == (3, 0.0)
    assert plan["s", "a"][0] == 0
    assert plan["s", "a"][1] == pytest.approx(0.7, abs=1e-6)


def test_a_plan_carries_the_version_and_says_why():
    decision = decide(seen([topic("a", 30.0)], [want("s", "a")]), version=7)
    assert decision.plan.version == 7
    assert any("load 3.00 is brought to 0.90" in line for line in decision.plan.why)
    assert decision.relaxed == ()


def test_without_any_topic_there_is_nothing_to_plan():
    with pytest.raises(ScenarioError, match="topics"):
        decide(seen([], [want("s", "a")]))


def test_qos_1_and_2_give_way_first_and_are_never_dropped():
    wants = [want("s", "bulk", qos=1), want("s", "alarm", need=Need(min_share=0.9)), want("t", "more", need=Need())]
    topics = [topic("bulk", 20.0), topic("alarm", 1.0), topic("more", 5.0)]
    decision = decide(seen(topics, wants))
    plan = treated(decision.plan)
    assert decision.relaxed == ("thin",)
    assert "room for 4" in decision.plan.why[0]  # (0.9 - 0.09) / 2
    assert plan["s", "bulk"][1] == 0
    assert plan["s", "alarm"][1] <= 0.1 + 1e-6


def test_least_shares_that_do_not_fit_even_then_are_scaled_alike():
    wants = [want("s", name, need=Need(min_share=0.8)) for name in "ab"] + [want("t", "c", qos=2)]
    decision = decide(seen([topic("a", 10.0), topic("b", 20.0), topic("c", 1.0)], wants))
    kept = {pair: 1 - drop for pair, (_, drop) in treated(decision.plan).items()}
    assert kept["s", "a"] == kept["s", "b"] == pytest.approx(0.3, rel=1e-6)  # of load 3 only 0.9 fits
    assert kept["t", "c"] == 1
    assert decision.plan.why[0].startswith("thin: there is room for 0%")
    assert decision.plan.why[1].endswith("scaled to 37%")


def test_a_link_with_room_is_not_relaxed_because_another_has_none():
    roomy = Link(bandwidth_bps=80_000.0, overhead_bytes=0.0, pace=1.0)
    need = Need(max_loss=0.1)
    wants = [want("s", "a", need=need), want("t", "a", need=need, link="roomy"), want("u", "a", link="roomy")]
    decision = decide(seen([topic("a", 20.0)], wants, roomy=roomy))
    plan = treated(decision.plan)
    assert decision.relaxed == ("thin",)
    assert plan["s", "a"][1] == pytest.approx(0.55, abs=1e-6)
    assert plan["t", "a"][1] == plan["u", "a"][1] == 0


def test_what_has_a_tolerance_keeps_it_and_is_not_dropped_when_it_does_not_fit():
    scene = seen([topic("a", 20.0)], [want("s", "a", need=Need(tolerance=0.5))])
    plan = decide(scene).plan
    assert plan.delta == [0.5]
    assert treated(plan)["s", "a"][1] == 0


@given(st.integers(0, 1000), st.sampled_from([None, 1, 4]), st.floats(1.1, 4))
@settings(max_examples=25)
def test_whatever_the_least_shares_the_plan_fits_what_can_be_dropped(seed, flows, load):
    scenario = replace(system(Shape(load=load, shared=False, classes=3), seed)[0].scenario, flows=flows)
    rng = np.random.default_rng(seed)
    scene = observed(scenario)
    scene = replace(
        scene,
        subscriptions=tuple(
            replace(one, need=Need(min_share=float(rng.uniform(0, 1)), weight=float(rng.uniform(0.1, 5))))
            for one in scene.subscriptions
        ),
    )
    decision = decide(scene, scenario)
    plan = replace(decision.plan, version=1)
    after = predict(decision.routes, plan).links
    assert all(one.load <= (1 - scenario.headroom) * (1 + 1e-6) for one in after.values())


def test_least_shares_are_not_touched_where_they_fit():
    wants = [want("s", "a", need=Need(min_share=0.4)), want("s", "b", need=Need(weight=100.0))]
    decision = decide(seen([topic("a", 10.0), topic("b", 10.0)], wants))
    assert decision.relaxed == ()
    assert treated(decision.plan)["s", "a"][1] == pytest.approx(0.6, abs=1e-6)


def test_a_link_that_loses_messages_is_relaxed_by_what_is_sent():
    lossy = Link(bandwidth_bps=8000.0, overhead_bytes=0.0, pace=1.0, loss=0.2)
    wants = [want("s", "a", need=Need(min_share=0.6), link="lossy")]
    decision = decide(seen([topic("a", 15.0)], wants, lossy=lossy))
    assert decision.relaxed == ("lossy",)
    assert treated(decision.plan)["s", "a"][1] == pytest.approx(0.4, abs=1e-6)


def test_clients_of_one_name_on_links_of_their_own_share_a_row_that_fits_all_of_them():
    own = Link(bandwidth_bps=8000.0, overhead_bytes=0.0, pace=1.0, each=True)
    wants = [want("crew", "a", link="own"), want("crew", "a", link="own"), want("crew", "b", link="own")]
    decision = decide(seen([topic("a", 8.0), topic("b", 8.0)], wants, own=own))
    assert decision.drop_rate[0] == decision.drop_rate[2] == treated(decision.plan)["crew", "a"][1]
    assert set(decision.plan.promised["loads"]) == {"own:crew", "own:crew twin 1"}
    assert not any("\0" in line for line in decision.plan.why)
    assert decision.plan.flow_subscriber == ["crew", "crew"]
    assert max(decision.plan.subscription_flow) < len(decision.plan.flow_id)


def test_more_pairs_of_subscription_and_topic_than_memory_has_room_for_are_refused(monkeypatch):
    monkeypatch.setattr("firelane.control.network.MOST_CLAIMS", 50)
    topics = [topic(f"t/{n}", 1.0) for n in range(10)]
    decide(seen(topics, [want(f"s{n}", "t/#") for n in range(5)]))
    decide(seen(topics, [want(f"s{n}", "t/1") for n in range(50)]))
    with pytest.raises(FirelaneError, match="more pairs"):
        decide(seen(topics, [want(f"s{n}", "t/#") for n in range(6)]))
