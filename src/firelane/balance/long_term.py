"""One placement for each period, by what the topics amount to over it: `long-term` and its causal form.

Implements: broker-cluster, section VI, Algorithm 1, Eq. 6-10.
Differs:    R reconfigurations make R + 1 periods of (almost) equal length. Sums over time are taken first, which
            changes no choice: D_j is the sum of O_t minus the P_i of broker j's topics. `long-term` knows the period
            it places, as printed; `long-term-causal` goes by the period before. At the start topics stay where they
            are; those that are nowhere are placed by the first step.
Symbols:    P_i -> total, sum of O_t minus D_j -> carried, t_s and t_e -> begin.
Checked by: tests/balance/test_long_term.py
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.balance.greedy import NOWHERE, by_load, place_new_beside
from firelane.compiled import compiled


def periods(steps: int, reconfigurations: int) -> Ints:
    """The first step of each period, and the end of the last."""
    return np.arange(reconfigurations + 2) * steps // (reconfigurations + 1)


def long_term(load: Floats, brokers: int, begin: Ints) -> Ints:
    """The broker of every topic at every step, each period placed by its own totals."""
    placed = np.empty(load.shape, np.int64)
    for start, end in pairwise(begin):
        placed[start:end] = by_totals(load[start:end].sum(axis=0), np.zeros(brokers))
    return placed


def long_term_causal(load: Floats, start: Ints, brokers: int, begin: Ints) -> Ints:
    """The broker of every topic at every step, each period placed by the totals of the one before."""
    placed = np.empty(load.shape, np.int64)
    place = np.where(start == NOWHERE, by_totals(load[0], np.zeros(brokers), start), start)
    for first, end in pairwise(begin):
        for t in range(first, end):
            if t > 0:
                place_unknown(load[t], load[t - 1], place, np.zeros(brokers))
            placed[t] = place
        place = by_totals(load[first:end].sum(axis=0), np.zeros(brokers))
    return placed


def by_totals(total: Floats, standing: Floats, start: Ints | None = None) -> Ints:
    """Algorithm 1, lines 3 to 8: topics by falling total, each to the broker with the most room.

    The largest D_j is where least is carried, as O_t is the same for all; so lines 6 and 7 need no word of their own.
    `standing` is what brokers carry anyway; topics that have a broker at the `start` keep it.
    """
    place = np.full(len(total), NOWHERE) if start is None else start.copy()
    place_new_beside(standing, total, by_load(total), place, np.empty_like(standing))
    return place


@compiled
def place_unknown(load: Floats, before: Floats, place: Ints, standing: Floats) -> None:
    """Topics that have come since go where the last step had the least load; each counts as an average topic."""
    broker_load = standing.copy()
    for i in range(len(before)):
        if before[i] > 0.0:
            broker_load[place[i]] += before[i]
    typical = average(before)
    for i in range(len(load)):
        if load[i] > 0.0 and place[i] == NOWHERE:
            place[i] = broker_load.argmin()
            broker_load[place[i]] += typical


@compiled
def average(load: Floats) -> float:
    """What a topic that is there weighs; if there is none, 1: those of which nothing is known are all alike."""
    there = (load > 0.0).sum()
    return float(load.sum() / there) if there else 1.0
