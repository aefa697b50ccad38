"""Figures 7 to 9 live: real clients and an exchange with paced links, for every configuration that they compare.

Implements: firedex, section 5.3 and Fig. 9.
Differs:    links and rates are an eighth of the paper's and the buffer 60 messages, so that half a core and a few
            seconds do; every drop policy is run.
Symbols:    as in experiments.
Checked by: tests/reproduce/test_live.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.metrics import Metrics
from firelane.predict import predict
from firelane.reproduce.firedex.experiments import POLICIES, RANKINGS, RATES, SWITCHES
from firelane.reproduce.firedex.runs import BY_BANDWIDTH, CLASSES, Case, per_class
from firelane.reproduce.live import WARM_UP, Live, Schedule, Seen, from_metrics, replay, run, schedule, typical
from firelane.scenario.model import Publisher, Scenario
from firelane.scenario.plan import Plan
from firelane.scenario.routes import Routes, routes
from firelane.show import progress_bar
from firelane.tune import tune

SCALE = 0.125  # of the paper's bandwidth and rates: utility and drop shares stay, delays are eight times as long
BUFFER = 60  # messages: what a full link drops settles within the warm-up
DRAWN = 20  # schedules, of which the one with the most typical load is sent
DRAWS = 10  # of which messages drop rates take, in a simulation of that schedule
POINTS = 0.02  # how far from its promise the utility rate may be
DELAY_SHARE, DELAY_S, DELAY_SPREADS = 0.1, 0.001, 2  # how far from simulation a delay may be, whichever is most
FEW = 0.01  # a class with less success has left-overs of the start delivered: their delay says nothing

CONFIGURATIONS = RANKINGS | {f"{BY_BANDWIDTH} + {drops}": Case(drops=drops) for drops in POLICIES}
DROP_METHODS = {"none": BY_BANDWIDTH} | {drops: f"{BY_BANDWIDTH} + {drops}" for drops in POLICIES}
SHOWN_AS = {
    switch: next(name for name, one in CONFIGURATIONS.items() if one == case) for switch, case in SWITCHES.items()
}

Results = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEffort:
    """How long every configuration is run, and which."""

    seconds: float
    configurations: tuple[str, ...]


FULL = LiveEffort(seconds=15, configurations=tuple(CONFIGURATIONS))
QUICK = LiveEffort(seconds=8, configurations=tuple(dict.fromkeys([*SHOWN_AS.values(), *DROP_METHODS.values()])))


def scaled(scenario: Scenario) -> Scenario:
    """The paper's scenario as it is run live."""
    links = {
        name: replace(link, bandwidth_bps=SCALE * (link.bandwidth_bps or math.inf), buffer_messages=BUFFER)
        for name, link in scenario.links.items()
    }
    publishers = {
        name: Publisher(publishes={topic: SCALE * rate for topic, rate in one.publishes.items()})
        for name, one in scenario.publishers.items()
    }
    return replace(scenario, name=f"{scenario.name}-live", links=links, publishers=publishers)


def live(effort: LiveEffort, seed: int) -> Results:
    """Every configuration on the scenario of this seed, with the same publications."""
    network = routes(scaled(Case().routes(seed).scenario))
    drawn = [schedule(network, seconds=effort.seconds, seed=[seed, number]) for number in range(DRAWN)]
    sent = typical(drawn)
    found = {}
    with progress_bar(len(effort.configurations) * len(sent.at_s), "live") as progress:
        for name in effort.configurations:
            found[name] = configuration(CONFIGURATIONS[name], sent, drawn, seed=seed, progress=progress)
    link = next(iter(network.scenario.links.values()))
    return {
        "seconds": effort.seconds,
        "warm_up": WARM_UP,
        "scale": SCALE,
        "link_bps": link.bandwidth_bps,
        "buffer": link.buffer_messages,
        "publications": len(sent.at_s),
        "load": {"offered": float(sent.load().mean()), "expected": _load(network)},
        "configurations": found,
        "drop_methods": {drops: _kept(found[name]["utility"]) for drops, name in DROP_METHODS.items() if name in found},
    }


