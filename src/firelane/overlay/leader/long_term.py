"""`long-term`, live: once in a period every topic is placed anew by what it amounted to over the period before.

Implements: broker-cluster, section VI, Algorithm 1, in its causal form, a step at a time.
Differs:    what is to be moved is moved within the budget of each step, and not at all if it gains too little. A period
            also begins when a router joins; topics of one that dies go to the others at once.
Symbols:    as in firelane.balance.long_term.
Checked by: tests/overlay/test_long_term_live.py, tests/overlay/test_led_city.py
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Ints
from firelane.balance.greedy import NOWHERE, by_load, place_new_beside
from firelane.balance.long_term import average, by_totals, place_unknown
from firelane.overlay.leader.cluster import EMPTIEST, Cluster, Decision, decision

AVERAGE = "each as an average topic, to the router that had the least load"


class LongTerm:
    """Remembers where every topic of this period belongs, and how old the period is."""

    def __init__(self, *, period_steps: int, least_gain: float | None) -> None:
        self.window_steps = period_steps
        self._least_gain = least_gain
        self._target: dict[str, str] = {}
        self._routers: frozenset[str] = frozenset()
        self._age_steps = 0

    def place(self, cluster: Cluster) -> Decision:
        """Topics without a router go where they belong in this period; new ones to where there was the least load."""
        target = self._completed(cluster, self._remembered(cluster))
        return self._decision(cluster, np.where(cluster.place == NOWHERE, target, cluster.place))

    def step(self, cluster: Cluster, max_moves: int) -> Decision:
        """The same, and moves towards the placement of this period."""
        target = self._remembered(cluster)
        joined = bool(self._routers) and not self._routers.issuperset(cluster.routers)
        if self._age_steps >= self.window_steps or joined:
            target = self._anew(cluster, target)
            self._age_steps = 0
        self._age_steps += 1
        self._routers = frozenset(cluster.routers)
        target = self._completed(cluster, target)
        return self._decision(cluster, _towards(cluster, target, max_moves))

    def _remembered(self, cluster: Cluster) -> Ints:
        """Where topics belong, or are where nothing was decided; NOWHERE if that router is gone."""
        number = {name: j for j, name in enumerate(cluster.routers)}
        target = np.array([number.get(self._target.get(name, ""), NOWHERE) for name in cluster.topics], np.int64)
        return np.where(target == NOWHERE, cluster.place, target)

    def _anew(self, cluster: Cluster, target: Ints) -> Ints:
        """Every topic by its total over the period, if that gains enough."""
        known = cluster.past[-self._age_steps :] if len(cluster.past) else cluster.now[None]
        total = known.sum(axis=0)
        anew = by_totals(total, cluster.standing(total))
        anew = np.where(anew == NOWHERE, cluster.place, anew)
        gain = cluster.difference(cluster.place, total) - cluster.difference(anew, total)
        least = self._least_gain
        if least is not None and gain < max(least * total.sum() / len(cluster.routers), np.finfo(float).tiny):
            return target
        return anew

    def _completed(self, cluster: Cluster, target: Ints) -> Ints:
        """Topics that are there and belong nowhere find a place: those whose load is known by it, others as average."""
        new = cluster.there & (cluster.place == NOWHERE)
        new[list(cluster.orphaned)] = False
        unknown = new if len(cluster.past) else np.zeros_like(new)
        placed, load = target.copy(), np.where(unknown & (target == NOWHERE), 0.0, cluster.now)
        standing = cluster.standing(cluster.now)
        place_new_beside(standing, load, by_load(load), placed, np.empty_like(standing))
        target = np.where(target == NOWHERE, placed, target)
        if len(cluster.past):
            since = cluster.there & (cluster.place != NOWHERE) & (cluster.past[-1] == 0)
            before = np.where(target == NOWHERE, 0.0, np.where(since, cluster.now, cluster.past[-1]))
            whole = np.where(cluster.there & (target == NOWHERE), average(before), before)
            place_unknown(cluster.now, before, target, cluster.standing(whole))
        pairs = zip(cluster.topics, target.tolist(), strict=True)
        self._target = {topic: cluster.routers[j] for topic, j in pairs if j != NOWHERE}
        return target

    def _decision(self, cluster: Cluster, place: Ints) -> Decision:
        left = sum(self._target.get(cluster.topics[i]) != cluster.routers[place[i]] for i in _placed(cluster, place))
        reason = f"placed anew by their loads over the {self.window_steps} steps of a period"
        if left:
            reason += f"; {left} more will follow"
        return decision(cluster, place, rule=AVERAGE if len(cluster.past) else EMPTIEST, reason=reason)


def _towards(cluster: Cluster, target: Ints, max_moves: int) -> Ints:
    """The placement after so many moves, the largest topics first; what has no router goes where it belongs."""
    place = np.where(cluster.there & (cluster.place == NOWHERE), target, cluster.place)
    wrong = np.flatnonzero(cluster.there & (place != target))
    chosen = wrong[by_load(cluster.now[wrong])][:max_moves]
    place[chosen] = target[chosen]
    return place


def _placed(cluster: Cluster, place: Ints) -> list[int]:
    return np.flatnonzero(cluster.there & (place != NOWHERE)).tolist()
