"""What is learnt of live traffic: as good as knowing the scenario that makes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_exchange import observed, seen, topic, treated, want
from firelane.control import decide, learnt
from firelane.control.learn import overheads, topic_of
from firelane.predict import predict
from firelane.scenario import from_data
from firelane.scenario.generate import firedex
from firelane.scenario.load import load
from firelane.scenario.model import Category, Link, Need, Scenario
from firelane.scenario.routes import routes, topic_overheads_bytes
from firelane.tune import tune
from systems import Shape, system

OWN = Link(bandwidth_bps=8000.0, overhead_bytes=0.0, pace=1.0, each=True)


def configured(**topics):
    """A scenario that names these topics at these rates."""
    return from_data(
        {
            "name": "office",
            "priorities": 4,
            "headroom": 0.2,
            "topics": {name: {"size": "100 B", "sizes": "fixed"} for name in topics},
            "publishers": {"p": {"publishes": topics}},
        }
    )


def rates(scenario):
    return {name: rate for one in scenario.publishers.values() for name, rate in one.publishes.items()}


def loads(scenario):
    return {name: one.load for name, one in predict(scenario).links.items()}


def overlapping():
    topics = {f"site/{i % 3}/{i}": {"size": 100 + 40 * i} for i in range(12)}
    wants = {"site/0/#": {"weight": 5}, "site/+/1": {"weight": 2}, "#": None, "site/1/4": {"utility": "linear"}}
    return from_data(
        {
            "name": "overlaps",
            "links": {"thin": {"bandwidth": "60 kbps"}},
            "topics": topics,
            "publishers": {"p": {"publishes": dict.fromkeys(topics, 2.0)}},
            "subscribers": {f"s{n}": {"link": "thin", "subscribes": wants} for n in range(3)},
        }
    )


def grouped():
    return replace(system(Shape(load=1.7, classes=9), 3)[0].scenario, flows=4)


@pytest.mark.parametrize(
    "scenario",
    [
        system(Shape(load=1.7, classes=9), 1)[0].scenario,
        system(Shape(load=0.6, shared=False, sizes="fixed"), 2)[0].scenario,
        grouped(),
        overlapping(),
        firedex(seed=1),
        load("office-fire"),
    ],
    ids=["overload", "own links", "grouped flows", "overlapping filters", "firedex", "office fire"],
)
def test_traffic_that_is_measured_perfectly_gives_the_plan_of_its_scenario(scenario):
    scenario = replace(
        scenario, brokers={}, publishers={n: replace(p, link=None) for n, p in scenario.publishers.items()}
    )
    expected = treated(tune(scenario))
    decided = treated(decide(observed(scenario), scenario).plan)
    assert decided.keys() == expected.keys()
    for pair, (priority, drop_rate) in expected.items():
        assert decided[pair][0] == priority, pair
        assert decided[pair][1] == pytest.approx(drop_rate, abs=1e-6), pair


@pytest.mark.parametrize("sizes", ["exponential", "fixed", [20, 30, 900]])
def test_delays_are_predicted_from_what_is_learnt_as_from_the_scenario(sizes):
    data = {
        "name": "one",
        "links": {"thin": {"bandwidth": "40 kbps"}},
        "topics": {"a": {"sizes": sizes, **({} if isinstance(sizes, list) else {"size": "300 B"})}},
        "publishers": {"p": {"publishes": {"a": 5}}, "q": {"publishes": {"a": 2}}},
        "subscribers": {"s": {"link": "thin", "subscribes": {"a": None}}},
    }
    scenario = from_data(data)
    learned = learnt(observed(scenario), scenario)
    assert predict(learned).column("delay_mean_s") == pytest.approx(predict(scenario).column("delay_mean_s"), rel=1e-9)


@given(st.floats(0.01, 1e6), st.floats(0, 900))
def test_sizes_have_the_mean_and_the_second_moment_that_were_seen(mean, squared_variation):
    variance = squared_variation * mean**2
    scenario = learnt(seen([topic("t", 1.0, mean, variance)], []))
    (found,) = scenario.topics.values()
    assert found.mean_bytes == pytest.approx(mean, rel=1e-9)
    assert found.mean_bytes**2 + found.variance_bytes2 == pytest.approx(mean**2 + variance, rel=0.006)
    assert not isinstance(found.sizes, tuple) or min(found.sizes) >= -1e-9 * mean


def test_a_topic_of_empty_messages_is_learnt():
    assert learnt(seen([topic("t", 1.0, 0.0)], [])).topics["t"].mean_bytes == 0


def test_what_is_configured_and_not_measured_is_kept():
    scenario = learnt(seen([topic("a", 3.0)], [want("s", "a")]), configured(a=1.0))
    assert (scenario.name, scenario.priorities, scenario.headroom) == ("office", 4, 0.2)
    assert rates(scenario) == {"a": 3.0}


def test_what_categories_require_is_kept():
    base = replace(configured(a=1.0), categories={"real-time": Category(max_delay_s=0.02)})
    assert learnt(seen([topic("a", 3.0)], [want("s", "a")]), base).categories == base.categories


def test_a_topic_not_seen_yet_fades_from_its_configured_rate_and_is_never_forgotten():
    scene, scenario = seen([topic("a", 3.0)], []), configured(a=9.0, alarm=0.5, rare=0.001)
    assert rates(learnt(scene, scenario)) == {"a": 3.0, "alarm": 0.5, "rare": 0.001}
    assert rates(learnt(scene, scenario, listened_s=1.0)) == {"a": 3.0, "alarm": 0.5, "rare": 0.001}
    assert rates(learnt(scene, scenario, listened_s=100.0)) == {"a": 3.0, "alarm": 0.01, "rare": 0.001}
    assert rates(learnt(scene, scenario, listened_s=1e4)) == {"a": 3.0, "alarm": 1e-4, "rare": 1e-4}


def test_a_rare_alarm_keeps_its_place_before_everything_else():
    scene = seen([topic("bulk", 20.0)], [want("s", "bulk"), want("s", "alarm", need=Need(weight=5.0))])
    plan = decide(scene, configured(bulk=20.0, alarm=0.1), listened_s=3600.0).plan
    assert treated(plan)["s", "alarm"] == (0, 0.0)
    assert treated(plan)["s", "bulk"][1] > 0.5


def test_subscriptions_of_qos_1_and_2_are_not_dropped_by_rate():
    topics = [topic("a", 5.0), topic("b", 10.0)]
    scene = seen(topics, [want("s", "a", qos=1), want("s", "b", need=Need(weight=100.0))])
    assert [need.least_share for need in routes(learnt(scene)).needs] == [1.0, 0.0]
    plan = treated(decide(scene).plan)
    assert plan["s", "a"][1] == 0
    assert plan["s", "b"][1] == pytest.approx(0.6, abs=1e-6)  # of load 1 there is room for 0.9 - 0.5


def test_members_of_a_shared_group_together_load_a_link_like_one_subscriber():
    topics = [topic("a/x", 4.0), topic("a/y", 2.0), topic("b", 1.0)]
    alone = loads(learnt(seen(topics, [want("s", "a/#")])))
    shared = seen(topics, [want(f"s{n}", "$share/crew/a/#") for n in range(3)])
    assert loads(learnt(shared))["thin"] == pytest.approx(alone["thin"])
    assert set(treated(decide(shared).plan)) == {(f"s{n}", "$share/crew/a/#") for n in range(3)}
    own = replace(shared, links={"thin": OWN})
    assert list(loads(learnt(own)).values()) == pytest.approx([alone["thin"] / 3] * 3)


def test_two_groups_and_a_subscriber_each_get_everything():
    scene = seen([topic("a", 3.0)], [want("s", "a"), want("t", "$share/one/a"), want("u", "$share/two/+")])
    assert loads(learnt(scene))["thin"] == pytest.approx(0.9)


def test_filters_of_one_group_name_are_groups_of_their_own():
    topics = [topic("a/x", 4.0), topic("b/x", 4.0)]
    wants = [want("s", "$share/crew/a/#"), want("t", "$share/crew/b/#"), want("u", "$share/crew/b/#")]
    assert loads(learnt(seen(topics, wants)))["thin"] == pytest.approx(0.8)


def test_clients_that_are_one_subscriber_each_need_their_room():
    topics = [topic("a", 4.0), topic("b", 1.0)]
    one = seen(topics, [want("crew", "a"), want("crew", "b")])
    three = seen(topics, [*one.subscriptions, want("crew", "a"), want("crew", "b"), want("crew", "a")])
    assert loads(learnt(one))["thin"] == pytest.approx(0.5)
    assert loads(learnt(three))["thin"] == pytest.approx(1.4)
    plan = treated(decide(three).plan)
    assert set(plan) == {("crew", "a"), ("crew", "b")}
    kept = 3 * 0.4 * (1 - plan["crew", "a"][1]) + 2 * 0.1 * (1 - plan["crew", "b"][1])
    assert kept == pytest.approx(0.9, rel=1e-6)


@pytest.mark.parametrize("first", [0, 1])
def test_a_client_cannot_lower_what_others_of_its_name_get(first):
    low = want("crew", "a", need=Need(weight=0.0), best_class=8)
    crew = [low, want("crew", "a", need=Need(weight=9.0))]
    wants = [crew[first], crew[1 - first], want("bulk", "b")]
    plan = treated(decide(seen([topic("a", 3.0), topic("b", 9.0)], wants)).plan)
    assert plan["crew", "a"] == (0, 0.0)


def test_a_client_of_qos_1_does_not_keep_others_of_its_name_from_being_dropped():
    wants = [want("crew", "a", qos=1), want("crew", "a")]
    plan = treated(decide(seen([topic("a", 8.0)], wants)).plan)
    assert plan["crew", "a"][1] == pytest.approx(1 - 0.1 / 0.8, abs=1e-6)


def test_everything_that_is_live_is_in_a_scenario_of_its_own_without_a_configured_one():
    scenario = learnt(seen([topic("a", 3.0)], [want("s", "a")]))
    assert isinstance(scenario, Scenario)
    assert scenario.priorities == 9
    assert np.isfinite(predict(scenario).column("delay_mean_s")).all()


@pytest.mark.parametrize("mean", [0.0, 30.0, 700.0, 20_000.0])
@pytest.mark.parametrize("spread", [0.0, 0.005, 0.3, 1.0, 2.5, 50.0])
def test_overheads_of_many_topics_are_those_of_each(mean, spread):
    variance, names = (spread * mean) ** 2, ["a", "a/long/name/" + 120 * "x"]
    each = topic_overheads_bytes({name: topic_of(topic(name, 1.0, mean, variance)) for name in names})
    lengths = np.array([len(name) for name in names], float)
    assert overheads(np.full(2, mean), np.full(2, variance), lengths) == pytest.approx(each)
