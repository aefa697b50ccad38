"""What would be: a plan that somebody brings, what a plan would do, and how it differs from the one in force."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from firelane.control.decision import Decision
from firelane.control.learn import TWIN, single
from firelane.control.network import Network
from firelane.metrics import Metrics
from firelane.scenario.plan import Plan
from firelane.scenario.routes import Routes

SAME_DROP_RATE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What another plan does to one subscription."""

    subscriber: str
    filter: str
    priority_before: int
    priority: int
    drop_rate_before: float
    drop_rate: float


def given(plan: Plan, network: Network) -> Decision:
    """A plan that somebody made, as it would be for what is live."""
    full = with_twins(plan, network.routes)
    priority, withheld = full.per_subscription(network.routes)[1], full.withheld(network.routes)
    return Decision(plan=plan, network=network, priority=priority, drop_rate=withheld, relaxed=())


def foreseen(network: Routes, plan: Plan | None) -> Metrics:
    """What the plan would do; without one everything is in one class."""
    from firelane.predict import predict

    return predict(network, None if plan is None else with_twins(plan, network))


def with_twins(plan: Plan, network: Routes) -> Plan:
    """The plan with rows for twins too, each like its first."""
    if not any(TWIN in name for name in network.subscribers):
        return plan
    row = {pair: number for number, pair in enumerate(zip(plan.subscriber, plan.filter, strict=True))}
    names = [network.subscribers[i] for i in network.subscription_subscriber.tolist()]
    twins = [pair for pair in zip(names, network.filters, strict=True) if TWIN in pair[0]]
    known = [(twin, row[single(twin[0]), twin[1]]) for twin in twins if (single(twin[0]), twin[1]) in row]
    like = np.array([number for _, number in known], np.int64)
    return replace(
        plan,
        subscriber=plan.subscriber + [name for (name, _), _ in known],
        filter=plan.filter + [one for (_, one), _ in known],
        subscription_flow=np.append(plan.subscription_flow, plan.subscription_flow[like]),
        delta=plan.delta + [plan.delta[number] for number in like.tolist()],
    )


def in_force(plan: Plan | None, network: Routes) -> Plan | None:
    """A plan as it works on what is live now: classes that there are no longer count as the lowest."""
    if plan is None:
        return None
    return replace(plan, flow_priority=np.minimum(plan.flow_priority, network.scenario.priorities - 1))


def changes(decision: Decision, before: Plan | None, most: int) -> tuple[int, list[Change]]:
    """How many subscriptions the decision would treat otherwise than the plan before, and the largest changes."""
    network = decision.routes
    if before is None:
        before = replace(decision.plan, subscriber=[], filter=[], subscription_flow=np.empty(0, np.int64), delta=[])
    before = with_twins(before, network)
    priority, drop_rate = before.per_subscription(network)[1], before.withheld(network)
    moved, dropped = decision.priority - priority, decision.drop_rate - drop_rate
    alone = decision.network.first == np.arange(len(priority))
    different = np.flatnonzero(alone & ((moved != 0) | (np.abs(dropped) > SAME_DROP_RATE)))
    order = different[np.lexsort((-np.abs(moved[different]), -np.abs(dropped[different])))][:most]
    owner = network.subscription_subscriber
    return len(different), [
        Change(
            subscriber=network.subscribers[owner[row]],
            filter=network.filters[row],
            priority_before=int(priority[row]),
            priority=int(decision.priority[row]),
            drop_rate_before=float(drop_rate[row]),
            drop_rate=float(decision.drop_rate[row]),
        )
        for row in order.tolist()
    ]
