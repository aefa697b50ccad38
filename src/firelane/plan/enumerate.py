"""The best plan by looking at every one of them: exact, for small problems."""

from __future__ import annotations

from firelane.arrays import Floats, Ints
from firelane.plan.cost import Cost, least
from firelane.plan.problem import Found, Problem


def enumerate_all(problem: Problem) -> Found:
    """Try all orders and levels; of equal plans the first wins, and doing nothing is the first."""
    best: tuple[Cost, Ints, Floats] | None = None
    for rank, drop_rate in problem.candidates():
        rows = problem.costs(rank, drop_rate)
        one = least(rows)
        cost = Cost.of(rows[one])
        if best is None or cost < best[0]:
            best = cost, rank[one], drop_rate[one]
    assert best is not None
    cost, chosen_rank, chosen_drop = best
    return Found(rank=chosen_rank, drop_rate=chosen_drop, cost=cost, lower_bound=cost, proven=True)
