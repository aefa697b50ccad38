"""Scenario -> Plan: flows, then classes, then drop rates, then a check that every link can carry them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.errors import FirelaneError, InfeasibleError
from firelane.predict.queues import served_share
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan, make_plan
from firelane.scenario.routes import Routes, some_routes
from firelane.scenario.utility import STEP
from firelane.tune.bound import upper_bound
from firelane.tune.drops import DROP_METHODS, policy_drop_rates
from firelane.tune.fit import fitted, lane_load, overlapping
from firelane.tune.flows import Demand, Flows, demand, group
from firelane.tune.optimise import optimal_shares
from firelane.tune.precision import deltas, without_tolerant
from firelane.tune.priorities import (
    PRIORITY_METHODS,
    dropped_last,
    link_classes,
    subscriber_classes,
    subscription_places,
)
from firelane.tune.why import Story, tell

# Least shares may exceed the allowed load by this much (relative): rounding, not a conflict.
ROUNDING = 1e-9


def tune(
    scenario: Scenario | Routes,
    *,
    priorities: str = "delay-adjusted",
    drops: str = "optimised",
    seed: int = 0,
    headroom: float | None = None,
) -> Plan:
    """A plan for the scenario: who shares a flow, which class it gets and how much of it is dropped.

    `seed` matters to random priorities only; `headroom` replaces the scenario's. InfeasibleError if some
    link cannot carry what min_share, max_loss and tolerance demand.
    """
    routes = some_routes(scenario)
    _check_one_of("priorities", priorities, PRIORITY_METHODS)
    _check_one_of("drops", drops, DROP_METHODS)
    headroom = routes.scenario.headroom if headroom is None else headroom
    if not 0 <= headroom < 1:
        raise FirelaneError(f"headroom: {headroom} is out of range; write e.g. 10 % (from 0 to less than 1)")
    return _Decision(routes, demand(routes), priorities, drops, seed, 1.0 - headroom).plan()


def _check_one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise FirelaneError(f'{what}: "{given}" is not a method; write one of {", ".join(known)}')


@dataclass(slots=True)
class _Decision:
    routes: Routes
    wanted: Demand
    priorities: str
    drops: str
    seed: int
    allowed: float

    def plan(self) -> Plan:
        r, classes = self.routes, self.routes.scenario.priorities
        flows = group(r, self.wanted, subscription_places(r, self.wanted, self.priorities, self.seed))
        priority = subscriber_classes(flows, self.priorities, classes)
        before = lane_load(r, self.wanted, flows, np.ones(len(flows.lane)))
        drop_rate, flat, lowered, method = self._drop_rates(flows, priority)
        if self.priorities == "delay-adjusted":
            priority = link_classes(flows, self.wanted.curves.weight, drop_rate, classes)
        priority = dropped_last(priority, drop_rate, classes)
        after = lane_load(r, self.wanted, flows, 1.0 - drop_rate)
        story = Story(
            priorities=self.priorities,
            drops=method,
            asked=self.drops,
            allowed=self.allowed,
            before=before,
            after=after,
            flat=flat,
            lowered=lowered,
        )
        return make_plan(
            r,
            subscription_flow=flows.subscription_flow,
            flow_priority=priority,
            flow_drop_rate=without_tolerant(drop_rate, self.wanted, flows),
            made_by=f"tune {self.priorities}+{self.drops}",
            promised=self._promised(flows, priority, drop_rate, after),
            why=tell(story, r, self.wanted, flows, drop_rate),
            delta=deltas(r, self.wanted, flows, drop_rate),
        )

    def _drop_rates(self, flows: Flows, priority: Ints) -> tuple[Floats, Flags, Flags, str]:
        """The drop rates, which links fell back to flat ones, which were lowered to fit, and the method used."""
        nowhere = np.zeros(flows.lanes, np.bool_)
        if self.drops == "none":
            return np.zeros(len(flows.lane)), nowhere, nowhere, self.drops
        self._check_feasible(flows)
        methods = [self.drops]
        if self.drops == "optimised" and not self._optimum_is_certain():
            methods += ["exponential", "linear", "flat"]
        tried = [(*self._by_method(method, flows, priority), method) for method in methods]
        return max(tried, key=lambda one: self._utility(flows, priority, one[0]))  # the first, if several are equal

    def _optimum_is_certain(self) -> bool:
        """Streams that several filters claim, and steps, are outside what the optimiser's curves say."""
        return not overlapping(self.routes) and not (self.wanted.curves.kind == STEP).any()

    def _by_method(self, method: str, flows: Flows, priority: Ints) -> tuple[Floats, Flags, Flags]:
        flat = np.zeros(flows.lanes, np.bool_)
        if method == "optimised":
            drop_rate = 1.0 - self._optimum(flows)
        else:
            drop_rate, unsolved = policy_drop_rates(method, flows, priority, self.allowed)
            flat = unsolved if method != "flat" else flat
        drop_rate, lowered = fitted(self.routes, self.wanted, flows, drop_rate, self.allowed)
        return drop_rate, flat, lowered

    def _optimum(self, flows: Flows) -> Floats:
        """The best shares; a subscription to what nobody publishes asks for nothing."""
        r, wanted = self.routes, self.wanted
        published = sum_by(r.claim_subscription, wanted.published_hz[r.claim_stream], len(r.filters)) > 0
        return optimal_shares(
            replace(wanted.curves, weight=np.where(published, wanted.curves.weight, 0.0)),
            flows.subscription_flow,
            lane=flows.lane,
            load=flows.load,
            least=flows.least_share,
            gain=flows.gain,
            allowed=self.allowed,
        )

    def _check_feasible(self, flows: Flows) -> None:
        needed = lane_load(self.routes, self.wanted, flows, flows.least_share)
        if len(needed) and needed.max() > self.allowed * (1 + ROUNDING):
            lane = self.routes.lanes[int(needed.argmax())]
            raise InfeasibleError(lane.name, float(needed.max()), self.allowed)

    def _utility(self, flows: Flows, priority: Ints, drop_rate: Floats) -> float:
        """Utility from the shares; a link with more than it can carry serves its classes in order."""
        r, wanted = self.routes, self.wanted
        flow = flows.subscription_flow
        _, klass, dropped = r.owners(priority[flow], drop_rate[flow])
        sent_hz = wanted.stream_rate_hz * (1.0 - dropped)
        served = served_share(r.class_load(sent_hz, klass))[r.stream_lane, klass]
        delivered_hz = sent_hz * served * wanted.lane_gain[r.stream_lane]
        success = r.claimed_share(delivered_hz, wanted.published_hz)
        return float(wanted.curves.value(success).sum())

    def _promised(self, flows: Flows, priority: Ints, drop_rate: Floats, load: Floats) -> dict[str, Any]:
        r, wanted = self.routes, self.wanted
        utility = self._utility(flows, priority, drop_rate)
        bound, most = upper_bound(r, headroom=1.0 - self.allowed, wanted=wanted), float(wanted.curves.most.sum())
        return {
            "utility": utility,
            "utility_rate": utility / most if most > 0 else 1.0,
            "upper_bound": bound,
            "upper_bound_rate": bound / most if most > 0 else 1.0,
            "loads": {lane.name: one for lane, one in zip(r.lanes, load.tolist(), strict=True)},
        }
