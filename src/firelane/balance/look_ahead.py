"""A first move after which one more move or swap settles all brokers, where there is one."""

from __future__ import annotations

from firelane.arrays import Flags, Floats
from firelane.balance.trade import NEVER, Shelves, at_least
from firelane.balance.window import Window, outside
from firelane.compiled import compiled

MOST_OUTSIDE = 4  # brokers that two moves can put in order
MOST_WORK = 2000  # topics x brokers up to which a swap is looked for after the move


@compiled
def first_move(
    load: Floats, free: Flags, shelves: Shelves, broker_load: Floats, aim: Window, budget: int, least_gain: float
) -> tuple[int, int]:
    """(topic, broker) of the move that begins the way of fewest switches in two trades, or (-1, -1) if there is none
    within the budget."""
    brokers = len(broker_load)
    out, total = 0, 0.0
    for one in broker_load:
        out += outside(one, aim) > 0.0
        total += outside(one, aim)
    best = 1 + min(budget, 3 if len(shelves.topic) * brokers <= MOST_WORK else 2)
    fewest = 0 if free.any() else 2
    topic, target = -1, -1
    if out > MOST_OUTSIDE:
        return topic, target
    for a in range(brokers):
        for position in range(shelves.first[a], shelves.first[a + 1]):
            i = shelves.topic[position]
            for b in range(brokers):
                if a == b or _still_out(broker_load, a, b, load[i], aim, out) > 2:
                    continue
                first = int(not free[i])
                was_a, was_b = broker_load[a], broker_load[b]
                broker_load[a] -= load[i]
                broker_load[b] += load[i]
                switches = first + _settling(load, free, shelves, broker_load, aim, i, best - first - 1)
                broker_load[a], broker_load[b] = was_a, was_b  # to the last digit, which adding it back is not
                if switches < best and total > least_gain * switches:
                    best, topic, target = switches, i, b
                    if best <= fewest:
                        return topic, target
    return topic, target


@compiled
def _still_out(broker_load: Floats, a: int, b: int, sent: float, aim: Window, out: int) -> int:
    """How many brokers are outside the window after a move."""
    out -= (outside(broker_load[a], aim) > 0.0) + (outside(broker_load[b], aim) > 0.0)
    return out + (outside(broker_load[a] - sent, aim) > 0.0) + (outside(broker_load[b] + sent, aim) > 0.0)


@compiled
def _settling(
    load: Floats, free: Flags, shelves: Shelves, broker_load: Floats, aim: Window, moved: int, most: int
) -> int:
    """With how many switches a move or a swap, of other topics than the moved one, settles all brokers."""
    full, empty, out = -1, -1, 0
    for j in range(len(broker_load)):
        if broker_load[j] > aim.ceiling:
            full = j
            out += 1
        elif broker_load[j] < aim.floor:
            empty = j
            out += 1
    if out == 0:
        return 0
    if out == 2 and (full < 0 or empty < 0):
        return NEVER
    best = NEVER
    for j in range(len(broker_load)):
        a, b = full if full >= 0 else j, empty if empty >= 0 else j
        if a == b:
            continue
        least = max(broker_load[a] - aim.ceiling, aim.floor - broker_load[b])
        most_sent = min(broker_load[a] - aim.floor, aim.ceiling - broker_load[b])
        if least <= most_sent:
            best = min(best, _move(load, free, shelves, a, least, most_sent, moved))
            if most >= 2 and best > 2:
                best = min(best, _swap(load, free, shelves, a, b, least, most_sent, moved))
        if out == 2:
            break
    return best


@compiled
def _move(load: Floats, free: Flags, shelves: Shelves, a: int, least: float, most: float, moved: int) -> int:
    """The switches of the cheapest move from a broker that sends so much."""
    best = NEVER
    end = shelves.first[a + 1]
    for at in range(at_least(load, shelves, shelves.first[a], end, least), end):
        i = shelves.topic[at]
        if load[i] > most:
            break
        if i != moved:
            best = min(best, int(not free[i]))
    return best


@compiled
def _swap(load: Floats, free: Flags, shelves: Shelves, a: int, b: int, least: float, most: float, moved: int) -> int:
    """The switches of the first swap between two brokers that sends so much."""
    back, end = shelves.first[b], shelves.first[b + 1]
    for position in range(shelves.first[a], shelves.first[a + 1]):
        i = shelves.topic[position]
        while back < end and load[shelves.topic[back]] < load[i] - most:
            back += 1
        at = back
        if at < end and shelves.topic[at] == moved:
            at += 1
        if i != moved and at < end and load[shelves.topic[at]] <= load[i] - least:
            return int(not free[i]) + int(not free[shelves.topic[at]])
    return NEVER
