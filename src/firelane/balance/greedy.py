"""Largest topic first onto the emptiest broker: at every step anew (`greedy`), and for topics that are new.

Implements: broker-cluster, section VI, the greedy heuristic, and how the baseline assigns topics.
Differs:    between equal topics or brokers the first goes first; the paper does not say.
Symbols:    p_i -> load of a topic, S_j -> the topics placed on broker j.
Checked by: tests/balance/test_greedy.py
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.compiled import compiled

NOWHERE = -1  # the broker of a topic that is not there


def by_load(load: Floats) -> Ints:
    """The numbers of the topics by falling load, equal ones in their order; of one step, or of each."""
    return np.argsort(-load, axis=-1, kind="stable")


@compiled
def place_new(load: Floats, falling: Ints, place: Ints, broker_load: Floats) -> None:
    """Place the topics that have a load and no broker, the largest first, each on the emptiest broker.

    Topics without load lose their broker. `broker_load` becomes what the brokers carry; `falling` is from `by_load`.
    """
    place_new_beside(np.zeros(len(broker_load)), load, falling, place, broker_load)


@compiled
def place_new_beside(standing: Floats, load: Floats, falling: Ints, place: Ints, broker_load: Floats) -> None:
    """The same on brokers that carry something anyway; `broker_load` is with it."""
    broker_load[:] = standing
    new = 0
    for i in range(len(load)):
        if load[i] <= 0.0:
            place[i] = NOWHERE
        elif place[i] == NOWHERE:
            new += 1
        else:
            broker_load[place[i]] += load[i]
    if new == 0:
        return
    for i in falling:
        if load[i] > 0.0 and place[i] == NOWHERE:
            place[i] = broker_load.argmin()
            broker_load[place[i]] += load[i]


@compiled
def greedy(load: Floats, falling: Ints, brokers: int) -> Ints:
    """The broker of every topic at every step (steps x topics), all placed anew each time."""
    placed = np.empty(load.shape, np.int64)
    broker_load = np.zeros(brokers)
    for t in range(len(load)):
        placed[t] = NOWHERE
        place_new(load[t], falling[t], placed[t], broker_load)
    return placed
