"""The leader, event by event: what it assigns, when, and what it leaves alone."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from firelane.errors import FirelaneError
from firelane.overlay.leader.assignment import STRATEGIES, Tuning
from firelane.overlay.leader.directory import Directory
from firelane.overlay.leader.events import (
    Assign,
    Deposed,
    Elected,
    LoadsReported,
    NotAssigned,
    Router,
    RoutersChanged,
    Tick,
    Topic,
    TopicsChanged,
    WakeAt,
)
from firelane.overlay.leader.lately import Lately
from firelane.overlay.leader.leading import Leader, Leading
from firelane.overlay.owner import Assignment
from firelane.scenario.plan import plan_from_data


def topic(publishers="west", subscribers="east", home=None, epoch=1):
    assignment = None if home is None else Assignment(router=home, epoch=epoch)
    return Topic(
        publishers=frozenset(publishers.split()), subscribers=frozenset(subscribers.split()), assignment=assignment
    )


def routers(*names):
    return {name: Router(boot="1") for name in names}


def leader(topics=None, names=("x", "y"), loads=None, **leading):
    """One that leads since 0 s, with what it did on its election."""
    one = Leader(Leading(**leading))
    one.handle(RoutersChanged(now_s=0.0, routers=routers(*names)))
    one.handle(TopicsChanged(now_s=0.0, topics=topics or {}))
    one.handle(LoadsReported(now_s=0.0, loads=loads or {}))
    return one, one.handle(Elected(now_s=0.0, epoch=5))


def assigned(actions):
    return {name: router for one in actions if isinstance(one, Assign) for name, router in one.homes.items()}


def why(actions):
    return [line for one in actions if isinstance(one, Assign) for line in one.why]


@pytest.mark.parametrize(
    ("publishers", "subscribers", "needed"),
    [
        ("west", "east", True),
        ("west", "west", False),
        ("west", "", False),
        ("", "east", False),
        ("west east", "west", True),
        ("west", "west east", True),
    ],
)
def test_only_topics_that_cross_from_edge_to_edge_get_a_router(publishers, subscribers, needed):
    _, actions = leader({"t": topic(publishers, subscribers)})
    assert assigned(actions).keys() == ({"t"} if needed else set())


def test_new_topics_are_assigned_together_after_a_short_time():
    one, _ = leader(batch_s=0.1)
    assert one.handle(TopicsChanged(now_s=1.0, topics={"a": topic()})) == [WakeAt(at_s=1.1)]
    assert one.handle(TopicsChanged(now_s=1.05, topics={"b": topic(), "c": topic()})) == []
    assert assigned(one.handle(Tick(now_s=1.09))) == {}
    actions = one.handle(Tick(now_s=1.1))
    assert assigned(actions) == {"a": "x", "b": "y", "c": "x"}
    assert why(actions) == ["3 new topics: each to the router with the least load, the largest first"]
    assert actions[-1] == WakeAt(at_s=10.0)


unmeasured = pytest.mark.parametrize("loads", [{}, dict.fromkeys((f"t{number:02}" for number in range(60)), 0.0)])


def counts(homes):
    return sorted(Counter(homes.values()).values())


@unmeasured
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_new_topics_of_which_no_load_is_known_are_spread_evenly(strategy, loads):
    names = sorted(f"t{number:02}" for number in range(60))
    one, _ = leader(names=("x", "y", "z"), strategy=strategy)
    one.handle(Tick(now_s=10.0))  # a step in which there was nothing
    one.handle(TopicsChanged(now_s=11.0, topics={name: topic() for name in names[:30]}))
    one.handle(LoadsReported(now_s=11.0, loads={name: load for name, load in loads.items() if name < "t30"}))
    homes = assigned(one.handle(Tick(now_s=11.2)))
    assert counts(homes) == [10, 10, 10]
    for now_s, name in enumerate(names[30:], 1):  # one at a time, all between two steps
        one.handle(TopicsChanged(now_s=12.0 + 0.2 * now_s, topics={name: topic()}))
        one.handle(LoadsReported(now_s=12.0 + 0.2 * now_s, loads={name: 0.0} if loads else {}))
        homes |= assigned(one.handle(Tick(now_s=12.11 + 0.2 * now_s)))
    assert counts(homes) == [20, 20, 20]


@unmeasured
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_new_leader_spreads_topics_of_which_no_load_is_known(strategy, loads):
    here = {f"t{number:02}": topic(home="x" if number < 12 else None) for number in range(60)}
    _, actions = leader(here, ("x", "y", "z"), loads, strategy=strategy)
    homes = {**dict.fromkeys((name for name in here if name < "t12"), "x"), **assigned(actions)}
    assert counts(homes) == [20, 20, 20]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_topics_nobody_has_measured_are_spread_beside_others_that_are(strategy):
    here = {f"a{number}": topic(home="xyz"[number % 3]) for number in range(6)}
    one, _ = leader(here, ("x", "y", "z"), {**dict.fromkeys(here, 5.0), "a0": 4.0}, strategy=strategy)
    one.handle(Tick(now_s=10.0))
    one.handle(TopicsChanged(now_s=11.0, topics={f"b{number:02}": topic() for number in range(30)}))
    assert counts(assigned(one.handle(Tick(now_s=11.2)))) == [10, 10, 10]


def test_where_there_are_many_topics_new_ones_wait_longer_as_deciding_takes_longer():
    one, _ = leader({f"t{number}": topic(home="x") for number in range(20_000)}, batch_s=0.1)
    assert one.handle(TopicsChanged(now_s=1.0, topics={"new": topic()})) == [WakeAt(at_s=pytest.approx(1.2, abs=1e-3))]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_topics_of_a_dead_router_go_at_once_whatever_the_budget(strategy):
    here = {f"t{number:02}": topic(home="x" if number < 30 else "y") for number in range(40)}
    one, actions = leader(here, ("x", "y", "z"), dict.fromkeys(here, 1.0), strategy=strategy, max_moves=2)
    assert assigned(actions) == {}
    actions = one.handle(RoutersChanged(now_s=3.0, routers=routers("y", "z")))
    homes = assigned(actions)
    assert homes.keys() == {name for name, one in here.items() if one.assignment.router == "x"}
    assert list(homes.values()).count("z") == 20  # ten are at y already: 20 and 20
    assert why(actions) == ["x is gone: its 30 topics to y, z"]
    assert actions[0].moves == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_router_that_joins_gets_its_share_within_the_budget_of_each_step(strategy):
    here = {f"t{number:02}": topic(home="xy"[number % 2]) for number in range(30)}
    leading = {"strategy": strategy, "max_moves": 3, "tuning": Tuning(period_steps=1)}
    one, _ = leader(here, ("x", "y"), dict.fromkeys(here, 2.0), **leading)
    assert assigned(one.handle(RoutersChanged(now_s=3.0, routers=routers("x", "y", "z")))) == {}
    homes, steps = {name: one.assignment.router for name, one in here.items()}, []
    for step in range(1, 12):
        actions = one.handle(Tick(now_s=step * 10.0))
        steps.append(len(assigned(actions)))
        homes.update(assigned(actions))
    assert max(steps) == 3
    assert steps[-3:] == [0, 0, 0]
    assert sum(homes[name] == "z" for name in homes) == 10
    assert sum(steps) == 10 if strategy != "long-term" else sum(steps) >= 10


@pytest.mark.parametrize("strategy", ["bounded-moves", "least-load", "long-term"])
def test_an_overloaded_router_is_relieved(strategy):
    here = {"a": topic(home="x"), "b": topic(home="x"), "c": topic(home="y"), "d": topic(home="y")}
    leading = {"strategy": strategy, "tuning": Tuning(period_steps=1)}
    one, _ = leader(here, ("x", "y"), dict.fromkeys(here, 5.0), **leading)
    assert assigned(one.handle(Tick(now_s=10.0))) == {}
    one.handle(LoadsReported(now_s=11.0, loads={"a": 20.0, "b": 10.0}))
    homes = {"a": "x", "b": "x", "c": "y", "d": "y"}
    for step in (2, 3):
        homes.update(assigned(one.handle(Tick(now_s=step * 10.0))))
    assert homes["a"] != homes["b"] or {homes["c"], homes["d"]} != {"y"}
    carried = [sum({"a": 20, "b": 10, "c": 5, "d": 5}[t] for t in homes if homes[t] == one) for one in "xy"]
    assert sorted(carried) == [20, 20]


def test_differences_within_the_threshold_are_left_alone():
    here = {"a": topic(home="x"), "b": topic(home="y"), "c": topic(home="x")}
    one, _ = leader(here, ("x", "y"), {"a": 100.0, "b": 100.0, "c": 4.0})  # 4 of 102, 3.9 %
    assert assigned(one.handle(Tick(now_s=10.0))) == {}
    one.handle(LoadsReported(now_s=11.0, loads={"a": 90.0, "c": 20.0}))  # 110 and 100: c makes it worse
    assert assigned(one.handle(Tick(now_s=20.0))) == {}


def test_it_takes_over_what_there_is_and_acts_only_while_elected():
    here = {f"t{number}": topic(home="x") for number in range(6)}
    one = Leader(Leading())
    assert one.handle(RoutersChanged(now_s=0.0, routers=routers("x", "y"))) == []
    assert one.handle(TopicsChanged(now_s=0.0, topics={**here, "new": topic()})) == []
    assert one.handle(Tick(now_s=100.0)) == []
    assert not one.elected
    actions = one.handle(Elected(now_s=100.0, epoch=7))
    assert assigned(actions) == {"new": "y"}
    assert actions[0].epoch == 7
    assert one.elected
    assert one.handle(Deposed(now_s=101.0)) == []
    assert one.handle(RoutersChanged(now_s=102.0, routers=routers("y"))) == []
    assert one.handle(Tick(now_s=200.0)) == []
    assert one.handle(Elected(now_s=201.0, epoch=7)) == []  # an election that is over
    assert one.statistics()["stale_elections"] == 1
    assert assigned(one.handle(Elected(now_s=202.0, epoch=9))) == {**dict.fromkeys(here, "y"), "new": "y"}


def test_what_is_on_its_way_to_the_registry_is_not_undone_by_what_it_said_before():
    one, _ = leader({"t": topic(home="x", epoch=3)}, ("x", "y", "z"))
    (first,) = set(assigned(one.handle(RoutersChanged(now_s=1.0, routers=routers("y", "z")))).values())
    again = one.handle(TopicsChanged(now_s=1.1, topics={"t": topic("west north", home="x", epoch=3)}))
    assert again == []  # the old word: a batch would have been begun
    left = {"y", "z"} - {first}
    assert set(assigned(one.handle(RoutersChanged(now_s=1.2, routers=routers(*left)))).values()) == left
    assert (
        one.handle(TopicsChanged(now_s=1.3, topics={"t": topic(home=first, epoch=6)})) == []
    )  # our own, but not our last
    assert one.handle(TopicsChanged(now_s=1.4, topics={"t": topic(home=min(left), epoch=7)})) == []
    assert one.statistics()["pending"] == 0
    assert one.handle(TopicsChanged(now_s=1.5, topics={"t": topic(home="x", epoch=8)})) == [WakeAt(at_s=1.6)]


def test_what_could_not_be_written_is_decided_again():
    one, _ = leader({"t": topic()}, ("x",))
    assert one.handle(NotAssigned(now_s=1.0, topics=frozenset({"t", "never heard of"}))) == [WakeAt(at_s=1.1)]
    assert assigned(one.handle(Tick(now_s=1.1))) == {"t": "x"}
    assert one.statistics()["not_written"] == 1


def test_a_topic_that_is_gone_is_forgotten_and_new_when_it_comes_back():
    one, _ = leader({"a": topic(home="x"), "b": topic(home="y")}, loads={"a": 1.0, "b": 9.0})
    one.handle(TopicsChanged(now_s=1.0, topics={"a": None}))
    assert one.statistics()["topics"] == 1
    one.handle(TopicsChanged(now_s=2.0, topics={"a": topic()}))
    actions = one.handle(Tick(now_s=3.0))
    assert assigned(actions) == {"a": "x"}
    assert why(actions)[0].startswith("1 new topic:")


def test_without_routers_topics_wait_and_go_to_the_first_that_comes():
    one, actions = leader({"a": topic()}, ())
    assert actions == [WakeAt(at_s=10.0)]
    assert assigned(one.handle(Tick(now_s=10.0))) == {}
    assert assigned(one.handle(RoutersChanged(now_s=11.0, routers=routers("x")))) == {"a": "x"}


def test_a_router_started_again_under_its_name_keeps_its_topics():
    one, _ = leader({"a": topic(home="x")}, ("x", "y"))
    assert one.handle(RoutersChanged(now_s=1.0, routers={"x": Router(boot="2"), "y": Router(boot="1")})) == []


def test_a_late_tick_does_not_bring_the_next_step_closer():
    one, _ = leader()
    assert one.handle(Tick(now_s=19.0)) == [WakeAt(at_s=29.0)]


def test_loads_that_are_none_are_refused_and_counted():
    one, _ = leader({"a": topic(home="x"), "b": topic(home="x")}, loads={"a": 1.0, "b": 1.0})
    bad = {"a": math.nan, "b": -1.0, "nobody": 3.0}
    assert one.handle(LoadsReported(now_s=1.0, loads=bad)) == []
    assert one.handle(LoadsReported(now_s=1.0, loads={"a": math.inf})) == []
    assert one.statistics()["refused_loads"] == 4
    assert one.plan().promised["before"] == {"x": 2.0, "y": 0.0}


def test_when_nothing_is_published_nothing_is_moved():
    here = {name: topic(home="x") for name in "abcd"}
    one, _ = leader(here, loads=dict.fromkeys(here, 0.0))
    assert assigned(one.handle(Tick(now_s=10.0))) == {}
    one.handle(LoadsReported(now_s=11.0, loads=dict.fromkeys(here, 2.0)))
    assert len(assigned(one.handle(Tick(now_s=20.0)))) == 2


def test_topics_beyond_the_most_are_left_to_hashing_and_counted():
    one, actions = leader({f"t{number}": topic() for number in range(8)}, most_topics=5)
    assert len(assigned(actions)) == 5
    assert one.statistics()["topics_not_taken"] == 3


def test_topics_that_come_and_go_leave_nothing_behind():
    one, _ = leader(strategy="long-term", tuning=Tuning(period_steps=3))
    for step in range(1, 60):
        one.handle(TopicsChanged(now_s=step * 10.0, topics={f"t{step}": topic(), f"t{step - 1}": None}))
        one.handle(Tick(now_s=step * 10.0))
    known = one.statistics()
    assert (known["topics"], known["crossing"], known["pending"]) == (1, 1, 1)
    assert len(one._lately.topics) == 3
    assert len(one._strategy._target) <= 4


def test_a_dry_run_says_what_the_next_step_would_do_and_does_nothing():
    here = {name: topic(home="x") for name in "abcd"}
    one, _ = leader(here, loads=dict.fromkeys(here, 2.0))
    plan = one.plan()
    assert plan.to_data() == one.plan().to_data()
    assert sorted(plan.placement.values()) == ["x", "x", "y", "y"]
    assert plan.promised["before"] == {"x": 8.0, "y": 0.0}
    assert plan.promised["after"] == {"x": 4.0, "y": 4.0}
    assert {(move["from"], move["to"], move["load"]) for move in plan.promised["moves"]} == {("x", "y", 2.0)}
    assert plan.why == ("2 moves: the fullest and the emptiest router were 8 apart, more than 0.2; now 0",)
    assert plan.version == 5
    assert plan_from_data(plan.to_data()).placement == plan.placement
    moved = {move["topic"] for move in plan.promised["moves"]}
    assert assigned(one.handle(Tick(now_s=10.0))).keys() == moved


def test_a_dry_run_works_without_routers_without_topics_and_while_another_leads():
    one = Leader(Leading())
    assert one.plan().why == ("no router lives; start one",)
    one.handle(RoutersChanged(now_s=0.0, routers=routers("x")))
    assert one.plan().why == ("no topic crosses from one edge to another",)
    one.handle(TopicsChanged(now_s=0.0, topics={"t": topic(home="dead")}))
    plan = one.plan()
    assert plan.placement == {"t": "x"}
    assert plan.promised["moves"][0]["from"] == "dead"
    one.handle(TopicsChanged(now_s=0.0, topics={"t": topic(home="x", epoch=2)}))
    assert one.plan().why == ("nothing to move",)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"strategy": "best"}, 'strategy: "best" is not known; write one of bounded-moves, fewest-topics'),
        ({"max_moves": -1}, "max_moves: -1 is too few"),
        ({"step_s": 0.0}, "step_s, batch_s: 0 and 0.1 are no times"),
        ({"most_topics": 0}, "most_topics: 0 is too few"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(FirelaneError, match=message):
        Leading(**wrong)


@pytest.mark.parametrize("capacity", [0.0, -1.0, math.nan, math.inf])
def test_a_capacity_that_is_none_is_refused(capacity):
    with pytest.raises(FirelaneError, match="capacity"):
        Router(boot="1", capacity=capacity)


def test_the_load_of_a_topic_that_nobody_measures_any_more_is_not_known():
    directory = Directory(10)
    directory.topics_changed({"a": topic(), "b": topic()})
    directory.loads_reported({"a": 500.0, "b": 10.0})
    directory.loads_reported({"a": None})
    assert directory.cluster(Lately(0, 10)).now.tolist() == [10.0, 10.0]
