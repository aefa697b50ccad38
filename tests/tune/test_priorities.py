from __future__ import annotations

import numpy as np
import pytest
from tune_cases import random_scenario

from firelane.scenario import from_data
from firelane.scenario.generate import firedex
from firelane.scenario.plan import Plan
from firelane.scenario.routes import Routes, routes
from firelane.scenario.utility import utilities
from firelane.tune import PRIORITY_METHODS, tune


def _by_the_paper(r: Routes, index: np.ndarray) -> tuple[list[set[int]], list[int]]:
    """Section 4.2, steps 1-5, as the paper puts them: the flows (sets of subscriptions) and their classes."""
    flows, classes = [], []
    for subscriber in range(len(r.subscribers)):
        own = np.flatnonzero(r.subscription_subscriber == subscriber)
        ranked = own[np.argsort(-index[own], kind="stable")]
        parts = r.scenario.flows or len(ranked)
        lists = [part for part in np.array_split(ranked, parts) if len(part)]
        for klass, inside in enumerate(np.array_split(np.arange(len(lists)), r.scenario.priorities)):
            for one in inside:
                flows.append({int(i) for i in lists[one]})
                classes.append(klass)
    return flows, classes


def _decided(plan: Plan) -> set[tuple[frozenset[int], int]]:
    members = [frozenset(np.flatnonzero(plan.subscription_flow == f).tolist()) for f in range(len(plan.flow_id))]
    return set(zip(members, plan.flow_priority.tolist(), strict=True))


def _expected(r: Routes, index: np.ndarray) -> set[tuple[frozenset[int], int]]:
    flows, classes = _by_the_paper(r, index)
    return {(frozenset(flow), klass) for flow, klass in zip(flows, classes, strict=True)}


def _bandwidth_bps(r: Routes) -> np.ndarray:
    """Eq. 9's denominator, topic by topic (the paper's scenario has no wildcards and no overhead)."""
    bits = {topic: 8 * r.topic_mean_bytes[i] * r.topic_rate_hz[i] for i, topic in enumerate(r.topics)}
    return np.array([bits[one] for one in r.filters])


@pytest.mark.parametrize("flows", [None, 9, 4])
@pytest.mark.parametrize("shared", [False, True])
def test_bandwidth_adjusted_is_section_4_2_with_eq_9(flows, shared):
    r = routes(firedex(seed=1, flows=flows, shared=shared))
    index = utilities(r.needs).most / _bandwidth_bps(r)
    assert _decided(tune(r, priorities="bandwidth-adjusted", drops="none")) == _expected(r, index)


def test_information_ranks_by_most_utility_alone():
    r = routes(firedex(seed=2))
    plan = tune(r, priorities="information", drops="none")
    assert _decided(plan) == _expected(r, utilities(r.needs).most)


def test_seven_flows_in_three_classes_prefer_the_higher_ones():
    """Step 4: 7 flows in 3 classes are split 3, 2, 2."""
    topics = {f"t{i}": {"size": "100 B"} for i in range(7)}
    scenario = from_data(
        {
            "name": "seven",
            "priorities": 3,
            "topics": topics,
            "links": {"thin": {"bandwidth": "1 Mbps"}},
            "publishers": {"p": {"publishes": dict.fromkeys(topics, 1)}},
            "subscribers": {"s": {"link": "thin", "subscribes": {t: {"weight": i + 1} for i, t in enumerate(topics)}}},
        }
    )
    assert tune(scenario, priorities="bandwidth-adjusted").flow_priority.tolist() == [2, 2, 1, 1, 0, 0, 0]


def test_a_cheap_topic_goes_before_a_dear_one_of_equal_worth():
    scenario = from_data(
        {
            "name": "two",
            "topics": {"dear": {"size": "9 kB"}, "cheap": {"size": "90 B"}},
            "links": {"thin": {"bandwidth": "1 Mbps"}},
            "publishers": {"p": {"publishes": {"dear": 1, "cheap": 1}}},
            "subscribers": {"s": {"link": "thin", "subscribes": {"dear": {}, "cheap": {}}}},
        }
    )
    assert tune(scenario, priorities="bandwidth-adjusted").flow_priority.tolist() == [1, 0]
    assert tune(scenario, priorities="information").flow_priority.tolist() == [0, 1]  # a tie: as written


def test_none_puts_everything_in_class_0():
    assert not tune(firedex(seed=3), priorities="none", drops="flat").flow_priority.any()


def test_random_follows_its_seed():
    scenario = firedex(seed=3)
    plans = [tune(scenario, priorities="random", drops="flat", seed=seed) for seed in (7, 7, 8)]
    assert _decided(plans[0]) == _decided(plans[1]) != _decided(plans[2])


@pytest.mark.parametrize("drops", ["optimised", "linear", "exponential"])
def test_delay_adjusted_keeps_the_flows_and_drop_rates_of_bandwidth_adjusted(drops):
    scenario = firedex(seed=4, shared=True)
    before, after = (tune(scenario, priorities=p, drops=drops) for p in ("bandwidth-adjusted", "delay-adjusted"))
    assert after.subscription_flow.tolist() == before.subscription_flow.tolist()
    assert after.flow_drop_rate.tolist() == before.flow_drop_rate.tolist()
    assert after.flow_priority.tolist() != before.flow_priority.tolist()


@pytest.mark.parametrize("shared", [False, True])
def test_delay_adjusted_ranks_a_links_flows_by_weight_per_load_after_drops(shared):
    r = routes(firedex(seed=5, shared=shared))
    plan = tune(r, priorities="delay-adjusted")
    flow, flows = plan.subscription_flow, len(plan.flow_id)
    lane = np.empty(flows, np.int64)
    lane[flow] = r.subscription_lane
    weight = np.bincount(flow, [need.weight for need in r.needs], minlength=flows)
    load = np.bincount(flow, _bandwidth_bps(r), minlength=flows) * (1 - plan.flow_drop_rate)
    expected = np.full(flows, r.scenario.priorities - 1)
    for one in range(len(r.lanes)):
        alive = np.flatnonzero((lane == one) & (plan.flow_drop_rate < 1))
        ranked = alive[np.argsort(-weight[alive] / load[alive], kind="stable")]
        for klass, inside in enumerate(np.array_split(ranked, r.scenario.priorities)):
            expected[inside] = klass
    assert plan.flow_priority.tolist() == expected.tolist()


@pytest.mark.parametrize("priorities", PRIORITY_METHODS)
def test_flows_that_are_dropped_entirely_go_to_the_last_class(priorities):
    scenario = random_scenario(3, load=8)
    plan = tune(scenario, priorities=priorities)
    gone = plan.flow_drop_rate == 1
    assert gone.any()
    assert (plan.flow_priority[gone] == scenario.priorities - 1).all()


@pytest.mark.parametrize("priorities", PRIORITY_METHODS)
def test_topics_that_nobody_publishes_are_no_trouble(priorities):
    scenario = from_data(
        {
            "name": "quiet",
            "topics": {"quiet": {"size": "90 B"}, "loud": {"size": "900 B"}, "silent": {"size": "90 B"}},
            "links": {"thin": {"bandwidth": "1 kbps"}},
            "publishers": {"p": {"publishes": {"loud": 10, "silent": 0}}},
            "subscribers": {"s": {"link": "thin", "subscribes": {"quiet": {}, "loud": {}, "silent": {"weight": 0}}}},
        }
    )
    plan = tune(scenario, priorities=priorities)
    assert plan.flow_drop_rate[[0, 2]].tolist() == [0, 0]
    assert 0 < plan.flow_drop_rate[1] < 1
