"""Which router a topic is given: four strategies by name, each a step at a time.

Implements: pubsubcoord, section 2.4.1: the leader's Strategy, and its own, the fewest topics.
Differs:    topics are also moved when a router joins or carries too much, a few at a time; by measured load, by
            `balance`'s long-term and bounded moves. Routers may differ in capacity.
Symbols:    none of the paper's.
Checked by: tests/overlay/test_assignment.py, tests/overlay/test_led_city.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.balance.bounded_moves import LEAST_GAIN, one_step
from firelane.balance.greedy import NOWHERE, by_load, place_new_beside
from firelane.balance.naive_move import move_some
from firelane.balance.window import ROUNDING
from firelane.errors import FirelaneError
from firelane.overlay.leader.cluster import EMPTIEST, Cluster, Decision, decision
from firelane.overlay.leader.long_term import LongTerm

FEWEST = "each to the router with the fewest topics"


class Strategy(Protocol):
    """Says where topics go; what it must remember between steps it keeps for itself."""

    @property
    def window_steps(self) -> int:
        """How many past steps it wants to see."""

    def place(self, cluster: Cluster) -> Decision:
        """Between steps: routers for the topics that have none; nothing else moves."""

    def step(self, cluster: Cluster, max_moves: int) -> Decision:
        """The same, and at most so many moves of other topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What strategies may be told; shares are of what a router carries on average."""

    threshold: float = 0.05  # a load difference up to this is left alone
    period_steps: int = 30  # long-term: how often everything is placed anew
    least_gain: float | None = 0.05  # long-term: what that must gain at least; None: whatever it gains

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < float("inf"):
            raise FirelaneError(f"threshold: {self.threshold:g} is not a share; write e.g. 0.05")
        if self.period_steps < 1:
            raise FirelaneError(f"period_steps: {self.period_steps} is too few; write e.g. 30")
        if self.least_gain is not None and not 0 <= self.least_gain < float("inf"):
            raise FirelaneError(f"least_gain: {self.least_gain:g} is not a share; write e.g. 0.05")


class FewestTopics:
    """The paper's: what counts is the number of topics, whatever they weigh."""

    window_steps = 0

    def __init__(self, tuning: Tuning) -> None:
        self._threshold = tuning.threshold

    def place(self, cluster: Cluster) -> Decision:
        """New topics, each to the router with the fewest."""
        return self.step(cluster, 0)

    def step(self, cluster: Cluster, max_moves: int) -> Decision:
        """The same, and from the router with the most to the one with the fewest when they are too far apart."""
        load = cluster.there.astype(np.float64)
        band = max(1.0, _band(cluster, load, self._threshold))  # one topic more or less is as even as can be
        return _decision(cluster, _levelled(cluster, load, band, max_moves), load, band, FEWEST)


class LeastLoad:
    """By measured load, as a simple script does it: the best single topic from the fullest router to the emptiest."""

    window_steps = 0

    def __init__(self, tuning: Tuning) -> None:
        self._threshold = tuning.threshold

    def place(self, cluster: Cluster) -> Decision:
        """New topics, each to the emptiest router."""
        return self.step(cluster, 0)

    def step(self, cluster: Cluster, max_moves: int) -> Decision:
        """The same, and moves while the load difference is above the threshold."""
        band = _band(cluster, cluster.now, self._threshold)
        place = _levelled(cluster, cluster.now, band, 0 if cluster.idle else max_moves)
        return _decision(cluster, place, cluster.now, band)


class BoundedMoves:
    """Ours, as in `balance`: moves and exchanges that bring the most for each topic switched."""

    window_steps = 0

    def __init__(self, tuning: Tuning) -> None:
        self._threshold = tuning.threshold
        self._acting = False

    def place(self, cluster: Cluster) -> Decision:
        """New topics, each to the emptiest router."""
        band = _band(cluster, cluster.now, self._threshold)
        return _decision(cluster, _levelled(cluster, cluster.now, band, 0), cluster.now, band)

    def step(self, cluster: Cluster, max_moves: int) -> Decision:
        """The same, and exchanges until the routers are well within the threshold."""
        load, place = cluster.now, cluster.place.copy()
        band = _band(cluster, load, self._threshold)
        allowed = 0 if cluster.idle else max_moves
        standing = cluster.standing(load)
        self._acting = one_step(load, by_load(load), place, standing, band, allowed, self._acting)
        if not self._evener(cluster, place):
            place = _levelled(cluster, load, band, 0)
        return _decision(cluster, place, load, band)

    def _evener(self, cluster: Cluster, place: Ints) -> bool:
        """Do the moves, if any, lessen the sum of squares? As it cannot fall for ever, constant loads come to rest."""
        had = cluster.place != NOWHERE
        if np.array_equal(place[had & cluster.there], cluster.place[had & cluster.there]):
            return True
        before = _squares(cluster, _levelled(cluster, cluster.now, 0.0, 0))
        return _squares(cluster, place) < before * (1 - ROUNDING)


STRATEGIES: Mapping[str, Callable[[Tuning], Strategy]] = {
    "bounded-moves": BoundedMoves,
    "fewest-topics": FewestTopics,
    "least-load": LeastLoad,
    "long-term": lambda tuning: LongTerm(period_steps=tuning.period_steps, least_gain=tuning.least_gain),
}


def strategy(name: str, tuning: Tuning) -> Strategy:
    """The strategy of this name, without a memory yet."""
    if name not in STRATEGIES:
        raise FirelaneError(f'strategy: "{name}" is not known; write one of {", ".join(STRATEGIES)}')
    return STRATEGIES[name](tuning)


def warm(name: str) -> None:
    """Have the strategy's machine code made, or read from disk, before a step must be quick."""
    ones, nowhere = np.ones(3), np.full(3, NOWHERE)
    cluster = Cluster(
        topics=("a", "b", "c"),
        routers=("x", "y"),
        capacity=np.ones(2),
        there=ones > 0,
        place=nowhere,
        orphaned={},
        past=np.ones((1, 3)),
        now=ones,
        idle=False,
    )
    strategy(name, Tuning()).step(cluster, 1)


def _band(cluster: Cluster, load: Floats, share: float) -> float:
    """The share of what a router carries on average."""
    return float(share * load.sum() / len(cluster.routers))


def _levelled(cluster: Cluster, load: Floats, band: float, max_moves: int) -> Ints:
    """New topics placed largest first, then single moves from the fullest to the emptiest.

    Each of them brings the two closer by a tenth of the band at least.
    """
    place, carried = cluster.place.copy(), np.empty(len(cluster.routers))
    place_new_beside(cluster.standing(load), load, by_load(load), place, carried)
    move_some(load, place, carried, band, max_moves, max(LEAST_GAIN * band, ROUNDING * load.sum()))
    return place


def _squares(cluster: Cluster, place: Ints) -> float:
    """The sum of squares of what routers carry: the less, the more alike they are."""
    total = cluster.carried(place, cluster.now) + cluster.standing(cluster.now)
    return float((total**2).sum())


def _decision(cluster: Cluster, place: Ints, load: Floats, band: float, rule: str = EMPTIEST) -> Decision:
    """The decision, with how far apart routers are without the moves and with them."""
    without = np.where(cluster.place == NOWHERE, place, cluster.place)
    before, after = cluster.difference(without, load), cluster.difference(place, load)
    reason = f"the fullest and the emptiest router were {before:,.6g} apart, more than {band:,.6g}; now {after:,.6g}"
    return decision(cluster, place, rule=rule, reason=reason)
