"""Processes and a real ZooKeeper: the only router is stopped, and what has a deadline arrives all the same."""

from __future__ import annotations

import time

import pytest

from live.overlay.cluster import cluster, until
from live.overlay.history import History, Publisher, Subscriber

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

HURRIED = {"alarm/0": 0, "alarm/1": 1, "alarm/2": 2}
PATIENT = {"log/1": 1, "log/2": 2}
STOPPED_S = 1.0


def test_while_the_only_router_is_stopped_what_has_a_deadline_arrives_and_the_rest_when_it_goes_on(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("FIRELANE_EXCHANGE__OVERLAY__DIRECT__FROM", '["*"]')
    monkeypatch.setenv("FIRELANE_EXCHANGE__PROFILES", "{soon: {need: {max_delay: 5 s}}}")
    history = History()
    with cluster(tmp_path, routers=("r1",)) as whole:
        ben = Subscriber(history, "ben", whole["b"].port, "$need/soon/alarm/#")
        bob = Subscriber(history, "bob", whole["b"].port, "log/#")
        until(lambda: whole["a"].state()["own"]["direct"]["paths"]["b"]["connected"])
        until(lambda: whole["a"].state()["registry"]["edges"]["b"]["filters"] == 2)
        publisher = Publisher(history, whole["a"].port, HURRIED | PATIENT)
        until(lambda: all(history.arrived[who, one] for who, one in [("ben", "alarm/2"), ("bob", "log/2")]))
        whole["r1"].pause()
        time.sleep(0.3)  # for what it had already sent on
        before = {topic: len(history.arrived["bob", topic]) for topic in PATIENT}
        hurried = {topic: len(history.arrived["ben", topic]) for topic in HURRIED}
        until(lambda: all(len(history.arrived["ben", topic]) > n + 30 for topic, n in hurried.items()))
        assert {topic: len(history.arrived["bob", topic]) for topic in PATIENT} == before
        time.sleep(STOPPED_S)
        whole["r1"].resume()
        publisher.stop()
        until(lambda: not lost(history))
        until(lambda: whole["a"].state()["own"]["kept"] == 0)
        first = whole["b"].state()["own"]["direct"]["first"]
        ben.stop()
        bob.stop()
    assert lost(history) == []
    assert first["direct"] > 90


def lost(history):
    """What was broken of QoS 1 and 2; of QoS 0 only the order can be."""
    numbers = history.arrived["ben", "alarm/0"]
    found = [] if numbers == sorted(set(numbers)) else ["alarm/0 is out of order, or came twice"]
    for who, topics in (("ben", ("alarm/1", "alarm/2")), ("bob", PATIENT)):
        part = History()
        part.qos, part.arrived = history.qos, history.arrived
        part.acknowledged.update({topic: history.acknowledged[topic] for topic in topics})
        found += part.problems([who])
    return found
