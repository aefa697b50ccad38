"""PubSubCoord's evaluation: its parts by hand, and a very small run with everything."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.errors import FirelaneError
from firelane.reproduce.pubsubcoord import city, coordination, evaluation
from firelane.reproduce.pubsubcoord.balancing import BOUNDED, CityEffort, difference_hz
from firelane.reproduce.pubsubcoord.coordination import CrowdEffort, Joining, subscribers
from firelane.reproduce.pubsubcoord.deadlines import BAD, GOOD, MULTI, SINGLE, PathEffort, table_1
from firelane.reproduce.pubsubcoord.locality import LocalityEffort, expected_s
from firelane.reproduce.pubsubcoord.report import on_a_line, report, rising, shorter
from firelane.reproduce.pubsubcoord.scalability import ScaleEffort
from firelane.reproduce.zookeeper import installed, zookeeper


def test_just_cases_1_to_5_of_table_1_have_a_path_without_a_bad_link():
    cases = table_1(range(1, 9), MULTI)
    good = [one.direct == GOOD or one.first == one.second == GOOD for one in cases]
    assert good == [True] * 5 + [False] * 3
    assert [round(1000 * one.expected_s) for one in cases] == [30, 30, 30, 30, 60, 250, 250, 250]
    through = [round(1000 * one.expected_s) for one in table_1(range(1, 9), SINGLE)]
    assert through == [60, 280, 280, 500] * 2
    assert BAD.loss == 0.01


@pytest.mark.parametrize(("locality", "milliseconds"), [(0.0, 100), (0.5, 60), (0.9, 28), (1.0, 20)])
def test_links_alone_take_two_lan_links_and_two_of_the_wan(locality, milliseconds):
    assert expected_s(10, locality) == pytest.approx(milliseconds / 1000)


@given(edges=st.integers(1, 10), topics=st.integers(1, 50), share=st.floats(0, 1))
def test_subscribers_are_pairs_of_an_edge_and_a_topic_of_their_own(edges, topics, share):
    places = [Joining(edge=f"e{number}", port=number, topic="t") for number in range(edges)]
    count = int(share * edges * topics)
    found = subscribers(places, count, topics)
    assert len({(one.edge, one.topic) for one in found}) == len(found) == count
    at = Counter(one.edge for one in found)
    assert not at or max(at.values()) - min(at.get(place.edge, 0) for place in places) <= 1


def test_the_rates_of_a_city_are_as_large_as_asked_and_never_nothing():
    loads = city.rates(topics=30, steps=6, minutes=20, rate_hz=120.0, tail="light", seed=2)
    assert loads.load.shape == (6, 30)
    assert loads.load[0].sum() == pytest.approx(120.0)
    assert loads.load.min() > 0
    assert list(loads.topics) == sorted(loads.topics)


def test_the_verdict_sees_what_was_lost_doubled_or_disordered():
    subscriber = city.Subscriber()
    for number in (1, 2, 4, 4, 6, 5):
        subscriber.got("zone/0", str(number).encode())
    assert subscriber.verdict(Counter({"zone/0": 6}), {}) == {"lost": 1, "again": 1, "disordered": 1}
    assert subscriber.verdict(Counter({"zone/0": 6}), {"zone/0": 3}) == {"lost": 0, "again": 1, "disordered": 1}


def test_the_load_difference_is_that_of_the_fullest_and_the_emptiest_router():
    assert difference_hz(np.array([5.0, 1.0, 2.0]), [0, 1, 1], 3) == 5.0
    assert difference_hz(np.array([5.0, 1.0, 2.0]), [0, 1, 1], 2) == 2.0


@pytest.mark.parametrize(
    ("this_ms", "than_ms", "verdict"),
    [(50, 60, "yes"), (61.28, 61.21, "as good"), (60.9, 61.21, "as good"), (70, 60, "no")],
)
def test_a_delay_is_shorter_as_good_or_not(this_ms, than_ms, verdict):
    assert shorter(this_ms, than_ms) == verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([90, 60, 30, 0], "yes"),
        ([90, 45, 30, 22.5], "no: falls, not linearly"),
        ([90, 60, 65, 10], "no"),
        ([90, 60], "-"),
    ],
)
def test_what_is_said_to_fall_on_a_line_may_fall_otherwise(values, verdict):
    assert on_a_line([1, 2, 3, 4][: len(values)], values, falling=True) == verdict


def test_of_one_value_nobody_can_say_whether_it_grows():
    assert [rising([1]), rising([1, 2, 3]), rising([1, 3, 3])] == ["-", "yes", "no"]


def test_the_report_in_the_documentation_is_what_is_written_of_its_results():
    folder = Path(__file__).parents[2] / "docs" / "pubsubcoord"
    assert report(json.loads((folder / "results.json").read_text())) == (folder / "report.md").read_text()


def test_without_zookeeper_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("firelane.reproduce.zookeeper.installed", lambda: None)
    with pytest.raises(FirelaneError, match="apt-get install zookeeper"), zookeeper(tmp_path):
        pass


def test_too_few_open_files_are_told_beforehand(monkeypatch):
    monkeypatch.setattr(coordination.resource, "getrlimit", lambda _: (100, 100))
    with pytest.raises(FirelaneError, match="ulimit -n"):
        coordination._open_files(1000)


SMALL = evaluation.Effort(
    locality=LocalityEffort(networks=2, routers=1, topics=(4,), localities=(0.0, 1.0), warm_s=1.5, run_s=1.5),
    scale=ScaleEffort(networks=1, topics=(4, 8), routers=(2,), warm_s=1.5, run_s=1.5),
    crowd=CrowdEffort(networks=1, routers=1, topics=40, joining=(40,)),
    paths=PathEffort(pairs=1, warm_s=1.5, run_s=1.5, cases=(1,), delays_s=(0.03,)),
    city=CityEffort(
        topics=8, routers=2, steps=1, minutes=60, leader_steps=2, step_s=1.0, rate_hz=30.0, moves=5,
        strategies=(BOUNDED,),
    ),
    beside=True,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.xdist_group("zookeeper")
def test_a_very_small_run_has_everything_and_obeys_what_must_hold(tmp_path):
    if installed() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("ZooKeeper is not installed")
    results = evaluation.reproduce(tmp_path / "out", quick=True, seed=3, effort=SMALL)
    away, local = results["figure_6"]
    assert local["through_routers_hz"] == 0 < away["through_routers_hz"]
    for point in (away, local, *results["figure_8"]):
        assert point["lost"] == point["again"] == 0
        assert point["latency_s"]["median"] >= 0.99 * point["expected_s"]  # timers have whole milliseconds
    assert local["latency_s"]["median"] < away["latency_s"]["median"]
    (crowd,) = results["figure_7c"]
    # A leaf for each edge and topic, and below each topic a container of subscribers.
    assert crowd["znodes"] - crowd["znodes_before"] == crowd["leaves"] + crowd["topics"] == 80
    assert 0 < crowd["known"]["median"] <= crowd["known"]["max"]
    (run,) = results["balancing"]
    assert run["lost"] == run["disordered"] == 0 < run["messages"]
    assert results == json.loads((tmp_path / "out" / "results.json").read_text())
    report = (tmp_path / "out" / "report.md").read_text()
    for name in ("figure-6", "figure-7", "figure-8", "balancing"):
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000
        assert f"{name}.png" in report
    assert "## In short" in report
