"""Loads -> Balance: the methods by name, what each may be told, and the time it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.balance.bounded_moves import bounded_moves
from firelane.balance.exact import OBJECTIVES, exact
from firelane.balance.greedy import NOWHERE, by_load, greedy
from firelane.balance.loads import Loads
from firelane.balance.long_term import long_term, long_term_causal, periods
from firelane.balance.naive_move import naive_move
from firelane.balance.result import Balance, broker_names
from firelane.balance.score import score
from firelane.balance.threshold import threshold as threshold_based
from firelane.errors import FirelaneError
from firelane.units import SHARE

MOST_BROKERS = 100_000
MOST_MOVES = 10**9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """What a method may be told; each uses some of it."""

    brokers: int
    start: Ints
    limit: Floats  # the threshold of each step
    reconfigurations: int = 0
    max_moves: int = 0
    objective: str = "difference"
    time_limit_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The settings a method uses, with their defaults, and how it decides: a placement, and whether it is proved."""

    defaults: Mapping[str, Any]
    decide: Callable[[Floats, Settings], tuple[Ints, bool | None]]


METHODS: dict[str, Method] = {
    "bounded-moves": Method(
        defaults={"threshold": "5 %", "max_moves": 10},
        decide=lambda load, s: (bounded_moves(load, by_load(load), s.start, s.brokers, s.limit, s.max_moves), None),
    ),
    "long-term": Method(
        defaults={"reconfigurations": 0},
        decide=lambda load, s: (long_term(load, s.brokers, periods(len(load), s.reconfigurations)), None),
    ),
    "long-term-causal": Method(
        defaults={"reconfigurations": 0},
        decide=lambda load, s: (
            long_term_causal(load, s.start, s.brokers, periods(len(load), s.reconfigurations)),
            None,
        ),
    ),
    "threshold": Method(
        defaults={"threshold": "10 %"},
        decide=lambda load, s: (threshold_based(load, by_load(load), s.start, s.brokers, s.limit), None),
    ),
    "greedy": Method(defaults={}, decide=lambda load, s: (greedy(load, by_load(load), s.brokers), None)),
    "naive-move": Method(
        defaults={"threshold": 0.0, "max_moves": 1},
        decide=lambda load, s: (naive_move(load, by_load(load), s.start, s.brokers, s.limit, s.max_moves), None),
    ),
    "exact": Method(
        defaults={"objective": "difference", "threshold": "5 %", "time_limit_s": 10.0},
        decide=lambda load, s: exact(
            load, s.start, s.brokers, objective=s.objective, limit=s.limit, time_limit_s=s.time_limit_s
        ),
    ),
}


def balance(
    loads: Loads,
    *,
    brokers: int,
    method: str = "bounded-moves",
    reconfigurations: int | None = None,
    threshold: float | str | None = None,
    max_moves: int | None = None,
    objective: str | None = None,
    time_limit_s: float | None = None,
    current: Mapping[str, str] | None = None,
) -> Balance:
    """Place the topics of every step on so many brokers.

    A threshold is a load, or text such as "5 %": that share of what a broker carries on average at each step.
    `current` says on which broker topics are now; without it, the first placement is free.
    """
    if brokers < 1:
        raise FirelaneError(f"brokers: {brokers} is too few; write e.g. 3")
    if brokers > MOST_BROKERS:
        raise FirelaneError(f"brokers: {brokers} are more than {MOST_BROKERS:,}; write e.g. 3")
    given = {
        "reconfigurations": reconfigurations,
        "threshold": threshold,
        "max_moves": max_moves,
        "objective": objective,
        "time_limit_s": time_limit_s,
    }
    used = _used(method, {name: value for name, value in given.items() if value is not None}, len(loads.times_s))
    settings = Settings(
        brokers=brokers,
        start=_start(loads, current or {}, brokers),
        limit=_limit(used.get("threshold", 0.0), loads.load, brokers),
        **{name: value for name, value in used.items() if name != "threshold"},
    )
    decide = METHODS[method].decide
    if method != "exact":
        decide(loads.load[:1], replace(settings, reconfigurations=0))  # compile it, or read what was compiled before
    began = time.perf_counter()
    placed, proved = decide(loads.load, settings)
    return Balance(
        method=method,
        how=_in_words(used),
        brokers=brokers,
        loads=loads,
        start=settings.start,
        placed=placed,
        seconds=time.perf_counter() - began,
        score=score(loads.load, placed, settings.start, brokers),
        proved=proved,
    )


