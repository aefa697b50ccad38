"""What a sweep varies: rates, bandwidths, the order of categories by priority, and how much of each is dropped.

A subscription without a category is in one called none. The categories of an order have a class each, the first the
highest. A drop level is the drop rate of a category. Rates are those of all publishers times a factor; a bandwidth is
that of every link that subscribers are on and that has one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import factorial, prod
from typing import Any

from firelane.errors import FirelaneError
from firelane.scenario.model import Scenario
from firelane.scenario.routes import Routes, some_routes
from firelane.units import BANDWIDTH, SHARE, WEIGHT

NO_CATEGORY = "none"
ALL_ORDERS = "all"
MOST_TRIALS = 10_000_000
MOST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What is varied; `link_bps` is None where the scenario's own bandwidths differ from link to link."""

    link_bps: float | None
    rate_factor: float
    order: tuple[str, ...]
    drops: tuple[tuple[str, float], ...]  # by category, in the order of their names

    def columns(self) -> dict[str, Any]:
        """As it is in the table."""
        return {
            "link_bps": self.link_bps,
            "rate_factor": self.rate_factor,
            "order": ">".join(self.order),
            "drops": json.dumps(dict(self.drops)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All that is varied: every combination is a point, simulated with each of the seeds."""

    rate_factors: tuple[float, ...]
    links_bps: tuple[float | None, ...]
    orders: tuple[tuple[str, ...], ...]
    drops: tuple[tuple[float, ...], ...]  # levels, for each category in the order of their names
    seeds: range

    def points(self) -> Iterator[Point]:
        """Every combination, in the same order each time."""
        categories = sorted(self.orders[0])
        for rate, link, order, levels in product(self.rate_factors, self.links_bps, self.orders, product(*self.drops)):
            drops = tuple(zip(categories, levels, strict=True))
            yield Point(link_bps=link, rate_factor=rate, order=order, drops=drops)

    def __len__(self) -> int:
        return prod(map(len, (self.rate_factors, self.links_bps, self.orders, *self.drops)))

    @property
    def trials(self) -> int:
        """How many simulations and predictions that makes."""
        return len(self) * (len(self.seeds) + 1)


def make_grid(
    scenario: Scenario,
    *,
    rates: str = "1",
    bandwidths: str | None = None,
    orders: str = ALL_ORDERS,
    drops: Iterable[str] = (),
    seeds: int = 1,
    seed: int = 0,
) -> Grid:
    """The grid that these texts describe, lists with commas; FirelaneError says which of them is wrong."""
    names = sorted(set(categories_of(some_routes(scenario))))
    if not names:
        raise FirelaneError("nobody subscribes to anything in this scenario; add subscribers")
    if len(names) > scenario.priorities:
        raise FirelaneError(
            f"{len(names)} categories need as many classes; raise priorities, now {scenario.priorities}"
        )
    if orders == ALL_ORDERS and factorial(len(names)) > MOST_TRIALS:
        raise FirelaneError(f"--orders: {len(names)} categories have too many orders; name those to try")
    grid = Grid(
        rate_factors=_numbers("--rates", _factor, rates),
        links_bps=(_own_bps(scenario),)
        if bandwidths is None
        else _numbers("--bandwidths", BANDWIDTH.parse, bandwidths),
        orders=tuple(permutations(names)) if orders == ALL_ORDERS else _orders(orders, names),
        drops=_levels(drops, names),
        seeds=range(seed, seed + seeds),
    )
    if bandwidths is not None and not _bottlenecks(scenario):
        raise FirelaneError("--bandwidths: no link of this scenario has a bandwidth that could be varied")
    if (trials := len(grid) * (seeds + 1)) > MOST_TRIALS:
        raise FirelaneError(
            f"{trials:,} simulations and predictions are more than {MOST_TRIALS:,}; vary less at a time"
        )
    if seed + seeds - 1 > MOST_SEED:
        raise FirelaneError(f"--seed: seeds go up to {MOST_SEED}; begin with a lower one")
    return grid


def categories_of(network: Routes) -> list[str]:
    """The category of every subscription."""
    return [need.category or NO_CATEGORY for need in network.needs]


def scenario_at(scenario: Scenario, point: Point) -> Scenario:
    """The scenario with its rates and bandwidths at a point."""
    publishers = {
        name: replace(one, publishes={topic: hz * point.rate_factor for topic, hz in one.publishes.items()})
        for name, one in scenario.publishers.items()
    }
    links = dict(scenario.links)
    if point.link_bps is not None:
        links |= {name: replace(links[name], bandwidth_bps=point.link_bps) for name in _bottlenecks(scenario)}
    return replace(scenario, publishers=publishers, links=links)


def _bottlenecks(scenario: Scenario) -> list[str]:
    """The links that subscribers are on and that have a bandwidth."""
    used = dict.fromkeys(subscriber.link for subscriber in scenario.subscribers.values())
    return [name for name in used if scenario.link(name).bandwidth_bps is not None]


def _own_bps(scenario: Scenario) -> float | None:
    bandwidths = {scenario.link(name).bandwidth_bps for name in _bottlenecks(scenario)}
    return bandwidths.pop() if len(bandwidths) == 1 else None


def _numbers(option: str, parse: Callable[[str], float], text: str) -> tuple[float, ...]:
    try:
        return tuple(dict.fromkeys(parse(one.strip()) for one in text.split(",")))
    except ValueError as problem:
        raise FirelaneError(f"{option}: {problem}") from None


def _factor(text: str) -> float:
    factor = WEIGHT.parse(text)
    if factor == 0:
        raise ValueError("with a factor of 0 nothing is published; write e.g. 0.5,0.8,1")
    return factor


def _orders(text: str, names: list[str]) -> tuple[tuple[str, ...], ...]:
    orders = tuple(dict.fromkeys(tuple(part.strip() for part in one.split(">")) for one in text.split(",")))
    wrong = next((order for order in orders if sorted(order) != names), None)
    if wrong is not None:
        example = ">".join(names)
        raise FirelaneError(f'--orders: {">".join(wrong)} does not name every category once; write e.g. "{example}"')
    return orders


def _levels(texts: Iterable[str], names: list[str]) -> tuple[tuple[float, ...], ...]:
    """The drop levels of every category, from `0,0.2` for all of them or `analytics=0,0.2` for one."""
    levels: dict[str, tuple[float, ...]] = dict.fromkeys(names, (0.0,))
    for text in texts:
        category, equals, numbers = text.rpartition("=")
        if equals and category.strip() not in levels:
            raise FirelaneError(f"--drops: there is no category {category.strip()}; there are {', '.join(names)}")
        chosen = [category.strip()] if equals else names
        levels |= dict.fromkeys(chosen, _numbers("--drops", SHARE.parse, numbers))
    return tuple(levels[name] for name in names)