def configuration(
    case: Case,
    sent: Schedule,
    drawn: Sequence[Schedule],
    *,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
) -> Results:
    """One configuration: what was promised, what simulations of the same and other publications give, and live."""
    network = sent.routes
    plan = tune(network, priorities=case.priorities, drops=case.drops, seed=seed)
    ranked = tune(network, priorities=BY_BANDWIDTH, drops="none") if case.priorities == "none" else plan
    klass = ranked.per_subscription(network)[1]
    same = [replay(sent, plan, warm_up=WARM_UP, seed=draw) for draw in range(DRAWS)]
    others = [replay(one, plan, warm_up=WARM_UP, seed=DRAWS + draw) for draw, one in enumerate(drawn)]
    outcome = run(sent, plan, progress=progress)
    seen = from_metrics(network, outcome.metrics)
    return {
        **asdict(case),
        "utility": _utility(plan, predict(network, plan), same, others, outcome),
        "classes": _classes(klass, predict(network, plan), same, others, seen),
        "counts": asdict(outcome.counts),
        "received": outcome.received,
        "processor_share": outcome.processor_share,
        "late_p99_s": outcome.late_p99_s,
        "silence_s": outcome.silence_s,
        "attempts": outcome.attempts,
        "disturbed": outcome.disturbed,
    }


def _utility(plan: Plan, predicted: Metrics, same: list[Seen], others: list[Seen], outcome: Live) -> Results:
    return {
        rate: {
            "promised": plan.promised["utility_rate"] if rate == "rate" else predicted.utility()[rate],
            "simulated": float(np.mean([one.utility()[rate] for one in same])),
            "chance": float(np.std([one.utility()[rate] for one in others], ddof=1)),
            "live": outcome.metrics["utility"][rate],
        }
        for rate in RATES
    }


def _kept(utility: Results) -> Results:
    one = utility["rate"]
    off = one["live"] - one["promised"]
    return {**one, "off": off, "holds": abs(off) <= POINTS}


def _classes(klass: Ints, predicted: Metrics, same: list[Seen], others: list[Seen], seen: Seen) -> list[Results]:
    """Success and delay of each class from every source; None where nothing is delivered, or nothing settles."""
    offered, delivered = predicted.column("offered_hz"), predicted.column("delivered_hz")
    delay = np.where(delivered > 0, predicted.column("delay_mean_s"), 0.0)
    success = {
        "predicted": per_class(klass, predicted.column("success") * offered, offered),
        "simulated": _mean([one.class_success(klass, CLASSES) for one in same]),
        "live": seen.class_success(klass, CLASSES),
    }
    delays = {
        "predicted": per_class(klass, delay * delivered, delivered),
        "simulated": _mean([one.class_delay_s(klass, CLASSES) for one in same]),
        "spread": np.std([one.class_delay_s(klass, CLASSES) for one in same], axis=0, ddof=1),  # by drop rates' draws
        "chance": np.std([one.class_delay_s(klass, CLASSES) for one in others], axis=0, ddof=1),
        "live": seen.class_delay_s(klass, CLASSES),
    }
    rows = [(_numbers(success, one), _numbers(delays, one)) for one in range(CLASSES)]
    return [{"success": share, "delay_s": {**delay, "agrees": _agrees(share, delay)}} for share, delay in rows]


def _agrees(success: Results, delay: Results) -> bool | None:
    """Whether the live delay is that of the simulation; None where next to nothing is delivered."""
    ours, expected = delay["live"], delay["simulated"]
    if ours is None or expected is None or success["simulated"] < FEW:
        return None
    most_s = max(DELAY_SHARE * expected, DELAY_S, DELAY_SPREADS * delay["spread"])
    return bool(abs(ours - expected) <= most_s)


def _numbers(values: dict[str, Floats], place: int) -> Results:
    return {name: float(one[place]) if math.isfinite(one[place]) else None for name, one in values.items()}


def _mean(values: list[Floats]) -> Floats:
    """The mean over simulations; NaN where one of them has none."""
    mean: Floats = np.mean(values, axis=0)
    return mean


def _load(network: Routes) -> float:
    return float(np.mean([link.load for link in predict(network).links.values()]))
