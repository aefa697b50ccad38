"""A first move after which one more move or swap settles all brokers, where there is one."""

from __future__ import annotations

from firelane.arrays import Floats
from firelane.balance.trade import Shelves, at_least
from firelane.balance.window import Window, outside
from firelane.compiled import compiled

NEVER = 9
MOST_OUTSIDE = 4  # brokers that two moves can put in order
MOST_WORK = 2000  # topics x brokers up to which a swap is looked for after the move


@compiled
def first_move(
    load: Floats, shelves: Shelves, broker_load: Floats, aim: Window, budget: int, least_gain: float
) -> tuple[int, int]:
    """(topic, broker) of the move that begins the shortest way in two trades, or (-1, -1)."""
    brokers = len(broker_load)
    out, total = 0, 0.0
    for one in broker_load:
        out += outside(one, aim) > 0.0
        total += outside(one, aim)
    best = 1 + min(budget, 3 if len(shelves.topic) * brokers <= MOST_WORK else 2)
    topic, target = -1, -1
    if out > MOST_OUTSIDE:
        return topic, target
    for a in range(brokers):
        for position in range(shelves.first[a], shelves.first[a + 1]):
            i = shelves.topic[position]
            for b in range(brokers):
                if a == b or _still_out(broker_load, a, b, load[i], aim, out) > 2:
                    continue
                broker_load[a] -= load[i]
                broker_load[b] += load[i]
                switches = 1 + _settling(load, shelves, broker_load, aim, i, best - 2)
                broker_load[a] += load[i]
                broker_load[b] -= load[i]
                if switches < best and total > least_gain * switches:
                    best, topic, target = switches, i, b
                    if best == 2:
                        return topic, target
    return topic, target


@compiled
def _still_out(broker_load: Floats, a: int, b: int, sent: float, aim: Window, out: int) -> int:
    """How many brokers are outside the window after a move."""
    out -= (outside(broker_load[a], aim) > 0.0) + (outside(broker_load[b], aim) > 0.0)
    return out + (outside(broker_load[a] - sent, aim) > 0.0) + (outside(broker_load[b] + sent, aim) > 0.0)


@compiled
def _settling(load: Floats, shelves: Shelves, broker_load: Floats, aim: Window, moved: int, most: int) -> int:
    """How many switches (1 a move, 2 a swap) of other topics than the moved one settle all brokers."""
    full, empty, out = -1, -1, 0
    for j in range(len(broker_load)):
        if broker_load[j] > aim.ceiling:
            full = j
            out += 1
        elif broker_load[j] < aim.floor:
            empty = j
            out += 1
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
            if _has_move(load, shelves, a, least, most_sent, moved):
                return 1
            if most >= 2 and best > 2 and _has_swap(load, shelves, a, b, least, most_sent, moved):
                best = 2
        if out == 2:
            break
    return best


@compiled
def _has_move(load: Floats, shelves: Shelves, a: int, least: float, most: float, moved: int) -> bool:
    end = shelves.first[a + 1]
    at = at_least(load, shelves, shelves.first[a], end, least)
    if at < end and shelves.topic[at] == moved:
        at += 1
    return bool(at < end and load[shelves.topic[at]] <= most)


@compiled
def _has_swap(load: Floats, shelves: Shelves, a: int, b: int, least: float, most: float, moved: int) -> bool:
    back, end = shelves.first[b], shelves.first[b + 1]
    for position in range(shelves.first[a], shelves.first[a + 1]):
        i = shelves.topic[position]
        while back < end and load[shelves.topic[back]] < load[i] - most:
            back += 1
        at = back
        if at < end and shelves.topic[at] == moved:
            at += 1
        if i != moved and at < end and load[shelves.topic[at]] <= load[i] - least:
            return True
    return False
