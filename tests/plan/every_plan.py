"""Every plan one after the other, by `predict` itself and plain loops: what is best is known beyond doubt."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np

from firelane.metrics import Metrics
from firelane.plan.requirements import Requirements
from firelane.predict import predict
from firelane.scenario.plan import make_plan


def measured(wanted: Requirements, metrics: Metrics):
    """What each bound measures, from the table of one prediction."""
    delay, loss = metrics.column("delay_mean_s"), 1 - metrics.column("success")
    delivered, routes = metrics.column("delivered_hz"), wanted.routes
    due = np.bincount(routes.claim_subscription, routes.topic_rate_hz[routes.stream_topic[routes.claim_stream]])
    unknown = np.isnan(delay) & ~metrics.column("stable")  # else another filter of the subscriber carries everything
    delay = np.nan_to_num(delay)
    for one in wanted.bounds:
        rows = one.rows
        if one.kind == "loss":
            yield (due * loss)[rows].sum() / due[rows].sum() if one.together else loss[rows].max()
        elif unknown[rows].any():
            yield np.inf
        elif one.together:
            yield (delay * delivered)[rows].sum() / max(delivered[rows].sum(), 1e-300)
        else:
            yield delay[rows].max()


def cost_of(wanted: Requirements, rank, drop_rate) -> tuple[int, float, float]:
    """The three parts of the cost, as the words say it."""
    plan = make_plan(
        wanted.routes,
        subscription_flow=np.arange(len(wanted.group)),
        flow_priority=np.array(rank)[wanted.group],
        flow_drop_rate=np.array(drop_rate)[wanted.group],
        made_by="brute force",
    )
    missed, late = 0, 0.0
    for one, value in zip(wanted.bounds, measured(wanted, predict(wanted.routes, plan)), strict=True):
        missed += value > one.bound * (1 + 1e-9) + 1e-15
        if one.kind != "loss":
            late += one.weight * min(value / one.bound, 1000.0)
    return missed, late, float(sum(wanted.weight * np.array(drop_rate)))


def every_plan(wanted: Requirements, levels):
    """(cost, rank, drop rates) of doing nothing and of every order with every combination of levels."""
    count = len(levels)
    yield cost_of(wanted, [0] * count, [0.0] * count), (0,) * count, (0.0,) * count
    for order in permutations(range(count)):
        rank = [order.index(one) for one in range(count)]
        for drops in product(*levels):
            yield cost_of(wanted, rank, drops), tuple(rank), drops


def cheapest(wanted: Requirements, levels) -> tuple[int, float, float]:
    """The least cost in the order in which its parts count; what is late by less than a millionth is as late."""
    found = [cost for cost, _, _ in every_plan(wanted, levels)]
    missed = min(cost[0] for cost in found)
    late = min(cost[1] for cost in found if cost[0] == missed)
    dropped = min(cost[2] for cost in found if cost[0] == missed and cost[1] <= late + 3e-6)
    return missed, late, dropped
