"""Kills, pauses and cuts on a WAN under load: nothing acknowledged is lost, QoS 2 comes once, traffic is soon back."""

from __future__ import annotations

from contextlib import contextmanager
from random import Random

import pytest

from live.overlay.cluster import cluster
from live.overlay.faults import FAULTS, RATE_HZ, Load
from live.wan import wan

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

DELAY_S, LOSS = 0.015, 0.001  # of each crossing
# Until traffic is back after a failure could be noticed: one second, but this machine may be busy.
SOON_S, OFTEN = 1.0, 0.9
BACK_S = 5.0
AWAY_S = 8.0, 60.0  # all of ZooKeeper, longer than a session: here, and in `make soak`
QUICK_S = {"pause a router": 3.0, "pause the leader": 3.0, "cut off a site": 3.0, "lose ZooKeeper": AWAY_S[0]}
ROUNDS, MANY = 2, 20


@contextmanager
def loaded(folder):
    """Three sites, two routers and three ZooKeeper servers, with clients everywhere."""
    with (
        wan("cloud", "a", "b", "c", delay_s=DELAY_S, loss=LOSS) as network,
        cluster(folder, edges=("a", "b", "c"), servers=3, network=network) as whole,
    ):
        load = Load(whole)
        try:
            yield load
        finally:
            load.stop()


def check(load, soon=0.0):
    """`soon`: the share of faults after which traffic is to be back soon, not only some time."""
    struck = load.struck()
    print(*struck, sep="\n")
    again = load.history.again()
    print(f"{load.acknowledged()} messages acknowledged, {again} of QoS 1 came again, {load.epochs()} newer epochs")
    problems = load.problems()
    assert not problems, "\n".join(problems)
    assert load.acknowledged() > len(struck) * RATE_HZ
    silent_s = [max(one.silent.length_s, one.others.length_s) for one in struck]
    assert max(silent_s) < BACK_S
    assert sum(one < SOON_S for one in silent_s) >= soon * len(struck)


def test_whatever_fails_nothing_is_lost_or_doubled_and_traffic_is_soon_back(tmp_path):
    chance = Random("faults")
    names = chance.sample(list(FAULTS) * ROUNDS, k=len(FAULTS) * ROUNDS)
    with loaded(tmp_path) as load:
        for name in names:
            load.strike(name, chance, QUICK_S.get(name, 1.0))
    check(load)
    assert load.epochs() > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTS)
def test_the_same_twenty_times_each(tmp_path, name):
    """For less than a session of ZooKeeper and for more."""
    chance = Random(name)
    holds_s = [AWAY_S[1]] if name == "lose ZooKeeper" else [0.5, 3.0, 8.0]
    with loaded(tmp_path) as load:
        for _ in range(MANY):
            load.strike(name, chance, chance.choice(holds_s))
    check(load, OFTEN)
