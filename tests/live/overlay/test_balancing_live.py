"""A city's topics through a cluster of routers: the leader moves what `firelane balance` says, and nothing is lost."""

from __future__ import annotations

import asyncio
import os

import numpy as np
import pytest

from firelane.reproduce.pubsubcoord.balancing import BOUNDED, CityEffort, balancing
from firelane.reproduce.zookeeper import installed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

# An hour of the city a step: loads change so much that something must be moved.
EFFORT = CityEffort(
    topics=16, routers=2, steps=2, minutes=90, leader_steps=8, step_s=1.0, rate_hz=80.0, moves=6, strategies=(BOUNDED,)
)


def test_a_city_is_balanced_live_as_predicted_and_nothing_is_lost():
    if installed() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("ZooKeeper is not installed")
    (run,) = asyncio.run(asyncio.wait_for(balancing(EFFORT, seed=1, progress=lambda _: None), 120))
    assert run["lost"] == run["again"] == run["disordered"] == 0
    assert run["messages"] > 500
    assert run["moves"] > 0
    assert all(0 < size <= EFFORT.moves for size in run["batches"])
    # News may reach the leader and the onlooker in two different orders, once.
    assert run["as_balance_says"] >= len(run["batches"]) - 1
    # Routers count what topics published there amount to; a step lasts four seconds, a message more or less a topic.
    for counted, reckoned in zip(run["counted_difference_hz"], run["difference_hz"], strict=True):
        assert counted == pytest.approx(reckoned, abs=0.25 * run["mean_router_hz"])
    assert np.mean(run["difference_hz"]) < np.mean(run["hashed_difference_hz"])
