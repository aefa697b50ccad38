"""Scenario + Plan -> Metrics by simulation: seeded replications side by side, with standard errors."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.errors import FirelaneError
from firelane.histogram import percentiles_s
from firelane.metrics import Metrics, class_mean, link_loads, make_metrics
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan, plain_plan
from firelane.scenario.routes import Routes, routes
from firelane.simulate.replication import Outcome, replicate
from firelane.simulate.system import System, build

PERCENTILES = (0.50, 0.95, 0.99)


def simulate(
    scenario: Scenario | Routes,
    plan: Plan | None = None,
    *,
    publications: int = 1_000_000,
    replications: int = 4,
    seed: int | None = None,
    independent: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    threads: int | None = None,
) -> Metrics:
    """What the scenario does under the plan (none: one class, no drops), by simulation.

    `progress` is called with the number of publications done since the last call, from any thread.
    """
    if publications < 1 or replications < 1:
        raise FirelaneError("publications and replications must be 1 or more")
    if not isinstance(scenario, Routes):
        scenario = routes(scenario)
    plan = plan or plain_plan(scenario)
    system = build(scenario, plan, independent=independent)
    seed = secrets.randbits(32) if seed is None else seed
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:  # the compiled loops release the GIL
        outcomes = list(
            pool.map(
                lambda one: replicate(system, publications=publications, seed=one, progress=progress),
                np.random.SeedSequence(seed).spawn(replications),
            )
        )
    return _metrics(scenario, plan, system, outcomes, seed=seed)


def _metrics(routes: Routes, plan: Plan, system: System, outcomes: list[Outcome], *, seed: int) -> Metrics:
    flow, priority, drop_rate = plan.per_subscription(routes)
    owner, rows = system.stream_owner, len(routes.filters)

    def total(pick: Callable[[Outcome], Any]) -> Any:
        return sum(pick(one) for one in outcomes)

    def by_owner(per_stream: Any) -> Floats:
        return sum_by(owner, per_stream, rows)

    published = total(lambda o: o.published)[system.stream_published].astype(float)
    delivered = total(lambda o: o.tally.delivered).astype(float)
    window_s = total(lambda o: o.window_s)
    delay_sum = total(lambda o: o.tally.delay_sum)
    per_byte_s, _ = routes.service_s()
    sent_bytes = np.divide(
        total(lambda o: o.tally.busy_sum), per_byte_s, out=np.zeros(len(owner)), where=per_byte_s > 0
    )
    histogram = total(lambda o: o.tally.histogram.astype(np.int64))
    load = _offered_load(routes, system)
    stable = (np.cumsum(load, axis=1) < 1)[routes.subscription_lane, priority]
    settles = stable | ~_growing(routes, total(lambda o: o.queued) / len(outcomes))[routes.subscription_lane]
    known = settles & (by_owner(delivered) > 0)
    delay = np.divide(by_owner(delay_sum), by_owner(delivered), out=np.full(rows, np.nan), where=known)
    percentiles = np.full((rows, len(PERCENTILES)), np.nan)
    if system.per_subscription:
        percentiles[known] = percentiles_s(histogram[known], PERCENTILES)
    columns: dict[str, Any] = {
        "flow": flow,
        "priority": priority,
        "drop_rate": drop_rate,
        "stable": stable,
        "offered_hz": by_owner(published) / window_s,
        "delivered_hz": by_owner(delivered) / window_s,
        "success": routes.claimed_share(delivered, published),
        "delay_mean_s": delay,
        **{f"delay_p{round(100 * p)}_s": percentiles[:, i] for i, p in enumerate(PERCENTILES)},
        "bytes": by_owner(sent_bytes),
        "dropped_policy": by_owner(total(lambda o: o.tally.policy)),
        "dropped_overflow": by_owner(total(lambda o: o.tally.overflow)),
        "dropped_superseded": by_owner(total(lambda o: o.tally.superseded)),
        "queued": by_owner(total(lambda o: o.queued)),
    }
    events = total(lambda o: o.events)
    return make_metrics(
        routes,
        plan,
        source="simulated",
        links=link_loads(routes, load),
        columns=columns,
        window_s=window_s,
        stages=_stages(system, outcomes, priority[owner]),
        extra={
            "events": int(events),
            "events_per_s": events / total(lambda o: o.seconds),
            "replications": len(outcomes),
            "seed": seed,
        },
        class_extra=_class_extra(system, outcomes, priority, known),
        notes=() if system.per_subscription else ("so many subscriptions that percentiles are kept per class only",),
    )


def _offered_load(routes: Routes, system: System) -> Floats:
    """Offered work a second per link and class, after drops."""
    rate_hz = routes.topic_rate_hz[routes.stream_topic] * (1 - system.links.stream_drop)
    return routes.class_load(rate_hz, system.links.stream_class.astype(np.int64))


def _growing(routes: Routes, queued: Floats) -> Flags:
    """Which links have no buffer limit and end with more waiting than one message of every stream.

    On a saturated link that means a queue without end; `keep: latest` keeps even such a link's queue short.
    """
    unlimited = np.array([lane.link.buffer_messages is None for lane in routes.lanes])
    lanes = len(routes.lanes)
    return unlimited & (sum_by(routes.stream_lane, queued, lanes) > np.bincount(routes.stream_lane, minlength=lanes))


def _stages(system: System, outcomes: list[Outcome], stream_class: Ints) -> dict[str, dict[int, float]]:
    """Mean delay per class of every stage; the link's is what the others leave of the whole."""
    if not system.stages.any:
        return {}
    delivered = np.asarray(np.sum([one.tally.delivered for one in outcomes], axis=0), np.float64)
    delay_sum = np.asarray(np.sum([one.tally.delay_sum for one in outcomes], axis=0))
    total = class_mean(delay_sum / np.maximum(1, delivered), delivered, stream_class)
    stages: dict[str, dict[int, float]] = {}
    for name in ("publisher", "broker_in"):
        mean = np.mean([one.stage_topic_s[name] for one in outcomes], axis=0)
        stages[name] = class_mean(mean[system.stream_published], delivered, stream_class)
    for name in ("broker_out", "switch"):
        mean = np.mean([one.stage_stream_s[name] for one in outcomes], axis=0)
        stages[name] = class_mean(mean, delivered, stream_class)
    inside = ("broker_in", "broker_out", "switch")
    stages["link"] = {k: d - sum(stages[name].get(k, 0.0) for name in inside) for k, d in total.items()}
    stages["end_to_end"] = {k: d + stages["publisher"].get(k, 0.0) for k, d in total.items()}
    return stages


