"""Who gets which lane: subscription -> flow (Psi), flow -> priority (Phi), flow -> drop rate (Omega).

Implements: firedex, section 3.1.2.
Differs:    a subscription that a plan does not name is served in the lowest class, undropped.
Symbols:    Psi -> subscription_flow, Phi -> flow_priority, Omega -> flow_drop_rate.
Checked by: tests/scenario/test_plan.py
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints, optional
from firelane.errors import PlanError
from firelane.scenario.model import MOST_PRIORITIES, Scenario
from firelane.scenario.precision import kept_share
from firelane.scenario.routes import Routes
from firelane.scenario.save import write_whole

FORMAT = 1
MOST_BYTES = 512_000_000
LARGEST_WHOLE = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A decision, in columns: one entry per flow, one per subscription, and why."""

    version: int = 1
    scenario_digest: str = ""
    made_by: str = ""
    links: dict[str, dict[str, float]] = field(default_factory=dict)
    flow_id: Ints
    flow_subscriber: list[str]
    flow_priority: Ints
    flow_drop_rate: Floats
    subscriber: list[str]
    filter: list[str]
    subscription_flow: Ints  # a position among the flows, not an id
    delta: list[float | None]
    placement: dict[str, str] = field(default_factory=dict)
    promised: dict[str, Any] = field(default_factory=dict)
    why: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        bad = (self.flow_priority < 0) | (self.flow_priority >= MOST_PRIORITIES)
        if bad.any():
            raise PlanError(f"flows: priority {self.flow_priority[bad][0]} is not from 0 to {MOST_PRIORITIES - 1}")
        rate = self.flow_drop_rate
        if not np.all((rate >= 0) & (rate <= 1)):
            wrong = rate[~((rate >= 0) & (rate <= 1))][0]
            raise PlanError(f"flows: drop_rate {wrong} is not from 0 to 1")

    def per_subscription(self, routes: Routes) -> tuple[Ints, Ints, Floats]:
        """(flow id or -1, priority, drop rate) of every subscription of the routes, in their order."""
        found = self._rows(routes)
        flow = np.where(found >= 0, self.subscription_flow[found] if len(self.subscription_flow) else -1, -1)
        lowest = routes.scenario.priorities - 1
        ids = np.append(self.flow_id, -1)
        priority = np.append(self.flow_priority, lowest)
        drop_rate = np.append(self.flow_drop_rate, 0.0)
        if len(priority) > 1 and priority.max() > lowest:
            raise PlanError(
                f"the plan uses priority {priority.max()}, but the scenario has classes 0 to {lowest}; "
                "raise priorities or make a new plan with `firelane tune`"
            )
        dropped = np.where(routes.needs.tolerant, 0.0, drop_rate[flow])  # precision gives way instead
        return ids[flow], priority[flow], dropped

    def withheld(self, routes: Routes) -> Floats:
        """The share of each subscription's messages that is not sent on purpose: dropped, or not needed as its sensors
        are told with less precision than it asked for.
        """
        dropped = self.per_subscription(routes)[2]
        some = np.flatnonzero(routes.widest > 1.0)
        if not len(some):
            return dropped
        found = self._rows(routes)[some]
        delta = np.array([self.delta[row] if row >= 0 else None for row in found.tolist()], np.float64)
        factor = np.nan_to_num(delta / routes.needs.tolerance[some], nan=1.0, posinf=1.0)
        dropped[some] = 1.0 - kept_share(np.minimum(factor, routes.widest[some]))
        return dropped

    def _rows(self, routes: Routes) -> Ints:
        """Where each subscription of the routes is in the plan, -1 if nowhere."""
        if self.filter is routes.filters:  # it was made for these very routes, perhaps at other rates
            return np.arange(len(self.filter))
        number = {pair: i for i, pair in enumerate(zip(self.subscriber, self.filter, strict=True))}
        names = (routes.subscribers[i] for i in routes.subscription_subscriber.tolist())
        return np.array([number.get(pair, -1) for pair in zip(names, routes.filters, strict=True)], np.int64)

    def strangers(self, scenario: Scenario) -> int:
        """How many of its subscriptions the scenario does not have."""
        known = {(name, one) for name, subscriber in scenario.subscribers.items() for one in subscriber.subscribes}
        return sum(pair not in known for pair in zip(self.subscriber, self.filter, strict=True))

    def to_data(self) -> dict[str, Any]:
        """The plan as plain data, in the shape of its file."""
        flow_ids = self.flow_id.tolist()
        return {
            "format": FORMAT,
            "version": self.version,
            "scenario_digest": self.scenario_digest,
            "made_by": self.made_by,
            "links": self.links,
            "flows": [
                {"id": i, "subscriber": s, "priority": p, "drop_rate": d}
                for i, s, p, d in zip(
                    flow_ids,
                    self.flow_subscriber,
                    self.flow_priority.tolist(),
                    self.flow_drop_rate.tolist(),
                    strict=True,
                )
            ],
            "subscriptions": [
                {"subscriber": s, "filter": f, "flow": flow_ids[n], "delta": d}
                for s, f, n, d in zip(
                    self.subscriber, self.filter, self.subscription_flow.tolist(), self.delta, strict=True
                )
            ],
            "placement": self.placement,
            "promised": self.promised,
            "why": list(self.why),
        }

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, complete or not at all."""
        try:
            write_whole(path, json.dumps(self.to_data(), indent=1, allow_nan=False) + "\n")
        except OSError as problem:
            raise PlanError(f"{path}: cannot write the plan: {problem.strerror}") from None


def load_plan(path: str | Path) -> Plan:
    """Read a plan file."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise PlanError(f"{path}: more than the {MOST_BYTES / 1e6:.0f} MB a plan may have")
        text = raw.decode("utf-8-sig")
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise PlanError(f"{path}: cannot read the plan: {reason}") from None
    try:
        return plan_from_data(json.loads(text))
    except (RecursionError, ValueError) as problem:
        line = problem.lineno if isinstance(problem, json.JSONDecodeError) else 1
        raise PlanError(f"{path}: line {line}: this is not JSON; make one with -o of `firelane tune`") from None
    except PlanError as problem:
        raise PlanError(f"{path}: {problem}") from None


