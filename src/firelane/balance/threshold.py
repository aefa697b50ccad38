"""The paper's baseline: place everything anew whenever that lessens the load difference by more than a threshold.

Implements: broker-cluster, section VI, the threshold-based baseline.
Differs:    the threshold may change with the step; topics that are new go to the emptiest broker, free of charge.
Symbols:    L_1 -> before, L_2 -> after.
Checked by: tests/balance/test_threshold.py
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.balance.greedy import NOWHERE, place_new
from firelane.compiled import compiled


@compiled
def threshold(load: Floats, falling: Ints, start: Ints, brokers: int, least_gain: Floats) -> Ints:
    """The broker of every topic at every step; `least_gain` is the threshold of each step."""
    placed = np.empty(load.shape, np.int64)
    place, anew = start.copy(), np.empty_like(start)
    broker_load, anew_load = np.zeros(brokers), np.zeros(brokers)
    for t in range(len(load)):
        place_new(load[t], falling[t], place, broker_load)
        anew[:] = NOWHERE
        place_new(load[t], falling[t], anew, anew_load)
        before = broker_load.max() - broker_load.min()
        after = anew_load.max() - anew_load.min()
        if before - after > least_gain[t]:
            place[:] = anew
        placed[t] = place
    return placed
