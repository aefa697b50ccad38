"""The city of the broker-cluster paper led step by step: load difference and moves are what `firelane balance` says."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.balance import Loads, balance
from firelane.balance.cases import day
from firelane.overlay.leader.assignment import Tuning
from firelane.overlay.leader.events import (
    Assign,
    Elected,
    LoadsReported,
    Router,
    RoutersChanged,
    Tick,
    Topic,
    TopicsChanged,
)
from firelane.overlay.leader.leading import Leader, Leading
from firelane.overlay.owner import Assignment

STEP_S = 60.0
CROSSING = {"publishers": frozenset({"west"}), "subscribers": frozenset({"east"})}


def city(topics, steps, tail="heavy", seed=3):
    """A part of the day from 6 o'clock on; names whose order is that of the columns, which decides between equals."""
    loads = day(topics=topics, tail=tail, seed=seed, steps=360 + steps)
    names = tuple(f"zone/{number:04}" for number in range(topics))
    return Loads(topics=names, times_s=np.arange(steps) * 60, load=loads.load[360:])


class Registry:
    """What a leader's assignments come to: written at once, each batch in an epoch of its own."""

    def __init__(self, leader):
        self.leader, self.epoch, self.home, self.moves, self.batches = leader, 100, {}, 0, 0

    def send(self, event):
        for action in self.leader.handle(event):
            if isinstance(action, Assign):
                self.epoch, self.batches = self.epoch + 1, self.batches + 1
                self.moves += sum(self.home.get(topic, router) != router for topic, router in action.homes.items())
                self.home.update(action.homes)
                written = {t: Topic(**CROSSING, assignment=self.assignment(t)) for t in action.homes}
                self.send(TopicsChanged(now_s=event.now_s, topics=written))

    def assignment(self, topic):
        return Assignment(router=self.home[topic], epoch=self.epoch) if topic in self.home else None


def led(loads, brokers, leading):
    """(load difference of each step, moves) of a leader that is told the loads step by step."""
    registry = Registry(Leader(leading))
    routers = {f"router-{number}": Router(boot="1") for number in range(brokers)}
    registry.send(RoutersChanged(now_s=0.0, routers=routers))
    before, differences = np.zeros(len(loads.topics)), []
    for step, load in enumerate(loads.load):
        now_s = step * STEP_S
        come = {loads.topics[i]: Topic(**CROSSING) for i in np.flatnonzero((load > 0) & (before == 0))}
        gone = {loads.topics[i]: None for i in np.flatnonzero((load == 0) & (before > 0))}
        for topic in gone:
            del registry.home[topic]
        registry.send(TopicsChanged(now_s=now_s, topics={**come, **gone}))
        there = {topic: float(load[i]) for i, topic in enumerate(loads.topics) if load[i] > 0}
        registry.send(LoadsReported(now_s=now_s, loads=there))
        registry.send(Tick(now_s=now_s) if step else Elected(now_s=now_s, epoch=1))
        assert registry.home.keys() == there.keys()
        carried = dict.fromkeys(routers, 0.0)
        for topic, one in there.items():
            carried[registry.home[topic]] += one
        differences.append(max(carried.values()) - min(carried.values()))
        before = load
    return differences, registry.moves


@pytest.mark.parametrize("tail", ["light", "heavy"])
@pytest.mark.parametrize(("threshold", "max_moves"), [(0.05, 10), (0.01, 2)])
def test_bounded_moves_leads_as_balance_predicts(tail, threshold, max_moves):
    loads = city(60, 150, tail)
    predicted = balance(
        loads, brokers=4, method="bounded-moves", threshold=f"{threshold * 100:g} %", max_moves=max_moves
    )
    leading = Leading(tuning=Tuning(threshold=threshold), max_moves=max_moves, step_s=STEP_S)
    difference, moves = led(loads, 4, leading)
    assert difference == predicted.score.difference.tolist()
    assert moves == predicted.score.switches.sum() > 10


@pytest.mark.parametrize("tail", ["light", "heavy"])
def test_long_term_leads_as_balance_predicts_of_its_causal_form(tail):
    loads = city(60, 150, tail)
    predicted = balance(loads, brokers=4, method="long-term-causal", reconfigurations=4)
    tuning = Tuning(period_steps=30, least_gain=None)
    difference, moves = led(loads, 4, Leading(strategy="long-term", tuning=tuning, max_moves=1000, step_s=STEP_S))
    assert difference == predicted.score.difference.tolist()
    assert moves == predicted.score.switches.sum() > 10


def test_bounded_moves_beats_fewest_topics_where_topics_differ():
    loads = city(60, 150)
    mean = {}
    for strategy in ("bounded-moves", "least-load", "fewest-topics"):
        difference, _ = led(loads, 4, Leading(strategy=strategy, step_s=STEP_S))
        mean[strategy] = np.mean(difference)
    assert mean["bounded-moves"] < mean["fewest-topics"]
    assert mean["least-load"] < mean["fewest-topics"]
