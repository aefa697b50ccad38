"""Processes and a real ZooKeeper: routers stop, edges die, and what has a deadline arrives all the same."""

from __future__ import annotations

import time
from random import Random

import pytest

from live.overlay import faults
from live.overlay.cluster import cluster, until
from live.overlay.history import History, Publisher, Subscriber

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

HURRIED = {"alarm/0": 0, "alarm/1": 1, "alarm/2": 2}
PATIENT = {"log/1": 1, "log/2": 2}


def test_while_the_only_router_is_stopped_what_has_a_deadline_arrives_and_the_rest_when_it_goes_on(
    tmp_path, monkeypatch
):
    let_edges_send_directly(monkeypatch)
    history = History()
    with cluster(tmp_path, routers=("r1",)) as whole:
        ben = hurried(history, "ben", whole["b"], "alarm/#")
        bob = Subscriber(history, "bob", whole["b"], "log/#")
        until(lambda: whole["a"].state()["own"]["direct"]["paths"]["b"]["connected"])
        until(lambda: whole.wanted("alarm/#", "b") and whole.wanted("log/#", "b"))
        publisher = Publisher(history, whole["a"], HURRIED | PATIENT)
        until(lambda: all(history.arrived[chain] for chain in history.chains()))
        whole["r1"].pause()
        time.sleep(0.3)  # for what it had already sent on
        before = {chain: len(history.arrived[chain]) for chain in history.chains()}
        soon = [chain for chain in before if chain[0] == "ben"]
        until(lambda: all(len(history.arrived[chain]) > before[chain] + 30 for chain in soon))
        assert all(len(history.arrived[chain]) == n for chain, n in before.items() if chain[0] == "bob")
        whole["r1"].resume()
        publisher.stop()
        until(lambda: not history.problems())
        until(lambda: whole["a"].state()["own"]["kept"] == 0)
        first = whole["b"].state()["own"]["direct"]["first"]
        time.sleep(0.5)  # for what might come twice
        ben.leave()
        bob.leave()
    assert history.problems() == []
    assert first["direct"] > 90


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in faults.FAULTS if name != "cut off a site"])
def test_with_deadlines_nothing_is_lost_or_doubled_either_whatever_fails(tmp_path, monkeypatch, name):
    let_edges_send_directly(monkeypatch)
    monkeypatch.setattr(faults, "Subscriber", hurried)
    monkeypatch.setattr(faults, "FILTERS", {"ann": ("a", "b/#"), "ben": ("b", "a/#")})
    chance = Random(name)
    with cluster(tmp_path) as whole:
        load = faults.Load(whole)
        try:
            for _ in range(2):
                load.strike(name, chance, 1.0)
            first = whole["b"].state()["own"]["direct"]["first"]
        finally:
            load.stop()
    assert load.problems() == []
    assert first["direct"] > 0


def let_edges_send_directly(monkeypatch):
    """And give clients a profile whose deadline no gap outlasts."""
    monkeypatch.setenv("FIRELANE_EXCHANGE__OVERLAY__DIRECT__FROM", '["*"]')
    monkeypatch.setenv("FIRELANE_EXCHANGE__PROFILES", "{soon: {need: {max_delay: 10 s}}}")


def hurried(history, name, edge, topic_filter):
    """A subscriber with a deadline."""
    one = Subscriber(history, name, edge, f"$need/soon/{topic_filter}")
    history.wants[name] = topic_filter
    return one
