"""Drops no more than the best plan needs to, if delays may be a little longer for it.

By the cost everything is dropped as far as it bears, if that makes anything faster at all. With something to spare,
drop rates are lowered again, of heavy categories first, as long as no further bound is missed, no delay gets longer by
more than a part of its bound, and links keep their headroom.
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Floats, sum_by
from firelane.plan.cost import Cost, costs
from firelane.plan.knowledge import Knowledge
from firelane.plan.problem import Found
from firelane.plan.requirements import Requirements
from firelane.scenario.upstream import upstream

STEPS = 20  # that a drop rate is lowered by
ROUNDING = 1e-9


def spared(
    wanted: Requirements, known: Knowledge, found: Found, spare: float, levels: list[list[float]] | None
) -> Found:
    """The same order with lower drop rates, of these levels if there are any; `spare` is a part of bounds on delay."""
    drop_rate = found.drop_rate.copy()
    best = known.values(found.rank, drop_rate)
    assert best is not None
    longest = np.where(np.isnan(best), np.inf, best + spare * wanted.limits)
    on_delay = np.array([one.kind != "loss" for one in wanted.bounds], np.bool_)
    r = wanted.routes
    work = upstream(r).stream_rate_hz * r.mean_service_s()

    def loads(rates: Floats) -> Floats:
        _, _, dropped = r.owners(found.rank[wanted.group], rates[wanted.group])
        return sum_by(r.stream_lane, work * (1 - dropped), len(r.lanes))

    most_load = np.maximum(1 - r.scenario.headroom, loads(drop_rate)) * (1 + ROUNDING)

    def good(rates: Floats) -> bool:
        values = known.values(found.rank, rates)
        if values is None or wanted.violated(values[None, :]).sum() > found.cost.violated:
            return False
        late = (np.isnan(values) & ~np.isnan(best)) | (values > longest * (1 + ROUNDING))
        return not (late & on_delay).any() and bool((loads(rates) <= most_load).all())

    for one in np.argsort(-wanted.weight, kind="stable").tolist():
        rates = np.linspace(0, drop_rate[one], STEPS, endpoint=False).tolist() if levels is None else levels[one]
        for rate in sorted(rate for rate in rates if rate < drop_rate[one]):
            less = drop_rate.copy()
            less[one] = rate
            if good(less):
                drop_rate = less
                break
    values = known.values(found.rank, drop_rate)
    assert values is not None
    cost = Cost.of(costs(wanted, values[None, :], drop_rate[None, :])[0])
    proven = found.proven and cost == found.cost
    return Found(rank=found.rank, drop_rate=drop_rate, cost=cost, lower_bound=found.lower_bound, proven=proven)
