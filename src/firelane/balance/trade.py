"""The best next exchange of topics between two brokers: one goes, and none, one or a few come back.

A move is a trade with nothing back, a swap one with a single topic back. More than one comes back where a large topic
has to leave a broker that then lacks what it carried: without that, neighbours of large topics would never settle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.balance.greedy import NOWHERE
from firelane.balance.window import ROUNDING, Window, outside
from firelane.compiled import compiled

MOST_BACK = 4
NEVER = 9
FREE = 0.25
EVENNESS = 0.01  # how much it counts that brokers become more alike, beside coming into the window


class Shelves(NamedTuple):
    """The topics of each broker by rising load: those of broker j are topic[first[j] : first[j + 1]]."""

    topic: Ints
    first: Ints


@compiled
def shelve(falling: Ints, place: Ints, brokers: int) -> Shelves:
    """The shelves of topics that are given by falling load."""
    first = np.zeros(brokers + 1, np.int64)
    for j in place:
        if j != NOWHERE:
            first[j + 1] += 1
    first = np.cumsum(first)
    topic, free = np.empty(first[-1], np.int64), first[1:].copy()
    for i in falling:
        if place[i] != NOWHERE:
            free[place[i]] -= 1
            topic[free[place[i]]] = i
    return Shelves(topic, first)


@compiled
def at_least(load: Floats, shelves: Shelves, start: int, end: int, wanted: float) -> int:
    """The position of the first topic between two positions that has the wanted load or more, else the end."""
    while start < end:
        middle = (start + end) // 2
        if load[shelves.topic[middle]] < wanted:
            start = middle + 1
        else:
            end = middle
    return start


@compiled
def best_trade(
    load: Floats, free: Flags, shelves: Shelves, broker_load: Floats, aim: Window, budget: int, least_gain: float
) -> tuple[Ints, int, int]:
    """The topics of the trade (the one that goes, then those that come back), where the first goes, and with how many
    switches it settles all brokers, NEVER if not with two; no topics if no trade gains enough for each switch.

    Topics that are `free`, being new, make no switch wherever they go.
    """
    chosen, target, best, settling = np.empty(0, np.int64), -1, 0.0, NEVER
    trade = np.empty(MOST_BACK + 2, np.int64)
    next_costs = 0 if free.any() else 1
    for a in range(len(broker_load)):
        for b in range(len(broker_load)):
            if broker_load[a] <= broker_load[b] or outside(broker_load[a], aim) + outside(broker_load[b], aim) == 0.0:
                continue
            pair = _pair(broker_load, a, b, aim)
            may_settle = pair.highest - pair.lowest <= aim.ceiling - aim.floor
            for position in range(shelves.first[a], shelves.first[a + 1]):
                trade[0] = shelves.topic[position]
                sent, size, switches, end = load[trade[0]], 1, int(not free[trade[0]]), shelves.first[b + 1]
                while switches <= budget:
                    gain, value, done = _worth(sent, pair, aim, switches)
                    if gain > least_gain * switches and value > best:
                        best, target, chosen, settling = value, b, trade[:size].copy(), switches if done else NEVER
                    hopeless = pair.outside / _price(switches + next_costs) < best and not (may_settle and size == 1)
                    if sent <= pair.ideal or size > MOST_BACK or hopeless:
                        break
                    # The topic just above what should come back ends the trade; the one just below continues it.
                    at = at_least(load, shelves, shelves.first[b], end, sent - pair.ideal)
                    if at < end:
                        trade[size] = shelves.topic[at]
                        more = switches + int(not free[trade[size]])
                        gain, value, done = _worth(sent - load[trade[size]], pair, aim, more)
                        if more <= budget and gain > least_gain * more and value > best:
                            best, target, chosen, settling = value, b, trade[: size + 1].copy(), more if done else NEVER
                    if at == shelves.first[b]:
                        break
                    end = at - 1
                    trade[size] = shelves.topic[end]
                    sent -= load[trade[size]]
                    switches += int(not free[trade[size]])
                    size += 1
    return chosen, target, settling


class Pair(NamedTuple):
    """Two brokers that may trade, and the rest as far as it matters."""

    full: float
    empty: float
    outside: float  # how much of the two is outside the window
    total: float  # of all brokers
    ideal: float  # how much should go from the one to the other
    lowest: float  # of the other brokers
    highest: float


@compiled
def _pair(broker_load: Floats, a: int, b: int, aim: Window) -> Pair:
    """The pair of brokers a and b. What should go brings most load into the window, and of such amounts leaves the
    two most alike."""
    full, empty = broker_load[a], broker_load[b]
    needed = max(full - aim.ceiling, aim.floor - empty)  # for both to be in the window
    allowed = min(full - aim.floor, aim.ceiling - empty)
    ideal = min(max((full - empty) / 2, min(needed, allowed)), max(needed, allowed))
    total, lowest, highest = 0.0, np.inf, -np.inf
    for j in range(len(broker_load)):
        total += outside(broker_load[j], aim)
        if j not in (a, b):
            lowest, highest = min(lowest, broker_load[j]), max(highest, broker_load[j])
    return Pair(full, empty, outside(full, aim) + outside(empty, aim), total, ideal, lowest, highest)


@compiled
def _worth(sent: float, pair: Pair, aim: Window, switches: int) -> tuple[float, float, bool]:
    """The load that comes into the window, what that is worth for each switch, and whether it settles all brokers
    with one or two. That goes first: anything else would take as many switches or more.
    """
    full, empty = pair.full - sent, pair.empty + sent
    gain = pair.outside - outside(full, aim) - outside(empty, aim)
    value = (gain + EVENNESS * sent * (full - pair.empty) / aim.ceiling) / _price(switches)
    spread = max(full, empty, pair.highest) - min(full, empty, pair.lowest)
    settles = switches <= 2 and spread <= (aim.ceiling - aim.floor) * (1 + ROUNDING)
    if settles:
        value += pair.total * (3 - switches)
    return gain, value, settles


@compiled
def _price(switches: int) -> float:
    """What switches count; even what is free should bring something."""
    return switches if switches > 0 else FREE
