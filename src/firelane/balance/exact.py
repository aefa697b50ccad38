"""The yardstick: the best placement of one step, and the fewest moves to a given balance, proved by HiGHS.

Implements: broker-cluster, section IV, Eq. 3-5.
Differs:    by default the fullest broker's load minus the emptiest's is minimised (Eq. 2), Eq. 3 on request. Brokers
            are interchangeable, so they are numbered by falling load, which makes Eq. 3 linear. The fewest moves that
            reach a given difference are ours.
Symbols:    a_i^j -> share, p_i -> load.
Checked by: tests/balance/test_exact.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.balance.bounded_moves import settle
from firelane.balance.greedy import NOWHERE, by_load, greedy, place_new
from firelane.balance.program import Program
from firelane.balance.window import forced
from firelane.errors import FirelaneError

OBJECTIVES = ("difference", "pairwise", "moves")
HAIR = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proof:
    """A placement, what it is worth, what no placement can go below, and whether the two are the same."""

    place: Ints
    value: float
    bound: float
    proved: bool


def least_difference(load: Floats, brokers: int, *, pairwise: bool = False, time_limit_s: float = 10.0) -> Proof:
    """The placement with the least difference (Eq. 2), or the least sum of the differences of all pairs (Eq. 3)."""
    program = Program(load, brokers)
    for j in range(brokers - 1):
        program.row([*program.carried(j), *program.carried(j + 1, -1.0)], least=0.0)
    # With brokers by falling load, Eq. 3 counts broker j above those behind it and below those before it, twice.
    for j in range(brokers):
        weight = 2.0 * (brokers - 1 - 2 * j) if pairwise else float((j == 0) - (j == brokers - 1))
        program.pay(program.carried(j, weight))
    floor, ceiling = _bounds(load, brokers)
    program.row(program.carried(0), least=ceiling * (1 - HAIR) * program.scale)
    program.row(program.carried(brokers - 1), most=floor * (1 + HAIR) * program.scale)
    guess = greedy(load[None, :], by_load(load)[None, :], brokers)[0]
    falling = np.argsort(-broker_loads(load, guess, brokers), kind="stable")
    guess[guess != NOWHERE] = np.argsort(falling)[guess[guess != NOWHERE]]
    found = program.solve(guess, time_limit_s=time_limit_s)
    carried = broker_loads(load, found.place, brokers)
    value = float(np.abs(carried[:, None] - carried).sum() if pairwise else np.ptp(carried))
    bound = min(value, max(0.0, found.bound / program.scale))
    return Proof(place=found.place, value=value, bound=bound, proved=found.proved)


def _bounds(load: Floats, brokers: int) -> tuple[float, float]:
    """The most of the emptiest broker and the least of the fullest; sums of whole loads are whole."""
    floor, ceiling = forced(load, brokers)
    if np.all(load == np.round(load)):
        return math.floor(floor * (1 + HAIR)), math.ceil(ceiling * (1 - HAIR))
    return floor, ceiling


def fewest_moves(
    load: Floats, start: Ints, brokers: int, at_most_difference: float, *, time_limit_s: float = 10.0
) -> Proof:
    """The fewest topics that must leave their broker for a difference of at most so much; new topics are free."""
    program = Program(load, brokers, extra=2)
    fullest, emptiest = program.columns - 2, program.columns - 1
    for j in range(brokers):
        program.row([*program.carried(j), (fullest, -1.0)], most=0.0)
        program.row([*program.carried(j), (emptiest, -1.0)], least=0.0)
    program.row([(fullest, 1.0), (emptiest, -1.0)], most=at_most_difference * program.scale)
    for number, i in enumerate(program.topics.tolist()):
        if start[i] != NOWHERE:
            program.pay([(program.share(number, j), 1.0) for j in range(brokers) if j != start[i]])
    guess, carried = reach(load, start, brokers, at_most_difference)
    ends = (carried.max() * program.scale, carried.min() * program.scale)
    found = program.solve(guess, *ends, time_limit_s=time_limit_s, whole=True)
    moves = int(np.count_nonzero((found.place != start) & (found.place != NOWHERE) & (start != NOWHERE)))
    return Proof(place=found.place, value=moves, bound=min(moves, math.ceil(found.bound - HAIR)), proved=found.proved)


def reach(load: Floats, start: Ints, brokers: int, at_most_difference: float) -> tuple[Ints, Floats]:
    """The placement with which `bounded-moves` comes to a difference of at most so much, if it does, and what the
    brokers then carry."""
    place, carried = start.copy(), np.zeros(brokers)
    falling, free, bounds = by_load(load), (start == NOWHERE) & (load > 0), forced(load, brokers)
    place_new(load, falling, place, carried)
    slack = at_most_difference - (bounds.ceiling - bounds.floor)
    settle(load, falling, free, place, carried, np.zeros(len(carried)), bounds, slack, len(load), 0.0)
    return place, carried


def broker_loads(load: Floats, place: Ints, brokers: int) -> Floats:
    """What each broker carries."""
    there = place != NOWHERE
    return np.bincount(place[there], load[there], minlength=brokers).astype(np.float64)


def exact(
    load: Floats, start: Ints, brokers: int, *, objective: str, limit: Floats, time_limit_s: float
) -> tuple[Ints, bool]:
    """The broker of every topic at every step, and whether each step is proved to be the best.

    For the objective `moves`, each step reaches a difference of at most its limit from the one before; where there is
    nothing before, it has the least difference.
    """
    placed, before, proved = np.full(load.shape, NOWHERE), start, True
    for t in range(len(load)):
        if load[t].any():
            try:
                found = _step(load[t], before, brokers, objective, limit[t], time_limit_s)
            except FirelaneError as problem:
                raise FirelaneError(f"step {t + 1} of {len(load)}: {problem}") from None
            placed[t] = found.place
            proved &= found.proved
        before = placed[t]
    return placed, proved


def _step(load: Floats, before: Ints, brokers: int, objective: str, limit: float, time_limit_s: float) -> Proof:
    if objective == "moves" and (before != NOWHERE).any():
        return fewest_moves(load, before, brokers, limit, time_limit_s=time_limit_s)
    return least_difference(load, brokers, pairwise=objective == "pairwise", time_limit_s=time_limit_s)
