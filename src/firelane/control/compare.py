"""Whether a plan is worth applying, and whether it was: by what it does, and what the plan before would do instead."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from firelane.control.bounds import Bounds, foretold, measured
from firelane.control.decision import Decision
from firelane.control.effect import Effect, ModelError, effect
from firelane.control.network import Network
from firelane.control.what_if import changes, foreseen, in_force
from firelane.exchange.measuring.measuring import Reading
from firelane.metrics import Metrics
from firelane.scenario.plan import Plan
from firelane.scenario.utility import NeedTable

CHANCE = 2.0  # over the root of how many messages there were: what chance does to means
LEAST_SOONER = 0.1
LEAST_DELAY_S = 1e-3  # shorter ones are all the same
MOST_HELD_BACK = 0.05  # of utility, however much the model errs: it errs alike for both plans


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a new plan would do, what the one in force would, and how many subscriptions it treats otherwise."""

    predicted: Effect
    before: Effect
    changed: int
    settles: bool  # a link that would be overloaded, and no longer is
    sooner: float  # by which part of it the value-weighted delay is shorter

    def worthwhile(self, error: ModelError, *, beforehand: bool = False) -> bool:
        """Whether the new plan is better by more than the model errs, or misses fewer bounds.

        `beforehand`, of what is only foreseen, it must save bounds, or a link from overload: other gains can wait.
        """
        if self.changed == 0:
            return False
        if beforehand:
            return self.settles or self.predicted.missed < self.before.missed
        gain = self.predicted.utility_rate - self.before.utility_rate
        worth_more = gain > min(error.utility, MOST_HELD_BACK)
        notably_sooner = gain > -error.utility and self.sooner > max(error.delay, LEAST_SOONER)
        return self.settles or self.predicted.missed < self.before.missed or worth_more or notably_sooner


def compared(decision: Decision, before: Plan | None) -> Comparison:
    """The decision beside the plan in force, under the conditions that the decision was made for."""
    routes, needs = decision.routes, decision.network.needs
    earlier = in_force(before, routes)
    bounds = Bounds(needs, routes.scenario.categories)
    new, old = foreseen(routes, decision.plan), foreseen(routes, earlier)
    return Comparison(
        predicted=effect(foretold(new), needs, bounds),
        before=effect(foretold(old), needs, bounds),
        changed=changes(decision, earlier, 0)[0],
        settles=_overloaded(old) > _overloaded(new),
        sooner=_sooner(needs, new, old),
    )


def missed(plan: Plan, network: Network) -> int:
    """How many bounds a plan would miss."""
    routes = network.routes
    bounds = Bounds(network.needs, routes.scenario.categories)
    return bounds.missed(foretold(foreseen(routes, in_force(plan, routes)))) if bounds.any else 0


def _sooner(needs: NeedTable, new: Metrics, old: Metrics) -> float:
    """By which part delays get shorter, weighted by what subscriptions are worth."""
    delays = [one.column("delay_mean_s") for one in (new, old)]
    both = np.isfinite(delays[0]) & np.isfinite(delays[1])
    weight = needs.curves.weight * both
    late_s, later_s = (float(np.nan_to_num(one) @ weight) for one in delays)
    return 1 - late_s / later_s if later_s > LEAST_DELAY_S * weight.sum() > 0 else 0.0


def _overloaded(metrics: Metrics) -> int:
    return sum(not one.stable for one in metrics.links.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was measured of a plan, what is predicted of it, and of the plan before, all under the same conditions."""

    measured: Effect
    predicted: Effect
    before: Effect | None
    worse: str | None  # than the plan before would be, by more than the model errs: why


def judged(
    reading: Reading, network: Network, *, plan: Plan, before: Plan | None, error: ModelError, by_utility: bool
) -> Judgement | None:
    """Compare what a plan does with what it should do and with what the plan before would do now.

    Utility counts only if plans are made for it. None if there were too few messages to tell.
    """
    routes, needs, number = network.routes, network.needs, network.numbers()
    bounds = Bounds(needs, routes.scenario.categories)
    places = [number.get(pair, -1) for pair in zip(reading.subscribers, reading.filters, strict=True)]
    found = measured(reading, places, len(needs))
    there = found.known
    if not there.any():
        return None
    chance = CHANCE / math.sqrt(found.samples[there].sum())
    result = effect(found, needs, bounds, slack=error.delay + chance)
    predicted = effect(foretold(foreseen(routes, in_force(plan, routes))).only(there), needs, bounds)
    old = None
    if before is not None:
        old = effect(foretold(foreseen(routes, in_force(before, routes))).only(there), needs, bounds)
    return Judgement(
        measured=result,
        predicted=predicted,
        before=old,
        worse=_worse(result, old, error.utility + chance if by_utility else None),
    )


def _worse(result: Effect, before: Effect | None, allowed: float | None) -> str | None:
    if before is None:
        return None
    if result.missed > before.missed:
        return f"{result.missed} bounds are missed, with the plan before it would be {before.missed}"
    if (
        allowed is not None
        and result.missed == before.missed
        and result.utility_rate < before.utility_rate * (1 - allowed)
    ):
        return f"the utility rate is {result.utility_rate:.3f}, with the plan before {before.utility_rate:.3f}"
    return None
