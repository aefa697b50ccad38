"""Ours: at most a few switches a step, only when the brokers have drifted apart, chosen to bring them back together.

Implements: broker-cluster, section VIII, the online algorithm that the paper leaves to the future.
Differs:    nothing is placed anew. When the excess over what large topics force exceeds the band, topics are moved or
            exchanged one trade at a time until it is well within the band or the step's switches are used up. Brokers
            of large topics are in order when they carry nothing else, so the others are balanced among themselves.
Symbols:    L -> difference, p_i^t -> load.
Checked by: tests/balance/test_bounded_moves.py, tests/balance/test_sixty_cases.py
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.balance.around_new import settle_around_new
from firelane.balance.greedy import NOWHERE, place_new_beside
from firelane.balance.look_ahead import first_move
from firelane.balance.trade import NEVER, best_trade, shelve
from firelane.balance.window import ROUNDING, Window, forced, window
from firelane.compiled import compiled

SETTLED = 0.8  # of the band: where acting ends
LEAST_GAIN = 0.1  # of the band: what each switch must bring into the window at least


@compiled
def bounded_moves(load: Floats, falling: Ints, start: Ints, brokers: int, band: Floats, max_moves: int) -> Ints:
    """The broker of every topic at every step; `band` is the excess of each step that is left alone."""
    placed = np.empty(load.shape, np.int64)
    place, standing = start.copy(), np.zeros(brokers)
    acting = False
    for t in range(len(load)):
        acting = one_step(load[t], falling[t], place, standing, band[t], max_moves, acting)
        placed[t] = place
    return placed


@compiled
def one_step(
    load: Floats, falling: Ints, place: Ints, standing: Floats, band: float, max_moves: int, acting: bool
) -> bool:
    """Change `place` to what it is after a step; was there more to do than was allowed?

    `acting` is what the step before returned. `standing` is what brokers carry anyway.
    """
    broker_load = np.empty(len(standing))
    free = (place == NOWHERE) & (load > 0.0)
    place_new_beside(standing, load, falling, place, broker_load)
    bounds = forced(np.concatenate((load, standing)), len(standing))
    low = SETTLED * band
    before = excess(broker_load, bounds)
    if before <= (low if acting else band):
        return False
    settle(load, falling, free, place, broker_load, standing, bounds, low, max_moves, LEAST_GAIN * band)
    return bool(low < excess(broker_load, bounds) < before)


@compiled
def settle(
    load: Floats,
    falling: Ints,
    free: Flags,
    place: Ints,
    broker_load: Floats,
    standing: Floats,
    bounds: Window,
    slack: float,
    budget: int,
    least_gain: float,
) -> None:
    """Trade topics until the excess is at most the slack, within a budget of switches.

    `place` and `broker_load`, which is with what is `standing`, are changed. Topics that are `free` make no switch.
    Each trade must bring more than `least_gain` for each of its switches.
    """
    aim = window(bounds, broker_load, slack)
    width = aim.ceiling - aim.floor
    if free.any() and budget > 0 and settle_around_new(load, falling, free, place, broker_load, standing, width):
        return
    for _ in range(len(load)):
        if excess(broker_load, bounds) <= slack + ROUNDING * bounds.ceiling:
            break
        shelves = shelve(falling, place, len(broker_load))
        trade, target, settling = best_trade(load, free, shelves, broker_load, aim, budget, least_gain)
        if settling == NEVER or free.any():
            within = min(budget, settling - 1)
            topic, to = first_move(load, free, shelves, broker_load, aim, within, least_gain)
            if topic >= 0:
                trade, target = np.array([topic]), to
        if len(trade) == 0:
            break
        source = place[trade[0]]
        for number in range(len(trade)):
            budget -= int(not free[trade[number]])
            _move(load, place, broker_load, trade[number], target if number == 0 else source)


@compiled
def _move(load: Floats, place: Ints, broker_load: Floats, topic: int, target: int) -> None:
    broker_load[place[topic]] -= load[topic]
    broker_load[target] += load[topic]
    place[topic] = target


@compiled
def excess(broker_load: Floats, bounds: Window) -> float:
    """How far the difference is above what large topics force."""
    return float(broker_load.max() - broker_load.min() - (bounds.ceiling - bounds.floor))
