"""The best plan by branch and bound over drop levels, with all orders of the categories inside the bound.

A box says for each category from which to which of its levels it is dropped. The box whose bound is the lowest is
divided next; what cannot be better than the best plan known is left out. When nothing is left, that plan is proved to
be the best.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field
from itertools import count, permutations

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.plan.bound import Box, best_order, bounds_of, is_exact, stream_groups
from firelane.plan.cost import MILLION, MOST_TERM, NO_BOUND, Cost, least
from firelane.plan.problem import Found, Problem
from firelane.plan.sets import set_costs

FEW_CATEGORIES = 7

_Levels = tuple[int, ...]


@dataclass(order=True, slots=True)
class _Node:
    bound: Cost
    number: int
    low: _Levels = field(compare=False)
    high: _Levels = field(compare=False)
    rank: Ints = field(compare=False)


class Search:
    """Branch and bound, step by step, so that it can be stopped at any time."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        streams = problem.plans.streams
        self._member, self._asked = stream_groups(streams), bounds_of(problem.wanted)
        self.holds = is_exact(streams)
        self._numbers = count()
        categories = len(problem.levels)
        nothing = np.zeros(categories, np.int64), np.zeros(categories)
        self.best: tuple[Cost, Ints, Floats] = (problem.cost(*nothing), *nothing)
        self._unsettled: list[Cost] = []  # of single plans whose bound is below what they cost
        self._open: list[_Node] = []
        self._add((0,) * categories, tuple(len(one) - 1 for one in problem.levels))

    def run(self, seconds: float, *, most_violated: int | None = None) -> Found:
        """Go on until it is proved, the time is up, or every plan is known to miss more bounds than this."""
        end = time.monotonic() + seconds
        enough = self.best[0].violated if most_violated is None else most_violated
        while self._open and self._open[0].bound < self.best[0] and time.monotonic() < end:
            if self._open[0].bound.violated > enough:
                break
            self._divide(heapq.heappop(self._open))
        cost, rank, drop_rate = self.best
        bound = min([cost, *self._unsettled, *(node.bound for node in self._open[:1])]) if self.holds else NO_BOUND
        proven = self.holds and self._close(bound, cost)
        return Found(rank=rank, drop_rate=drop_rate, cost=cost, lower_bound=cost if proven else bound, proven=proven)

    def _divide(self, node: _Node) -> None:
        wide = [one for one, (low, high) in enumerate(zip(node.low, node.high, strict=True)) if low < high]
        if not wide:
            if not self._close(node.bound, self._tried(node.rank, node.high)):
                self._settle(node)
            return
        one, last = self._cut(node, wide)
        self._add(node.low, (*node.high[:one], last, *node.high[one + 1 :]))
        self._add((*node.low[:one], last + 1, *node.low[one + 1 :]), node.high)

    def _settle(self, node: _Node) -> None:
        """On a saturated link the bound may be below what any order costs: try them all, if they are not too many."""
        categories = len(node.high)
        if categories > FEW_CATEGORIES:
            self._unsettled.append(node.bound)
            return
        rank = np.array(list(permutations(range(categories))), np.int64)
        rows = self.problem.costs(rank, np.tile(self._rates(node.high), (len(rank), 1)))
        self._tried(rank[least(rows)], node.high)

    def _cut(self, node: _Node, wide: list[int]) -> tuple[int, int]:
        """The category to divide by and the last level of its lower part: first where it begins to miss its own bound
        on loss, then at the top, where a plan that is not late has its drops."""
        for one in wide:
            limit = self.problem.wanted.most_drop[one]
            inside = [
                level for level in range(node.low[one], node.high[one]) if self._level(one, level) <= limit + 1e-12
            ]
            if inside and not np.isnan(limit) and self._level(one, node.high[one]) > limit + 1e-12:
                return one, inside[-1]
        one = max(wide, key=lambda c: float(self.problem.wanted.weight[c] * self._level(c, node.high[c])))
        return one, node.high[one] - 1

    def _add(self, low: _Levels, high: _Levels) -> None:
        box = Box(least=self._rates(low), most=self._rates(high))
        violated, late = set_costs(self.problem.plans.streams, self._member, self._asked, box)
        bad, slow, order = best_order(violated, late)
        dropped = (
            np.rint(np.minimum(self.problem.wanted.weight * box.least * MILLION, MOST_TERM)).astype(np.int64).sum()
        )
        bound = Cost(violated=int(bad), late_millionths=int(slow), dropped_millionths=int(dropped))
        rank = np.argsort(order)
        if bound < self.best[0]:
            self._tried(rank, high)
            self._tried(rank, low)
            heapq.heappush(self._open, _Node(bound=bound, number=next(self._numbers), low=low, high=high, rank=rank))

    def _tried(self, rank: Ints, levels: _Levels) -> Cost:
        drop_rate = self._rates(levels)
        cost = self.problem.cost(rank, drop_rate)
        if cost < self.best[0]:
            self.best = cost, rank, drop_rate
        return cost

    def _rates(self, levels: _Levels) -> Floats:
        return np.array([self._level(one, level) for one, level in enumerate(levels)])

    def _level(self, category: int, level: int) -> float:
        return self.problem.levels[category][level]

    def _close(self, bound: Cost, cost: Cost) -> bool:
        """Are they the same but for rounding?"""
        gap = cost.late_millionths - bound.late_millionths
        if bound.violated == cost.violated and 0 < gap <= len(self.problem.wanted.bounds):
            return True
        return bound >= cost


def branch_and_bound(problem: Problem, *, seconds: float = 20.0, most_violated: int | None = None) -> Found:
    """The best plan, with a lower bound on the cost of all; proved, unless the time is up before.

    With `most_violated` it gives up as soon as it is certain that every plan misses more bounds than that.
    """
    return Search(problem).run(seconds, most_violated=most_violated)
