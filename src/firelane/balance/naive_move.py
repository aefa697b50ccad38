"""For comparison: what a simple script does, moving the best single topic from the fullest to the emptiest broker.

It stalls as soon as the fullest broker has nothing to give that helps, as when it holds one large topic alone.
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.balance.greedy import place_new
from firelane.compiled import compiled


@compiled
def naive_move(load: Floats, falling: Ints, start: Ints, brokers: int, band: Floats, max_moves: int) -> Ints:
    """The broker of every topic at every step; a difference within the step's `band` is left alone."""
    placed = np.empty(load.shape, np.int64)
    place, broker_load = start.copy(), np.zeros(brokers)
    for t in range(len(load)):
        place_new(load[t], falling[t], place, broker_load)
        move_some(load[t], place, broker_load, band[t], max_moves, 0.0)
        placed[t] = place
    return placed


@compiled
def move_some(load: Floats, place: Ints, broker_load: Floats, band: float, max_moves: int, least_gain: float) -> None:
    """Move topics until the difference is within the band, or no move brings two brokers closer by `least_gain`."""
    for _ in range(max_moves):
        if broker_load.max() - broker_load.min() <= band or not _move_one(load, place, broker_load, least_gain):
            break


@compiled
def _move_one(load: Floats, place: Ints, broker_load: Floats, least_gain: float) -> bool:
    """Move the topic that brings the two brokers closest together; is there one?"""
    full, empty = broker_load.argmax(), broker_load.argmin()
    gap = broker_load[full] - broker_load[empty]
    best, left = -1, gap - least_gain
    for i in range(len(load)):
        if place[i] == full and abs(gap - 2 * load[i]) < left:
            best, left = i, abs(gap - 2 * load[i])
    if best >= 0:
        place[best] = empty
        broker_load[full] -= load[best]
        broker_load[empty] += load[best]
    return best >= 0
