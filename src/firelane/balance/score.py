"""How good a placement is, step by step: load difference, excess over what cannot be helped, topics switched.

Implements: broker-cluster, section III, Eq. 2.
Differs:    the excess is ours. The broker of the largest topic p carries at least p, so the emptiest of the N - 1
            others has at most (total - p)/(N - 1): no placement has a difference below p minus that.
Symbols:    L -> difference, S_j -> where placed is j.
Checked by: tests/balance/test_score.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.balance.greedy import NOWHERE
from firelane.compiled import compiled


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Score:
    """One value per step."""

    difference: Floats  # Eq. 2: the fullest broker's load minus the emptiest's
    excess: Floats  # the difference over what the largest topic alone forces
    switches: Ints  # topics there in both this step and the one before, on another broker

    def summary(self) -> dict[str, Any]:
        """The numbers of `--json`."""
        return {
            "load_difference_mean": float(self.difference.mean()),
            "load_difference_max": float(self.difference.max()),
            "excess_mean": float(self.excess.mean()),
            "switches": int(self.switches.sum()),
            "reconfigurations": int(np.count_nonzero(self.switches)),
        }

    def series(self) -> dict[str, list[float]]:
        """The numbers of `--series`, one per step."""
        return {
            "load_difference": self.difference.tolist(),
            "excess": self.excess.tolist(),
            "switches": self.switches.tolist(),
        }


def score(load: Floats, placed: Ints, start: Ints, brokers: int) -> Score:
    """The score of a placement (steps x topics) that follows on a start (topics; NOWHERE is free)."""
    difference, switches = _per_step(load, placed, start, brokers)
    # Of equal loads, sums in another order may differ in the last digit: that is no excess.
    excess = np.maximum(0.0, difference - unavoidable(load, brokers))
    return Score(difference=difference, excess=excess, switches=switches)


def unavoidable(load: Floats, brokers: int) -> Floats:
    """Per step, the difference that the largest topic alone forces on any placement."""
    largest, total = load.max(axis=1), load.sum(axis=1)
    others = (total - largest) / (brokers - 1) if brokers > 1 else largest
    return np.asarray(np.maximum(0.0, largest - others))


@compiled
def _per_step(load: Floats, placed: Ints, start: Ints, brokers: int) -> tuple[Floats, Ints]:
    steps, topics = load.shape
    difference = np.empty(steps)
    switches = np.zeros(steps, np.int64)
    before = start.copy()
    broker_load = np.empty(brokers)
    for t in range(steps):
        broker_load[:] = 0.0
        for i in range(topics):
            here = placed[t, i] if load[t, i] > 0.0 else NOWHERE
            if here != NOWHERE:
                broker_load[here] += load[t, i]
                if before[i] != NOWHERE and before[i] != here:
                    switches[t] += 1
            before[i] = here
        difference[t] = broker_load.max() - broker_load.min()
    return difference, switches
