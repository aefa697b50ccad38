"""PlanEMQX's evaluation on short live runs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from firelane.reproduce import planemqx
from firelane.reproduce.live import Seen
from firelane.reproduce.planemqx import experiments
from firelane.reproduce.planemqx.experiments import CATEGORIES, Delivered, categories, scenario
from firelane.reproduce.planemqx.report import gain
from firelane.scenario.routes import routes


def test_the_scenario_is_that_of_the_papers_tables():
    """Table I: 21, 20, 18 and 21 subscriptions; Table II: so many messages in five minutes."""
    network = routes(scenario())
    group = categories(network)
    assert np.bincount(group).tolist() == [21, 20, 18, 21]
    number = {name: place for place, name in enumerate(network.topics)}
    rate_hz = np.array([network.topic_rate_hz[number[one]] for one in network.filters])
    published = 300 * np.bincount(group, rate_hz)
    assert published == pytest.approx([33300, 30000, 28500, 32100])
    assert len(network.topics) == len(scenario().publishers) == 30
    assert len(scenario().subscribers) == 16


def test_drops_hold_when_chance_explains_them_and_not_otherwise():
    network = routes(scenario())
    group, rows = categories(network), len(network.needs)
    members = group == CATEGORIES.index("analytics")
    due, drop_rate = 1000.0, np.where(members, 0.05, 0.0)
    error = math.sqrt(0.05 * 0.95 / (due * members.sum()))

    def seen(share):
        dropped = np.where(members, share * due, 0.0)
        return Seen(routes=network, delivered=due - dropped, dropped=dropped, delay_s=np.ones(rows))

    for off, holds in ((0.0, True), (2.9, True), (3.1, False)):
        found = experiments._dropped(seen(0.05 + off * error), members, drop_rate)
        assert found["holds"] is holds
        assert found["planned"] == pytest.approx(0.05)
        assert found["standard_error"] == pytest.approx(error)
    nobody = experiments._dropped(seen(0.05), group == 0, drop_rate)
    assert (nobody["share"], nobody["holds"]) == (0.0, True)


def test_topics_are_compared_where_several_categories_have_them():
    network = routes(scenario())
    delivered = Delivered(
        topic=np.array([0, 0, 0, 1]), category=np.array([0, 3, 3, 2]), delay_s=np.array([0.1, 0.2, 0.4, 9.0])
    )
    found = experiments._topics(network, delivered)
    assert found == {network.topics[0]: {"real-time": 0.1, "analytics": pytest.approx(0.3)}}


@pytest.mark.slow
def test_a_short_run_has_everything_and_the_plan_helps(tmp_path):
    results = planemqx.reproduce(
        tmp_path, quick=True, seed=3, effort=planemqx.Effort(seconds=5, seconds_each=1, attempts=1)
    )
    assert results["plan"]["order"] == list(CATEGORIES)
    assert gain(results, "real-time") > 0.2
    assert gain(results, "streaming") > 0.2
    planned = results["both"]["planned"]["categories"]
    assert all(one["dropped"]["holds"] for one in planned.values())
    assert sum(one["box_s"] is not None for one in planned.values()) == 4
    assert json.loads((tmp_path / "results.json").read_text())["both"].keys() == {"default", "planned"}
    told = (tmp_path / "report.md").read_text()
    assert "## Table II" in told
    assert {f"figure-{number}.png" for number in range(4, 8)} <= {one.name for one in tmp_path.iterdir()}
    assert not [one for one in tmp_path.iterdir() if one.name.startswith("firelane-records-")]
