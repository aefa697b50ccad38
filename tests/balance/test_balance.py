"""Loads in, a Balance and a Plan out: the same for every method."""

from __future__ import annotations

import numpy as np
import pytest
from loads_made import loads_of

from firelane.balance import METHODS, balance
from firelane.errors import FirelaneError
from firelane.scenario.plan import load_plan

GROWN = loads_of([6, 5, 2, 1], [6, 1, 2, 5])  # placed as 6 + 1 and 5 + 2; then 6 + 5 and 1 + 2


@pytest.mark.parametrize("method", METHODS)
def test_every_method_places_every_topic_and_says_what_came_of_it(method):
    result = balance(GROWN, brokers=2, method=method)
    data = result.to_data(series=True)
    assert {"load_difference_mean", "load_difference_max", "excess_mean", "switches", "reconfigurations"} <= set(data)
    assert data["seconds"] > 0
    assert set(data["series"]) == {"time_s", "load_difference", "excess", "switches"}
    assert {len(one) for one in data["series"].values()} == {2}
    assert ("proved" in data) == (method == "exact")
    assert set(result.placement) == {"a", "b", "c", "d"}
    assert set(result.placement.values()) <= {"broker-1", "broker-2"}
    assert sum(result.after.values()) == sum(result.before.values()) == 14


def test_before_after_and_moves_lead_from_one_to_the_other():
    result = balance(GROWN, brokers=2, method="bounded-moves", threshold=1)
    assert result.before == {"broker-1": 11, "broker-2": 3}
    assert result.after == {"broker-1": 7, "broker-2": 7}
    carried = dict(result.before)
    for move in result.moves:
        carried[move.source] -= move.load
        carried[move.target] += move.load
    assert carried == result.after


def test_a_current_placement_is_where_it_starts_and_leaving_it_counts():
    everything = dict.fromkeys("abcd", "broker-2")
    result = balance(GROWN, brokers=2, method="threshold", threshold=0, current=everything)
    assert result.score.switches[0] == 2
    assert result.before == {"broker-1": 0, "broker-2": 14}
    stays = balance(GROWN, brokers=2, method="threshold", threshold=100, current=everything)
    assert stays.score.switches.sum() == 0
    assert stays.moves == []


def test_topics_that_are_gone_are_in_no_placement_and_no_move():
    result = balance(loads_of([3, 2, 1], [3, 2, 0]), brokers=2, method="greedy")
    assert set(result.placement) == {"a", "b"}
    assert all(move.topic != "c" for move in result.moves)


def test_the_plan_can_be_written_and_read_and_continued_from(tmp_path):
    result = balance(GROWN, brokers=2)
    result.to_plan(version=7).save(tmp_path / "plan.json")
    plan = load_plan(tmp_path / "plan.json")
    assert plan.version == 7
    assert plan.made_by == "balance bounded-moves"
    assert plan.placement == result.placement
    assert plan.promised["switches"] == result.score.switches.sum()
    assert "4 topics over 2 brokers" in plan.why[0]
    again = balance(loads_of([6, 1, 2, 5]), brokers=2, current=plan.placement)
    assert again.score.switches.sum() == 0


def test_a_threshold_is_a_load_or_a_share_of_the_mean_load_of_each_step():
    grown = loads_of([6, 5, 2, 1], [60, 30, 20, 30])  # then 90 and 50, at a mean of 70; anew it is 80 and 60

    def switches(threshold):
        return balance(grown, brokers=2, method="threshold", threshold=threshold).score.switches.sum()

    assert switches(19) > 0
    assert switches("21") == 0
    assert switches("28 %") > 0  # 19.6
    assert switches("29 %") == 0  # 20.3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "magic"}, 'method: "magic" is not known; write one of bounded-moves, long-term'),
        ({"brokers": 0}, "brokers: 0 is too few"),
        ({"method": "greedy", "threshold": 5}, r"threshold: greedy does not use it \(it takes nothing\)"),
        ({"method": "long-term", "max_moves": 5}, r"max_moves: long-term does not use it \(it takes reconfig"),
        ({"method": "long-term", "reconfigurations": 2}, "reconfigurations: 2 is not from 0 to 1"),
        ({"threshold": "much"}, 'threshold: "much" is not a load; write e.g. 500, or "5 %"'),
        ({"threshold": -1}, 'threshold: "-1" is not a load'),
        ({"threshold": "x %"}, 'threshold: "x %" is not a load'),
        ({"max_moves": -1}, "max_moves: -1 is too few"),
        ({"method": "exact", "objective": "beauty"}, 'objective: "beauty" is not known; write one of difference'),
        ({"current": {"a": "broker-3"}}, 'topic "a" is on "broker-3", but the brokers are broker-1 to broker-2'),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(options, words):
    with pytest.raises(FirelaneError, match=words):
        balance(GROWN, **{"brokers": 2, **options})


def test_the_exact_method_says_whether_it_is_proved():
    assert balance(GROWN, brokers=2, method="exact").why()[-1] == "proved to be the best"
    random = np.random.default_rng(1)
    hard = loads_of(random.lognormal(0, 1, 60))
    unproved = balance(hard, brokers=7, method="exact", time_limit_s=0.2)
    assert unproved.to_data()["proved"] is False
    assert "time limit" in unproved.why()[-1]
