"""A city's topics through a cluster of routers: the leader moves what `firelane balance` says, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import numpy as np
import pytest

from firelane.reproduce.pubsubcoord.balancing import BOUNDED, LONG_TERM, CityEffort, balancing
from firelane.reproduce.zookeeper import installed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

# An hour and a half of the city at once: loads change so much that something must be moved.
EFFORT = CityEffort(
    topics=24,
    routers=3,
    steps=1,
    minutes=90,
    leader_steps=14,
    step_s=1.0,
    rate_hz=100.0,
    moves=10,
    strategies=(BOUNDED,),
)


def played(effort):
    if installed() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("ZooKeeper is not installed")
    (run,) = asyncio.run(asyncio.wait_for(balancing(effort, seed=2, progress=lambda _: None), 120))
    assert run["lost"] == run["again"] == run["disordered"] == 0
    return run


def test_a_city_is_balanced_live_as_predicted_and_nothing_is_lost():
    run = played(EFFORT)
    assert run["messages"] > 500
    assert run["moves"] > 0
    assert all(0 < size <= EFFORT.moves for size in run["batches"])
    # News may reach the leader and the onlooker in two different orders, once.
    assert run["as_balance_says"] >= len(run["batches"]) - 1
    assert run["counted_hz"] == pytest.approx(run["published_hz"], rel=0.2)
    assert np.mean(run["difference_hz"]) < np.mean(run["hashed_difference_hz"])
    # A tenth of a router's load: at one step there is no mean in which moments of looking would cancel out.
    low_hz, high_hz = np.ravel(run["predicted_range_hz"])
    assert low_hz - 0.1 * run["mean_router_hz"] <= run["difference_hz"][0] <= high_hz + 0.1 * run["mean_router_hz"]


def test_long_term_spreads_topics_before_it_knows_their_loads_and_then_places_them_as_balance_does():
    run = played(replace(EFFORT, leader_steps=22, step_s=0.5, strategies=(LONG_TERM,)))  # a period of 15 s
    # Eight topics each; if all were on one router, it would be 3 times what a router carries on average.
    assert run["still_difference_hz"][0] < run["mean_router_hz"]
    (moved,) = run["batches"]
    assert 0 < moved <= EFFORT.topics