def plan_from_data(data: Any) -> Plan:
    """The plan in plain data; PlanError names the key that is wrong."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise PlanError(f"format: this is not a Firelane plan of format {FORMAT}; make one with -o of `firelane tune`")
    flows = _rows(data, "flows", ("id", "subscriber", "priority", "drop_rate"))
    subscriptions = _rows(data, "subscriptions", ("subscriber", "filter", "flow"))
    position = {_whole(row["id"], f"flows.{number}.id"): number for number, row in enumerate(flows)}
    if len(position) < len(flows):
        raise PlanError("flows: two flows have the same id; ids must be unique")
    for number, row in enumerate(subscriptions):
        if _whole(row["flow"], f"subscriptions.{number}.flow") not in position:
            raise PlanError(f"subscriptions.{number}.flow: there is no flow {row['flow']}; add it to flows")
    pairs = _pairs(subscriptions)
    return Plan(
        version=_whole(data.get("version", 1), "version"),
        scenario_digest=str(data.get("scenario_digest", "")),
        made_by=str(data.get("made_by", "")),
        links=_mapping(data, "links"),
        flow_id=np.array(list(position), np.int64),
        flow_subscriber=[str(row["subscriber"]) for row in flows],
        flow_priority=np.array([_whole(r["priority"], f"flows.{n}.priority") for n, r in enumerate(flows)], np.int64),
        flow_drop_rate=np.array([_share(r["drop_rate"], f"flows.{n}.drop_rate") for n, r in enumerate(flows)], float),
        subscriber=[subscriber for subscriber, _ in pairs],
        filter=[topic_filter for _, topic_filter in pairs],
        subscription_flow=np.array([position[row["flow"]] for row in subscriptions], np.int64),
        delta=[_delta(row.get("delta"), f"subscriptions.{n}.delta") for n, row in enumerate(subscriptions)],
        placement=_mapping(data, "placement"),
        promised=_mapping(data, "promised"),
        why=tuple(str(line) for line in _list(data, "why")),
    )


def _rows(data: dict[str, Any], key: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    if key not in data:
        raise PlanError(f"{key}: this key is missing; make a plan with `firelane tune -o`")
    rows = _list(data, key)
    for number, row in enumerate(rows):
        missing = [name for name in columns if not isinstance(row, dict) or name not in row]
        if missing:
            raise PlanError(f"{key}.{number}: {', '.join(missing)} missing")
    return rows


def _pairs(subscriptions: list[dict[str, Any]]) -> list[tuple[str, str]]:
    seen: dict[tuple[str, str], int] = {}
    for number, row in enumerate(subscriptions):
        pair = (str(row["subscriber"]), str(row["filter"]))
        if seen.setdefault(pair, number) != number:
            raise PlanError(f"subscriptions.{number}: {pair[0]} {pair[1]} is named twice; remove one")
    return list(seen)


def _list(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    if value is not None and not isinstance(value, list):
        raise PlanError(f"{key}: this must be a list, [...]")
    return value or []


def _mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    if value is not None and not isinstance(value, dict):
        raise PlanError(f"{key}: this must be a mapping, {{...}}")
    return value or {}


def _whole(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST_WHOLE:
        raise PlanError(f"{key}: {str(value)[:40]} is not a whole number; write e.g. 1")
    return value


def _delta(value: Any, key: str) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
    if value is not None and not number:
        raise PlanError(f"{key}: {str(value)[:40]} is not a precision; write e.g. 0.5 or null")
    return value  # type: ignore[no-any-return]


def _share(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise PlanError(f"{key}: {str(value)[:40]} is not a number from 0 to 1; write e.g. 0.25")
    return float(value)


def make_plan(
    routes: Routes,
    *,
    subscription_flow: Ints,
    flow_priority: Ints,
    flow_drop_rate: Floats,
    made_by: str,
    promised: dict[str, Any] | None = None,
    why: tuple[str, ...] = (),
    version: int = 1,
    digest: str | None = None,
    delta: list[float | None] | None = None,
) -> Plan:
    """A plan for all subscriptions of the routes, in their order; `digest` is by default the scenario's, `delta` what
    was asked for."""
    flow_owner = np.empty(len(flow_priority), np.int64)
    flow_owner[subscription_flow] = routes.subscription_subscriber
    names = routes.subscribers
    scenario: Scenario = routes.scenario
    return Plan(
        version=version,
        scenario_digest=scenario.digest() if digest is None else digest,
        made_by=made_by,
        links={
            name: {"pace_bps": link.paced_bps}
            for name, link in scenario.links.items()
            if link.bandwidth_bps is not None
        },
        flow_id=np.arange(len(flow_priority)),
        flow_subscriber=[names[i] for i in flow_owner.tolist()],
        flow_priority=flow_priority,
        flow_drop_rate=flow_drop_rate,
        subscriber=[names[i] for i in routes.subscription_subscriber.tolist()],
        filter=routes.filters,
        subscription_flow=subscription_flow,
        delta=optional(routes.needs.tolerance) if delta is None else delta,
        promised=promised or {},
        why=why,
    )


def plain_plan(routes: Routes) -> Plan:
    """The plan of a plain broker: everything in one class, nothing dropped on purpose."""
    rows = len(routes.filters)
    return make_plan(
        routes,
        digest="",  # it fits any state of the scenario
        subscription_flow=np.arange(rows),
        flow_priority=np.zeros(rows, np.int64),
        flow_drop_rate=np.zeros(rows),
        made_by="plain",
    )
