"""Processes and a real ZooKeeper: the only router is stopped, and what has a deadline arrives all the same."""

from __future__ import annotations

import time

import pytest

from live.overlay.cluster import cluster, until
from live.overlay.history import History, Publisher, Subscriber

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

HURRIED = {"alarm/0": 0, "alarm/1": 1, "alarm/2": 2}
PATIENT = {"log/1": 1, "log/2": 2}


def test_while_the_only_router_is_stopped_what_has_a_deadline_arrives_and_the_rest_when_it_goes_on(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("FIRELANE_EXCHANGE__OVERLAY__DIRECT__FROM", '["*"]')
    monkeypatch.setenv("FIRELANE_EXCHANGE__PROFILES", "{soon: {need: {max_delay: 5 s}}}")
    history = History()
    with cluster(tmp_path, routers=("r1",)) as whole:
        ben = Subscriber(history, "ben", whole["b"], "$need/soon/alarm/#")
        bob = Subscriber(history, "bob", whole["b"], "log/#")
        history.wants["ben"] = "alarm/#"
        until(lambda: whole["a"].state()["own"]["direct"]["paths"]["b"]["connected"])
        until(lambda: whole.wanted("alarm/#", "b") and whole.wanted("log/#", "b"))
        publisher = Publisher(history, whole["a"], HURRIED | PATIENT)
        until(lambda: all(history.arrived[chain] for chain in history.chains()))
        whole["r1"].pause()
        time.sleep(0.3)  # for what it had already sent on
        before = {chain: len(history.arrived[chain]) for chain in history.chains()}
        hurried = [chain for chain in before if chain[0] == "ben"]
        until(lambda: all(len(history.arrived[chain]) > before[chain] + 30 for chain in hurried))
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
