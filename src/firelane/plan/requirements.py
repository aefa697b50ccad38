"""What is required of a plan: bounds on delay and loss, of single subscriptions and of whole categories, with weights.

Subscriptions of a category that ask for the same bound share one requirement, which the worst of them has to meet and
which weighs what they do on average. A bound under `categories` is one on the category as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.errors import FirelaneError
from firelane.predict.many import Targets, targets
from firelane.scenario.model import MOST_PRIORITIES, Need
from firelane.scenario.routes import Routes
from firelane.scenario.upstream import upstream

NO_CATEGORY = "none"
ROUNDING = 1e-9  # a bound may be exceeded by so much of itself

Kind = Literal["delay", "delay_p95", "loss"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requirement:
    """One bound: whose, on what, how much, and how much it matters."""

    category: int
    kind: Kind
    bound: float
    weight: float
    rows: Ints  # subscriptions
    together: bool  # on all of them as a whole; else each has to meet it


@dataclass(frozen=True, kw_only=True, eq=False)  # without slots, as it remembers arrays that are asked for often
class Requirements:
    """All that is required of a plan for a scenario, and what its categories can bear."""

    routes: Routes
    categories: tuple[str, ...]
    group: Ints  # of each subscription
    bounds: tuple[Requirement, ...]
    weight: Floats  # of dropping from each category
    most_drop: Floats  # what each can be dropped without missing a bound of its own; NaN if it has none on loss
    notes: tuple[str, ...]

    @cached_property
    def targets(self) -> Targets:
        """What to ask a prediction for; percentiles, which it does not have, as means."""
        return targets([(one.kind == "loss", one.together, one.rows) for one in self.bounds])

    @cached_property
    def limits(self) -> Floats:
        """The bounds as numbers."""
        return np.array([one.bound for one in self.bounds], np.float64)

    @cached_property
    def late_weights(self) -> Floats:
        """The weights of the bounds on delay; 0 for those on loss."""
        return np.array([0.0 if one.kind == "loss" else one.weight for one in self.bounds], np.float64)

    @property
    def intolerant(self) -> Flags:
        """The categories that can bear no loss, or have a subscription with a tolerance: they are never dropped."""
        return self.most_drop <= 0

    def only(self, chosen: Iterable[int]) -> Requirements:
        """As if these bounds were all there are."""
        bounds = tuple(self.bounds[one] for one in chosen)
        most_drop = _most_drop(self.routes, self.group, len(self.categories), bounds)
        return replace(self, bounds=bounds, most_drop=most_drop)

    def violated(self, values: Floats) -> Flags:
        """Which bounds (columns) plans (rows) miss; what has no delay misses every bound on it."""
        return ~(values <= self.limits * (1 + ROUNDING) + 1e-15)

    def name(self, one: Requirement) -> str:
        """As a person would write it."""
        what = {"delay": "max_delay", "delay_p95": "max_delay_p95", "loss": "max_loss"}[one.kind]
        amount = f"{100 * one.bound:.3g} %" if one.kind == "loss" else f"{1e3 * one.bound:.4g} ms"
        whose = "" if one.together else f" of {_subscriptions(len(one.rows))}"
        return f"{self.categories[one.category]} {what} {amount}{whose}"


def requirements(routes: Routes) -> Requirements:
    """What the needs and categories of a scenario require."""
    labels = [need.category or NO_CATEGORY for need in routes.needs]
    found = tuple(dict.fromkeys(labels))
    if not found:
        raise FirelaneError("nobody subscribes to anything in this scenario; add subscribers")
    most = min(routes.scenario.priorities, MOST_PRIORITIES)
    if len(found) > most:
        raise FirelaneError(f"{len(found)} categories need as many classes; raise priorities, now {most}")
    weights = _weights(routes, found, np.array([found.index(label) for label in labels], np.int64))
    categories = tuple(found[one] for one in np.argsort(-weights, kind="stable"))  # between equal plans, weight decides
    group = np.array([categories.index(label) for label in labels], np.int64)
    bounds = (*_of_categories(routes, categories, group), *_of_needs(routes, group))
    return Requirements(
        routes=routes,
        categories=categories,
        group=group,
        bounds=bounds,
        weight=_weights(routes, categories, group),
        most_drop=_most_drop(routes, group, len(categories), bounds),
        notes=tuple(_notes(routes, categories, group)),
    )


def _notes(routes: Routes, categories: tuple[str, ...], group: Ints) -> list[str]:
    scenario = routes.scenario
    unknown = [name for name in scenario.categories if name not in categories]
    notes = [f"nobody subscribes as {name}, so what categories.{name} asks for is met" for name in unknown]
    pairs = np.unique(routes.subscription_subscriber * len(categories) + group) // len(categories)
    most = int(np.bincount(pairs).max())
    if scenario.flows is not None and most > scenario.flows:
        notes.append(f"some subscribers need {most} flows, one for each of their categories; flows is {scenario.flows}")
    return notes


def _of_categories(routes: Routes, categories: tuple[str, ...], group: Ints) -> list[Requirement]:
    weights = _weights(routes, categories, group)
    found = []
    for number, name in enumerate(categories):
        stated = routes.scenario.categories.get(name)
        if stated is None:
            continue
        kinds: tuple[tuple[Kind, float | None], ...] = (
            ("delay", stated.max_delay_s),
            ("delay_p95", stated.max_delay_p95_s),
            ("loss", stated.max_loss),
        )
        found += [
            Requirement(
                category=number,
                kind=kind,
                bound=bound,
                weight=float(weights[number]),
                rows=np.flatnonzero(group == number),
                together=True,
            )
            for kind, bound in kinds
            if bound is not None
        ]
    return found


def _of_needs(routes: Routes, group: Ints) -> list[Requirement]:
    alike: dict[tuple[int, Kind, float], list[int]] = {}
    for row, need in enumerate(routes.needs):
        if need.max_delay_s is not None:
            alike.setdefault((int(group[row]), "delay", need.max_delay_s), []).append(row)
        if (most := _most_loss(need)) is not None:
            alike.setdefault((int(group[row]), "loss", most), []).append(row)
    weight = np.array([need.weight for need in routes.needs])
    return [
        Requirement(
            category=number,
            kind=kind,
            bound=bound,
            weight=float(weight[rows].mean()),
            rows=np.array(rows),
            together=False,
        )
        for (number, kind, bound), rows in sorted(alike.items())
    ]


def _most_loss(need: Need) -> float | None:
    """What of its messages a subscription may lose: by max_loss or min_share, if it says."""
    if need.max_loss is None and need.min_share == 0:
        return None
    return 1 - max(need.min_share, 0.0 if need.max_loss is None else 1 - need.max_loss)


def _weights(routes: Routes, categories: tuple[str, ...], group: Ints) -> Floats:
    weight = np.array([need.weight for need in routes.needs])
    mean = np.bincount(group, weight) / np.bincount(group)
    stated = [routes.scenario.categories.get(name) for name in categories]
    return np.array([mean[i] if one is None or one.weight is None else one.weight for i, one in enumerate(stated)])


def _most_drop(routes: Routes, group: Ints, count: int, bounds: tuple[Requirement, ...]) -> Floats:
    """The drop rate at which the first bound on loss of each category is just kept; what links lose counts too."""
    gain = 1 - np.array([lane.link.loss for lane in routes.lanes])[routes.subscription_lane]
    reach = upstream(routes).reach(routes) * gain
    due_hz = sum_by(routes.claim_subscription, routes.published_hz[routes.claim_stream], len(reach))
    most = np.full(count, np.nan)
    for one in bounds:
        if one.kind == "loss":
            share = due_hz[one.rows] / max(float(due_hz[one.rows].sum()), 1e-300)
            arrives = float((reach[one.rows] * share).sum() if one.together else reach[one.rows].min())
            drop = 0.0 if arrives <= 0 else max(0.0, 1 - (1 - one.bound) / arrives)
            most[one.category] = np.fmin(round(drop, 12), most[one.category])
    most[group[[row for row, need in enumerate(routes.needs) if need.tolerance is not None]]] = 0.0
    return most


def _subscriptions(count: int) -> str:
    return "1 subscription" if count == 1 else f"each of {count} subscriptions"
