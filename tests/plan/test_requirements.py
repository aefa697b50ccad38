"""What needs and categories of a scenario ask of a plan."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.errors import FirelaneError
from firelane.plan.requirements import requirements
from firelane.scenario import from_text
from firelane.scenario.routes import routes

TEXT = """
name: post
priorities: 3
links:
  post: {bandwidth: 1 Mbps, loss: 2 %}
topics:
  t/1: {size: 500 B}
  t/2: {size: 300 B}
publishers:
  device: {publishes: {t/1: 10 Hz, t/2: 30 Hz}}
subscribers:
  ann:
    link: post
    subscribes:
      t/1: {category: urgent, weight: 3, max_delay: 20 ms}
      t/2: {category: urgent, weight: 3, max_delay: 20 ms}
  ben:
    link: post
    subscribes: {t/1: {weight: 2, min_share: 90 %}, t/2: {category: urgent, weight: 6, max_delay: 5 ms}}
categories:
  urgent: {max_delay: 30 ms, max_delay_p95: 80 ms, max_loss: 0 %}
  nobody: {max_loss: 1 %}
"""


@pytest.fixture
def wanted():
    return requirements(routes(from_text(TEXT)))


def test_subscriptions_that_ask_for_the_same_share_a_requirement(wanted):
    names = [wanted.name(one) for one in wanted.bounds]
    assert names == [
        "urgent max_delay 30 ms",
        "urgent max_delay_p95 80 ms",
        "urgent max_loss 0 %",
        "urgent max_delay 5 ms of 1 subscription",
        "urgent max_delay 20 ms of each of 2 subscriptions",
        "none max_loss 10 % of 1 subscription",
    ]


def test_a_category_weighs_what_is_stated_or_else_the_mean_of_its_subscriptions(wanted):
    assert wanted.categories == ("urgent", "none")
    assert wanted.weight.tolist() == [4, 2]
    assert [one.weight for one in wanted.bounds] == [4, 4, 4, 6, 3, 2]


def test_what_links_lose_leaves_less_to_drop(wanted):
    assert wanted.intolerant.tolist() == [True, False]
    assert wanted.most_drop[1] == pytest.approx(1 - 0.9 / 0.98)


def test_a_category_with_a_tolerance_is_never_dropped():
    text = TEXT.replace("weight: 2, min_share: 90 %", "tolerance: 0.5").replace(", max_loss: 0 %", "")
    wanted = requirements(routes(from_text(text)))
    assert wanted.most_drop[1] == 0
    assert np.isnan(wanted.most_drop[0])


def test_requirements_of_a_category_without_subscriptions_are_named(wanted):
    (note,) = wanted.notes
    assert "nobody subscribes as nobody" in note


def test_some_of_the_bounds_alone_leave_more_to_drop(wanted):
    assert wanted.only([0]).most_drop[0] != 0
    assert len(wanted.only([0, 2]).bounds) == 2


def test_more_categories_than_classes_are_refused():
    with pytest.raises(FirelaneError, match="2 categories need as many classes; raise priorities, now 1"):
        requirements(routes(from_text(TEXT.replace("priorities: 3", "priorities: 1"))))


def test_without_subscriptions_there_is_nothing_to_plan():
    text = "name: idle\ntopics: {t: {size: 1 B}}\npublishers: {p: {publishes: {t: 1 Hz}}}"
    with pytest.raises(FirelaneError, match="nobody subscribes"):
        requirements(routes(from_text(text)))
