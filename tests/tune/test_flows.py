from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.scenario import from_data
from firelane.scenario.routes import Routes, routes
from firelane.tune.flows import demand, group, places, split

TOPICS = {"a/x": {"size": "100 B"}, "a/y": {"size": "50 B"}, "b": {"size": "200 B"}}
RATES = {"a/x": "10 Hz", "a/y": "4 Hz", "b": "1 Hz"}


def _routes(subscribes: dict, *, link: dict | None = None, **more: object) -> Routes:
    """8 kbit/s without overhead: a byte takes 1 ms, so the loads are a/x 1.0, a/y 0.2, b 0.2."""
    return routes(
        from_data(
            {
                "name": "small",
                "links": {"thin": {"bandwidth": "8 kbps", "overhead": 0, "pace": 1, **(link or {})}},
                "topics": TOPICS,
                "publishers": {"p": {"publishes": RATES}},
                "subscribers": {"s": {"link": "thin", "subscribes": subscribes}},
                **more,
            }
        )
    )


@given(st.integers(0, 60), st.integers(1, 20))
def test_lists_are_split_as_numpy_splits_them_the_larger_first(count, parts):
    expected = [number for number, part in enumerate(np.array_split(np.arange(count), parts)) for _ in part]
    assert split(np.arange(count), np.full(count, count), parts).tolist() == expected


def test_places_count_from_the_highest_key_inside_each_group_and_keep_ties_in_order():
    inside = np.array([1, 0, 1, 0, 1])
    key = np.array([5.0, 1.0, 7.0, np.inf, 5.0])
    assert places(inside, key).tolist() == [1, 1, 0, 0, 2]


def test_a_second_key_breaks_ties():
    assert places(np.zeros(3, np.int64), np.full(3, np.inf), np.array([1.0, 3.0, 2.0])).tolist() == [2, 0, 1]


def test_without_flows_every_subscription_is_its_own_flow():
    r = _routes({"a/x": {}, "a/y": {}, "b": {}})
    flows = group(r, demand(r), np.array([2, 0, 1]))
    assert flows.subscription_flow.tolist() == [0, 1, 2]
    assert flows.place.tolist() == [2, 0, 1]
    assert flows.load == pytest.approx([1.0, 0.2, 0.2])


def test_flows_group_the_sorted_list_the_larger_sub_lists_first():
    r = _routes({"a/x": {}, "a/y": {}, "b": {}}, flows=2)
    flows = group(r, demand(r), np.array([2, 0, 1]))  # sorted: a/y, b | a/x
    assert flows.subscription_flow.tolist() == [1, 0, 0]
    assert flows.place.tolist() == [0, 1]
    assert flows.load == pytest.approx([0.4, 1.0])


def test_more_flows_than_subscriptions_make_no_empty_flows():
    r = _routes({"a/x": {}, "b": {}}, flows=9)
    assert len(group(r, demand(r), np.array([0, 1])).load) == 2


def test_flows_are_numbered_subscriber_by_subscriber():
    r = routes(
        from_data(
            {
                "name": "two",
                "flows": 2,
                "topics": TOPICS,
                "publishers": {"p": {"publishes": RATES}},
                "subscribers": {n: {"subscribes": {"a/x": {}, "a/y": {}, "b": {}}} for n in ("s", "t")},
            }
        )
    )
    flows = group(r, demand(r), np.array([0, 1, 2, 2, 1, 0]))
    assert flows.subscription_flow.tolist() == [0, 0, 1, 3, 2, 2]
    assert flows.subscriber.tolist() == [0, 0, 1, 1]
    assert flows.lane.tolist() == [0, 0, 1, 1]


def test_overhead_and_pace_count_in_the_load():
    r = _routes({"b": {}}, link={"overhead": 100, "pace": 0.5})
    assert demand(r).load == pytest.approx([1 * 300 * 8 / 4000])


def test_a_stream_that_two_filters_claim_counts_on_the_one_that_ranks_best():
    r = _routes({"a/+": {}, "a/x": {}})
    wanted = demand(r)
    assert wanted.load == pytest.approx([1.2, 1.0])
    assert group(r, wanted, np.array([0, 1])).load == pytest.approx([1.2, 0.0])
    assert group(r, wanted, np.array([1, 0])).load == pytest.approx([0.2, 1.0])


def test_a_flow_must_keep_the_highest_least_share_of_its_members():
    needs = {"a/x": {"min_share": 0.2}, "a/y": {"max_loss": 0.4}, "b": {"tolerance": 2}}
    r = held(_routes(needs, flows=2))
    assert group(r, demand(r), np.array([0, 1, 2])).least_share == pytest.approx([0.6, 1.0])


def held(r):
    """The same where no tolerance can be widened."""
    return replace(r, widest=np.ones(len(r.filters)))


def test_a_tolerance_that_may_be_widened_tenfold_leaves_a_third_whatever_a_link_loses():
    """(10 - 1) ** -1/2 by Eq. 5; a share that is asked for besides counts too, and makes up for what is lost."""
    needs = {"a/x": {"tolerance": 1}, "a/y": {"tolerance": 1, "min_share": 0.4}, "b": {"tolerance": 2, "max_loss": 0.1}}
    r = _routes(needs, link={"loss": 0.2})
    assert r.widest.tolist() == [10, 10, 10]
    assert demand(r).least_share == pytest.approx([1 / 3, 0.5, 1.0])
    assert demand(replace(r, widest=np.array([2.0, 5.0, 1.0]))).least_share == pytest.approx([1.0, 0.5, 1.0])


def test_least_shares_make_up_for_what_the_link_loses():
    needs = {"a/x": {"min_share": 0.4}, "a/y": {"min_share": 0.9}, "b": {"tolerance": 2}}
    r = held(_routes(needs, link={"loss": 0.2}))
    wanted = demand(r)
    assert wanted.least_share == pytest.approx([0.5, 1.0, 1.0])
    assert wanted.out_of_reach.tolist() == [False, True, False]


def test_a_link_that_loses_everything_asks_for_all_that_is_bounded():
    r = _routes({"a/x": {"min_share": 0.4}, "a/y": {}}, link={"loss": 1})
    assert demand(r).least_share.tolist() == [1.0, 0.0]