def _class_extra(system: System, outcomes: list[Outcome], priority: Ints, known: Flags) -> dict[int, dict[str, Any]]:
    """Percentiles per class, and standard errors from the spread between replications.

    Only of classes with a subscription whose delay is `known`: one that grows without end has none.
    """
    stream_class = system.links.stream_class
    row_class = priority if system.per_subscription else np.arange(system.histogram_rows)
    histogram = sum(one.tally.histogram.astype(np.int64) for one in outcomes)
    extra: dict[int, dict[str, Any]] = {}
    for klass in np.unique(priority).tolist():
        inside = stream_class == klass
        delays, shares = [], []
        for one in outcomes:
            delivered = one.tally.delivered[inside].sum()
            offered = one.published[system.stream_published[inside]].sum()
            delays.append(one.tally.delay_sum[inside].sum() / delivered if delivered else np.nan)
            shares.append(delivered / offered if offered else np.nan)
        together = np.asarray(histogram)[row_class == klass].sum(axis=0, keepdims=True)
        p50, p95, p99 = percentiles_s(together, PERCENTILES)[0]
        if not known[priority == klass].any():
            p50 = p95 = p99 = delays[0] = np.nan
        extra[klass] = {
            "delay_p50_s": _number(p50),
            "delay_p95_s": _number(p95),
            "delay_p99_s": _number(p99),
            "delay_mean_se_s": _standard_error(delays),
            "success_se": _standard_error(shares),
        }
    return extra


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _standard_error(values: list[float]) -> float | None:
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
