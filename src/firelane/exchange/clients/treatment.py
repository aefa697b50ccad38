"""What a plan says of each live subscription: its flow, its class, its drop rate, its precision."""

from __future__ import annotations

from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan

Treated = tuple[int | None, int, float, float | None]  # flow, class, drop rate, delta


class Treatment:
    """A plan, looked up by subscriber and filter. What it does not name is in the lowest class, undropped."""

    def __init__(self, scenario: Scenario, plan: Plan | None) -> None:
        self.plan = plan
        self.lowest = scenario.priorities - 1
        self._named: dict[tuple[str, str], Treated] = {}
        if plan is not None:
            flows = plan.subscription_flow
            columns = (plan.flow_id[flows], plan.flow_priority[flows], plan.flow_drop_rate[flows])
            treated = zip(*(column.tolist() for column in columns), plan.delta, strict=True)
            self._named = dict(zip(zip(plan.subscriber, plan.filter, strict=True), treated, strict=True))

    def of(self, subscriber: str, topic_filter: str) -> Treated:
        """How a subscription is to be treated."""
        return self._named.get((subscriber, topic_filter), (None, self.lowest, 0.0, None))