def _used(method: str, chosen: dict[str, Any], steps: int) -> dict[str, Any]:
    """The settings a method works with: its defaults, and what was chosen if that makes sense."""
    if method not in METHODS:
        raise FirelaneError(f'method: "{method}" is not known; write one of {", ".join(METHODS)}')
    defaults = METHODS[method].defaults
    for name in chosen.keys() - defaults.keys():
        takes = f"it takes {', '.join(defaults)}" if defaults else "it takes nothing"
        raise FirelaneError(f"{name}: {method} does not use it ({takes}); leave it out")
    used = {**defaults, **chosen}
    if not 0 <= used.get("reconfigurations", 0) < steps:
        raise FirelaneError(f"reconfigurations: {used['reconfigurations']} is not from 0 to {steps - 1}, the steps - 1")
    if used.get("max_moves", 0) < 0:
        raise FirelaneError(f"max_moves: {used['max_moves']} is too few; write e.g. 10")
    if used.get("max_moves", 0) > MOST_MOVES:
        raise FirelaneError(f"max_moves: {used['max_moves']} are more than {MOST_MOVES:,}; write e.g. 10")
    if not used.get("time_limit_s", 1.0) > 0:
        raise FirelaneError(f"time_limit_s: {used['time_limit_s']:g} is no time; write e.g. 10")
    if "threshold" in chosen and used.get("objective", "moves") != "moves":
        raise FirelaneError(f"threshold: {method} uses it with the objective moves only; leave it out")
    if used.get("objective", "moves") not in OBJECTIVES:
        raise FirelaneError(f'objective: "{used["objective"]}" is not known; write one of {", ".join(OBJECTIVES)}')
    return used


def _in_words(used: dict[str, Any]) -> str:
    """What the method was told; a threshold that is not used is not."""
    unused = {"threshold"} if used.get("objective", "moves") != "moves" else set()
    words = {"time_limit_s": "time limit {:g} s", "max_moves": "max moves {}"}
    return ", ".join(
        words.get(name, f"{name} {{}}").format(value) for name, value in used.items() if name not in unused
    )


def _limit(threshold: float | str, load: Floats, brokers: int) -> Floats:
    """The threshold of each step, as a load."""
    try:
        if isinstance(threshold, str) and "%" in threshold:
            return np.asarray(SHARE.parse(threshold) * load.sum(axis=1) / brokers)
        value = float(threshold)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise FirelaneError(
            f'threshold: "{threshold}" is not a load; write e.g. 500, or "5 %" of a broker\'s mean load'
        )
    return np.full(len(load), value)


def _start(loads: Loads, current: Mapping[str, str], brokers: int) -> Ints:
    """The number of every topic's present broker."""
    number = {name: j for j, name in enumerate(broker_names(brokers))}
    start = np.full(len(loads.topics), NOWHERE)
    if current and not current.keys() & set(loads.topics):
        raise FirelaneError("current: it places none of these topics; leave it out, or give the plan that is in force")
    for i, topic in enumerate(loads.topics):
        if topic in current:
            if current[topic] not in number:
                raise FirelaneError(
                    f'current: topic "{topic}" is on "{current[topic]}", but the brokers are broker-1 to '
                    f"broker-{brokers}; rename it in the plan or raise --brokers"
                )
            start[i] = number[current[topic]]
    return start
