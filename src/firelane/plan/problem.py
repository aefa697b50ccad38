"""A planning problem: categories to rank, levels to drop them by, and what every combination leads to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, permutations, product
from math import factorial, prod

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.plan.cost import Cost, costs
from firelane.plan.requirements import Requirements
from firelane.predict.many import ManyPlans

AT_ONCE = 20_000  # plans


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Plans (rows) and what they cost; the first is to do nothing."""

    rank: Ints
    drop_rate: Floats
    costs: Ints

    def found(self, row: int) -> Found:
        """One of them as the best."""
        cost = Cost.of(self.costs[row])
        return Found(rank=self.rank[row], drop_rate=self.drop_rate[row], cost=cost, lower_bound=cost, proven=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Every order of the categories with every combination of their drop levels, and doing nothing."""

    wanted: Requirements
    plans: ManyPlans
    levels: tuple[tuple[float, ...], ...]  # of each category, rising from 0

    @property
    def size(self) -> int:
        """How many plans there are."""
        return factorial(len(self.levels)) * prod(map(len, self.levels)) + 1

    def values(self, rank: Ints, drop_rate: Floats) -> Floats:
        """What the bounds measure under these plans: rows of the class and of the drop rate of each category."""
        return self.plans.values(self.wanted.targets, rank, drop_rate)

    def costs(self, rank: Ints, drop_rate: Floats) -> Ints:
        """What these plans cost, a row of three each."""
        return costs(self.wanted, self.values(rank, drop_rate), drop_rate)

    def cost(self, rank: Ints, drop_rate: Floats) -> Cost:
        """What one plan costs."""
        return Cost.of(self.costs(rank[None, :], drop_rate[None, :])[0])

    def candidates(self) -> Iterator[tuple[Ints, Floats]]:
        """All of them in blocks, doing nothing first: one class for all, and no drops."""
        count = len(self.levels)
        yield np.zeros((1, count), np.int64), np.zeros((1, count))
        every = product(permutations(range(count)), product(*self.levels))
        while block := list(islice(every, AT_ONCE)):
            order = np.array([one for one, _ in block], np.int64)
            yield np.argsort(order, axis=1), np.array([one for _, one in block])

    def table(self) -> Table:
        """All of them at once."""
        rank, drop_rate = (np.vstack(part) for part in zip(*self.candidates(), strict=True))
        return Table(rank=rank, drop_rate=drop_rate, costs=self.costs(rank, drop_rate))

    def with_levels(self, levels: tuple[tuple[float, ...], ...]) -> Problem:
        """The same with other levels."""
        return replace(self, levels=levels)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """The best plan that was found, and a cost below which none can be."""

    rank: Ints  # the class of each category
    drop_rate: Floats
    cost: Cost
    lower_bound: Cost
    proven: bool

    @property
    def nothing(self) -> bool:
        """Is it to do nothing?"""
        return not self.rank.any() and not self.drop_rate.any()

    @property
    def order(self) -> list[int]:
        """The categories, the first the highest."""
        ordered: list[int] = np.argsort(self.rank, kind="stable").tolist()
        return ordered
