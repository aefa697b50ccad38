"""What is live -> a Plan that can be applied: `tune` for utilities or `plan` for requirements, and what only live
subscriptions have.

* A client's cap (`best_class`) lowers the flow that its subscription is in.
* A subscription without traffic gets the lowest class and is not dropped.
* Least shares that do not fit are lowered (`relax`), and the plan says so.
* Twins (several clients that are one subscriber) get one row: the best class and the highest drop rate of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firelane.arrays import Flags, Floats, Ints, optional, sum_by
from firelane.control.learn import learnt, shown, single
from firelane.control.network import Network, Networks, bounded_routes
from firelane.errors import FirelaneError, InfeasibleError
from firelane.exchange.measuring.observed import Observed
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan
from firelane.scenario.routes import Routes

PLANNING_S = 2.0
NEAR_ENOUGH = 0.1  # beyond what was swept: rates that are measured are restless


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """A plan, what it was made for, and what it means for every subscription there."""

    plan: Plan
    network: Network
    priority: Ints
    drop_rate: Floats  # what is not sent of it on purpose, also by less precision
    relaxed: tuple[str, ...]  # links whose least shares did not fit

    @property
    def routes(self) -> Routes:
        """The routes that it was made for."""
        return self.network.routes


def decide(
    observed: Observed,
    scenario: Scenario | None = None,
    *,
    listened_s: float = 0.0,
    version: int = 1,
    networks: Networks | None = None,
) -> Decision:
    """The best plan for what is live. It takes tens of milliseconds for ten thousand subscriptions: use a thread.

    The scenario's settings say how. `networks` remembers what was live before, which may save half of it.
    """
    network = (networks or Networks()).of(observed, scenario, listened_s=listened_s)
    routes, first = network.routes, network.first
    if scenario is None or scenario.exchange.control.planner == "tune":
        plan, links = _tuned(network)
    elif scenario.exchange.control.data is None:
        plan, links = _planned(routes, spare=scenario.exchange.control.spare), ()
    else:
        plan, links = _by_data(bounded_routes(learnt(observed, scenario, listened_s=listened_s)), scenario), ()
    flow = plan.subscription_flow
    priority, drop_rate = plan.flow_priority.copy(), plan.flow_drop_rate.copy()
    np.minimum.at(priority, flow[first], plan.flow_priority[flow])
    np.maximum.at(drop_rate, flow[first], plan.flow_drop_rate[flow])
    lowest = routes.scenario.priorities - 1
    idle = sum_by(flow, _served(routes), len(priority)) == 0
    priority[idle], drop_rate[idle] = lowest, 0.0
    np.maximum.at(priority, flow[first], _caps(network, lowest)[first])
    delta = _deltas(plan, network, idle)
    widened = int((delta > routes.needs.tolerance).sum())
    final = replace(
        plan,
        version=version,
        scenario_digest="",
        flow_priority=priority,
        flow_drop_rate=drop_rate,
        delta=optional(delta),
        promised=plan.promised | ({"widened": widened} if widened else {}),
    )
    return Decision(
        plan=_without_twins(final, first),
        network=network,
        priority=priority[flow[first]],
        drop_rate=final.withheld(routes)[first],
        relaxed=links,
    )


def _deltas(plan: Plan, network: Network, idle: Flags) -> Floats:
    """The precision of each subscription: of twins the widest, and as asked for where there is no traffic; or NaN."""
    first, asked = network.first, network.routes.needs.tolerance
    delta = np.fmax(np.array(plan.delta, np.float64), asked)
    delta = np.where(idle[plan.subscription_flow], asked, delta)
    widest = delta.copy()
    np.fmax.at(widest, first, delta)
    return widest[first]


def _caps(network: Network, lowest: int) -> Ints:
    """The best class that each subscription may have; of twins the mildest, as the exchange holds each to its own."""
    own = np.minimum(network.best_class, lowest)
    caps = own.copy()
    np.minimum.at(caps, network.first, own)
    return caps


def _tuned(network: Network) -> tuple[Plan, tuple[str, ...]]:
    """The plan of `tune`, with least shares as they are or, if need be, lowered; the links where they were.

    `tune` needs what takes long to load, and an exchange without limits never plans.
    """
    from firelane.control.relax import relaxed
    from firelane.tune import tune

    try:
        return tune(network.routes), ()
    except InfeasibleError:
        waiting = np.array([one.qos > 0 or one.need.tolerance is not None for one in network.rows], np.bool_)
        fitting = relaxed(network.routes, waiting)
        plan = tune(fitting.routes)
    droppable = sum_by(plan.subscription_flow, ~waiting, len(plan.flow_id)) > 0
    needs, widest = network.routes.needs, network.routes.widest.tolist()
    return replace(
        plan,
        flow_drop_rate=np.where(droppable, plan.flow_drop_rate, 0.0),
        # Who has still a tolerance there gives way as the plan says; who has not waits, and with as little as it can.
        delta=[
            one if kept.tolerance is not None or need.tolerance is None else need.tolerance * most
            for one, kept, need, most in zip(plan.delta, fitting.routes.needs, needs, widest, strict=True)
        ],
        why=fitting.why + plan.why,
    ), fitting.links


def _planned(routes: Routes, **by: Any) -> Plan:
    """The plan that misses the fewest bounds, as far as can be found out soon."""
    from firelane.plan import plan

    if not _served(routes).any():
        raise FirelaneError("nothing is published that anybody wants, so there is nothing to plan")
    return plan(routes, seconds=PLANNING_S, **by).to_plan()


def _by_data(live: Routes, scenario: Scenario) -> Plan:
    """The same by the points of a data set that was made with the scenario, at about these rates and on this link."""
    from firelane.plan.data import nominal

    usual_hz = sum(rate for one in scenario.publishers.values() for rate in one.publishes.values())
    now_hz = sum(rate for name, rate in zip(live.topics, live.topic_rate_hz, strict=True) if name in scenario.topics)
    if not usual_hz:
        raise FirelaneError(
            "exchange.control.data: the scenario does not say who publishes what, so no data set fits it"
        )
    known = {one.link.bandwidth_bps for one in live.lanes} - {None}
    now = replace(
        nominal(scenario),
        rate_factor=now_hz / usual_hz,
        link_bps=known.pop() if len(known) == 1 else None,
        slack=NEAR_ENOUGH,
    )
    settings = scenario.exchange.control
    return _planned(live, spare=settings.spare, data=settings.data, conditions=now)


def _served(routes: Routes) -> Flags:
    """Which subscriptions have any traffic."""
    rate_hz = routes.published_hz[routes.claim_stream]
    return sum_by(routes.claim_subscription, rate_hz, len(routes.filters)) > 0


def _without_twins(plan: Plan, first: Ints) -> Plan:
    kept = np.flatnonzero(first == np.arange(len(first)))
    if len(kept) == len(first):
        return plan
    flows, position = np.unique(plan.subscription_flow[kept], return_inverse=True)
    rows = kept.tolist()
    loads = (
        {"loads": {shown(name): load for name, load in plan.promised["loads"].items()}}
        if "loads" in plan.promised
        else {}
    )
    return replace(
        plan,
        flow_id=plan.flow_id[flows],
        flow_subscriber=[single(plan.flow_subscriber[i]) for i in flows.tolist()],
        flow_priority=plan.flow_priority[flows],
        flow_drop_rate=plan.flow_drop_rate[flows],
        subscriber=[plan.subscriber[i] for i in rows],
        filter=[plan.filter[i] for i in rows],
        subscription_flow=position,
        delta=[plan.delta[i] for i in rows],
        promised=plan.promised | loads,
        why=tuple(shown(line) for line in plan.why),
    )
