"""The experiments of the broker-cluster paper on the loads of a city: what each method costs and what it brings.

Implements: broker-cluster, section VII, Figures 3 to 7.
Differs:    thresholds are shares of what a broker carries on average, as cities differ; the baseline's cheapest
            threshold for a given balance is searched for, which the paper leaves to the reader; and our methods are
            there too.
Symbols:    R -> reconfigurations, L -> load difference.
Checked by: tests/reproduce/test_brokers.py
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from firelane.balance import Balance, Loads, balance

RECONFIGURATIONS = (0, 1, 2, 3, 5, 7, 11, 15, 22)
SHARES = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.4, 2.0)
MOST_MOVES = 10  # a step, of bounded-moves
LITTLE = 1e-6  # subscribers of a topic that nobody wants
PERIODS = 3  # reconfigurations in Figure 6

Results = dict[str, Any]


def always_there(loads: Loads) -> Loads:
    """The same with every topic placed from the first step on, as the paper has it, though nobody may want it yet.

    Our own reading is that a topic without subscribers is not there, and is placed free of charge when it comes.
    """
    return replace(loads, load=np.maximum(loads.load, LITTLE))


def all_figures(loads: Loads, brokers: int) -> Results:
    """Everything that Figures 3 to 7 and the claims are made from."""
    baseline = [_point(_threshold(loads, brokers, share), threshold=share) for share in SHARES]
    long_term = [
        _point(balance(loads, brokers=brokers, method="long-term", reconfigurations=one), limit=one)
        for one in RECONFIGURATIONS
        if one < len(loads.times_s)
    ]
    results: Results = {
        "brokers": brokers,
        "topics": len(loads.topics),
        "steps": len(loads.times_s),
        "step_s": int(np.diff(loads.times_s[:2])[0]) if len(loads.times_s) > 1 else 0,
        "mean_broker_load": mean_broker_load(loads, brokers),
        "baseline": baseline,
        "never": _point(_never(loads, brokers)),
        "long_term": long_term,
        "others": _others(loads, brokers),
    }
    return results | {"series": _series(loads, brokers, baseline), "claims": claims(results)}


def mean_broker_load(loads: Loads, brokers: int) -> float:
    """What a broker carries on average: thresholds are shares of this."""
    return float(loads.load.sum(axis=1).mean()) / brokers


def claims(results: Results) -> Results:
    """The two claims of the abstract, measured."""
    never, zero = results["never"], results["long_term"][0]
    saved = [
        {
            "limit": point["limit"],
            "long_term": point["switches"],
            "baseline": rival["switches"],
            "saved": 1 - point["switches"] / rival["switches"],
        }
        for point in results["long_term"][1:]
        if (rival := _rival(results["baseline"], point)) is not None
    ]
    return {
        "difference_ratio": _ratio(never["load_difference_mean"], zero["load_difference_mean"]),
        "saved": saved,
        "least_saved": min((one["saved"] for one in saved), default=None),
    }


def _rival(baseline: list[Results], point: Results) -> Results | None:
    """The baseline's threshold of fewest switches that is as balanced as this."""
    as_good = [
        one for one in baseline if one["load_difference_mean"] <= point["load_difference_mean"] and one["switches"]
    ]
    return min(as_good, key=lambda one: one["switches"], default=None)


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def _others(loads: Loads, brokers: int) -> Results:
    """The methods that the paper does not have, and greedy, which it only speaks of."""
    typical = mean_broker_load(loads, brokers)
    moved = [
        _point(
            balance(loads, brokers=brokers, method="bounded-moves", max_moves=MOST_MOVES, threshold=share * typical),
            threshold=share,
        )
        for share in SHARES
    ]
    return {
        "greedy": _point(balance(loads, brokers=brokers, method="greedy")),
        "naive_move": _point(balance(loads, brokers=brokers, method="naive-move")),
        "causal": [
            _point(balance(loads, brokers=brokers, method="long-term-causal", reconfigurations=one), limit=one)
            for one in RECONFIGURATIONS
            if one < len(loads.times_s)
        ],
        "bounded_moves": moved,
    }


def _series(loads: Loads, brokers: int, baseline: list[Results]) -> Results:
    """Step by step: Figure 4 (two thresholds), Figure 6 (three reconfigurations) and Figure 7 (none)."""
    low, high = _two_thresholds(baseline)
    runs = {
        "threshold_low": _threshold(loads, brokers, low),
        "threshold_high": _threshold(loads, brokers, high),
        "threshold_never": _never(loads, brokers),
        "long_term_0": balance(loads, brokers=brokers, method="long-term", reconfigurations=0),
        "long_term_3": balance(loads, brokers=brokers, method="long-term", reconfigurations=PERIODS),
    }
    return {
        "thresholds": [low, high],
        "hours": (loads.times_s / 3600).tolist(),
        "difference": {name: run.score.difference.tolist() for name, run in runs.items()},
        "switches": {name: run.score.switches.tolist() for name, run in runs.items()},
    }


def _two_thresholds(baseline: list[Results]) -> tuple[float, float]:
    """Figure 4's point: two thresholds with equally few reconfigurations and load differences far apart."""
    by_count: dict[int, list[Results]] = {}
    for point in baseline:
        by_count.setdefault(point["reconfigurations"], []).append(point)
    several = [points for count, points in sorted(by_count.items()) if count and len(points) > 1]
    if not several:
        return baseline[0]["threshold"], baseline[-1]["threshold"]
    chosen = max(several, key=lambda points: _spread(one["load_difference_mean"] for one in points))
    chosen = sorted(chosen, key=lambda one: one["load_difference_mean"])
    return chosen[0]["threshold"], chosen[-1]["threshold"]


def _spread(values: Iterable[float]) -> float:
    found = sorted(values)
    return found[-1] / found[0] if found[0] > 0 else 1.0


def _threshold(loads: Loads, brokers: int, share: float) -> Balance:
    return balance(loads, brokers=brokers, method="threshold", threshold=share * mean_broker_load(loads, brokers))


def _never(loads: Loads, brokers: int) -> Balance:
    """The baseline with a threshold that no gain can exceed."""
    return balance(loads, brokers=brokers, method="threshold", threshold=float(loads.load.sum(axis=1).max()))


def _point(run: Balance, **about: float) -> Results:
    return about | run.score.summary()
