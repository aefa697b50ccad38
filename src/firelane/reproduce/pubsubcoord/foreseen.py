"""What `firelane balance` says of a city before it is played: by its loads as they are, and as leaders learn them.

An edge measures rates as every exchange does: it looks every few seconds, forgets what was before slowly, and tells
what has changed enough. That is reckoned here by its own arithmetic. When it looks, and when the leader decides, cannot
be known beforehand; so there are several predictions, each for other moments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.balance import Loads, balance
from firelane.balance.long_term import average
from firelane.exchange.measuring.traffic import SELDOM_S, Traffic
from firelane.overlay.edge import LOOK_EVERY_S, REPORT_EVERY_S, steady
from firelane.overlay.leader.assignment import Tuning

MOMENTS = 20  # at which an edge may look, and as many at which a leader may decide
GOLDEN = (5**0.5 - 1) / 2  # so that each of one kind meets all of the other
PERIOD_STEPS = Tuning().period_steps
THRESHOLD = f"{Tuning().threshold:.0%}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """A city as it is played: the first row of its loads until 0 s, then the others, each for a while."""

    loads: Loads
    warm_s: float  # how long the first row lasts
    led_s: float  # how long before 0 s topics have been assigned
    hold_s: float  # how long each of the others lasts
    step_s: float  # of the leader
    routers: int
    start: Ints  # where topics are at 0 s
    settings: Mapping[str, Any]  # of `balance`

    @property
    def end_s(self) -> float:
        """When it is over."""
        return self.hold_s * (len(self.loads.load) - 1)

    def row(self, at_s: Floats) -> Ints:
        """Which loads there are at these times."""
        return np.clip(np.floor(at_s / self.hold_s).astype(np.int64) + 1, 0, len(self.loads.load) - 1)

    def sent(self, at_s: float) -> Ints:
        """How many messages of each topic have been published until then, evenly; not all begin at once."""
        begins = np.append(-self.warm_s, np.arange(len(self.loads.load) - 1) * self.hold_s)
        lasts = np.append(self.warm_s, np.full(len(begins) - 1, self.hold_s))
        topics = len(self.loads.topics)
        whole = np.clip(at_s - begins, 0.0, lasts) @ self.loads.load + 1 - np.arange(1, topics + 1) / topics
        return np.floor(whole).astype(np.int64)


def foreseen(played: Played) -> dict[str, Any]:
    """Load differences of each step and moves: of loads known at once and exactly, and of those that leaders know."""
    exact, exact_moves = _balanced(played, played.loads.load, played.row, 0.0)
    found = []
    for number in range(MOMENTS):
        at_s, told = as_told(played, (number + 0.5) / MOMENTS * SELDOM_S)
        decides_s = (number * GOLDEN) % 1 * played.step_s
        found.append(_balanced(played, told, partial(_last, at_s), decides_s))
    differences = np.array([difference for difference, _ in found])
    return {
        "exact_difference_hz": exact,
        "exact_moves": exact_moves,
        "predicted_difference_hz": differences.mean(axis=0).tolist(),
        "predicted_range_hz": [differences.min(axis=0).tolist(), differences.max(axis=0).tolist()],
        "predicted_means_hz": sorted(differences.mean(axis=1).tolist()),
        "predicted_moves": sorted(moves for _, moves in found),
    }


def as_told(played: Played, look_s: float) -> tuple[Floats, Floats]:
    """(times, and at each what an edge has told of every topic), if it looks so long before the first message."""
    traffic, topics = Traffic(), played.loads.topics
    seen = [traffic.of(topic.encode(), topic) for topic in topics]
    at_s = np.arange(-played.warm_s - look_s, played.end_s, REPORT_EVERY_S + LOOK_EVERY_S / 2)
    told: dict[str, float] = {}
    rows = []
    for now_s in at_s.tolist():
        for one, sent in zip(seen, played.sent(now_s).tolist(), strict=True):
            one.published = one.bytes = one.squares = sent
        rates_hz = {one.name: round(one.rate_hz, 3) for one in traffic.known(now_s)}
        mean_hz = sum(rates_hz.values()) / max(1, len(rates_hz))
        told = {topic: steady(told.get(topic), rate_hz, mean_hz) for topic, rate_hz in rates_hz.items()}
        rows.append([told.get(topic, 0.0) for topic in topics])
    return at_s, np.array(rows)


def _last(at_s: Floats, now_s: Floats) -> Ints:
    """The number of what was told last, by then."""
    return np.searchsorted(at_s, now_s, side="right") - 1


def _balanced(
    played: Played, known: Floats, row: Callable[[Floats], Ints], decides_s: float
) -> tuple[list[float], int]:
    """The load difference of each step in its second half and the moves, deciding by the rows that are known then."""
    by_period = "max_moves" not in played.settings
    led_steps = int(played.led_s / played.step_s) % PERIOD_STEPS if by_period else 0
    at_s = decides_s + played.step_s * np.arange(-led_steps, (played.end_s - decides_s) / played.step_s)
    load = known[row(at_s)]
    for one in load[led_steps:]:
        one[one == 0] = average(one)  # not yet measured
    settings = dict(played.settings)
    if by_period:  # in whole periods
        missing = -len(load) % PERIOD_STEPS
        load = np.vstack((load, np.repeat(load[-1:], missing, axis=0)))
        settings["reconfigurations"] = len(load) // PERIOD_STEPS - 1
    steps = Loads(topics=played.loads.topics, times_s=np.arange(len(load)), load=load)
    current = {topic: f"broker-{one + 1}" for topic, one in zip(steps.topics, played.start.tolist(), strict=True)}
    said = balance(steps, brokers=played.routers, current=current, **settings)
    placed = np.vstack((played.start, said.placed[led_steps : len(at_s)]))
    return _scored(played, placed, at_s[led_steps:]), int(np.count_nonzero(np.diff(placed, axis=0)))


def _scored(played: Played, placed: Ints, at_s: Floats) -> list[float]:
    """By the loads as they are; a placement holds until the next."""
    found = []
    for number, load in enumerate(played.loads.load[1:]):
        times = (number + np.linspace(0.5, 1.0, 20, endpoint=False)) * played.hold_s
        places = placed[np.searchsorted(at_s, times, side="right")]
        carried = np.mean([np.bincount(one, load, minlength=played.routers) for one in places], axis=0)
        found.append(float(carried.max() - carried.min()))
    return found
