"""Scenario + Plan -> Metrics by simulation: seeded replications side by side, with standard errors."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.errors import FirelaneError
from firelane.histogram import percentiles_s
from firelane.metrics import Metrics, class_mean, link_loads, make_metrics
from firelane.scenario.model import LEAST_SPARE, Scenario
from firelane.scenario.plan import Plan, plain_plan
from firelane.scenario.routes import Routes, some_routes
from firelane.scenario.upstream import upstream
from firelane.simulate.replication import Outcome, replicate
from firelane.simulate.system import UNLIMITED_BUFFER, System, build

PERCENTILES = (0.50, 0.95, 0.99)
UNSETTLED = 0.01  # growth of the queues while counting, in messages published, from which a run is called short


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
    network = some_routes(scenario)
    system = build(network, plan or plain_plan(network), independent=independent)
    seed = secrets.randbits(32) if seed is None else seed
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:  # the compiled loops release the GIL
        runs = pool.map(
            lambda one: replicate(system, publications=publications, seed=one, progress=progress),
            np.random.SeedSequence(seed).spawn(replications),
        )
        outcomes, histogram = _gathered(runs)
    return Result(network, system, outcomes, histogram).metrics(plan, seed)


def _gathered(runs: Iterable[Outcome]) -> tuple[list[Outcome], npt.NDArray[np.uint32]]:
    """The outcomes, and one histogram for all: theirs would take 2 kB a subscription and replication."""
    outcomes: list[Outcome] = []
    total: npt.NDArray[np.uint32] | None = None
    for one in runs:
        total = one.tally.histogram if total is None else total + one.tally.histogram
        one.tally = one.tally._replace(histogram=np.zeros((0, 0), np.uint32))
        outcomes.append(one)
    assert total is not None
    return outcomes, total


class Result:
    """What all replications counted together, and what of it can be known."""

    def __init__(
        self, network: Routes, system: System, outcomes: list[Outcome], histogram: npt.NDArray[np.uint32]
    ) -> None:
        self._routes, self._system, self._outcomes, self._histogram = network, system, outcomes, histogram
        self._before = upstream(network)
        self._class = system.links.stream_class.astype(np.int64)
        self._load = network.class_load(self._before.stream_rate_hz * (1 - system.links.stream_drop), self._class)
        self._published = self._total(lambda one: one.published[system.stream_published])
        self._delivered = self._total(lambda one: one.tally.delivered)
        self._queued = self._total(lambda one: one.queued)
        keeps_up = (np.cumsum(self._load, axis=1) < 1 - LEAST_SPARE)[network.stream_lane, self._class]
        self._stable = keeps_up & self._before.stable
        bounded = keeps_up | ~self._growing()[network.stream_lane]
        self._settles = bounded & self._before.stable
        self._delay_known = bounded & self._before.exchange_stable & (self._delivered > 0)

    def metrics(self, plan: Plan | None, seed: int) -> Metrics:
        """As the table that all sources share."""
        r, system, outcomes = self._routes, self._system, self._outcomes
        flow, priority, drop_rate = (plan or plain_plan(r)).per_subscription(r)
        events = sum(one.events for one in outcomes)
        return make_metrics(
            r,
            plan,
            source="simulated",
            owner=system.stream_owner,
            links=link_loads(r, self._load),
            columns=self._columns() | {"flow": flow, "priority": priority, "drop_rate": drop_rate},
            window_s=sum(one.window_s for one in outcomes),
            stages=self._stages(),
            extra={
                "events": events,
                "events_per_s": events / sum(one.seconds for one in outcomes),
                "replications": len(outcomes),
                "seed": seed,
            },
            class_extra={k: self._class_extra(k, priority) for k in np.unique(priority).tolist()},
            notes=self._notes(),
        )

    def _total(self, pick: Callable[[Outcome], Any]) -> Floats:
        return np.asarray(np.sum([pick(one) for one in self._outcomes], axis=0), np.float64)

    def _columns(self) -> dict[str, Any]:
        """Streams gathered into subscriptions."""
        r, owner, rows = self._routes, self._system.stream_owner, len(self._routes.filters)
        window_s = sum(one.window_s for one in self._outcomes)

        def of_owner(per_stream: Any) -> Floats:
            return sum_by(owner, per_stream, rows)

        carried = of_owner(self._delivered)
        known = (of_owner((self._delivered > 0) & ~self._delay_known) == 0) & (carried > 0)
        delay_sum = of_owner(self._total(lambda one: one.tally.delay_sum))
        percentiles = np.full((rows, len(PERCENTILES)), np.nan)
        if self._system.per_subscription:
            percentiles[known] = percentiles_s(self._histogram[known], PERCENTILES)
        lost = self._total(lambda one: one.tally.lost + one.publisher_lost[self._system.stream_published])
        return {
            "stable": of_owner(~self._stable) == 0,
            "offered_hz": of_owner(self._published) / window_s,
            "delivered_hz": carried / window_s,
            "success": np.minimum(1.0, r.claimed_share(self._delivered, self._published)),
            "delay_mean_s": np.divide(delay_sum, carried, out=np.full(rows, np.nan), where=known),
            **{f"delay_p{round(100 * p)}_s": percentiles[:, i] for i, p in enumerate(PERCENTILES)},
            "bytes": of_owner(self._bytes()),
            # What need not be sent of sensors is not dropped.
            "dropped_policy": np.where(r.needs.tolerant, 0.0, of_owner(self._total(lambda one: one.tally.policy))),
            "dropped_overflow": of_owner(self._total(lambda one: one.tally.overflow)),
            "dropped_superseded": of_owner(self._total(lambda one: one.tally.superseded)),
            "lost": of_owner(lost),
            "queued": of_owner(self._queued),
        }

    def _bytes(self) -> Floats:
        """Wire bytes delivered; unknown where a link without bandwidth takes no time for them."""
        per_byte_s = self._system.links.per_byte_s
        busy_s = self._total(lambda one: one.tally.busy_sum)
        return np.asarray(np.divide(busy_s, per_byte_s, out=np.full(len(busy_s), np.nan), where=per_byte_s > 0))

    def _growing(self) -> Flags:
        """Which links have no buffer limit and end with more waiting than one message of every stream.

        On a saturated link that means a queue without end; `keep: latest` keeps even such a link's queue short.
        """
        r, lanes = self._routes, len(self._routes.lanes)
        unlimited = np.array([lane.link.buffer_messages is None for lane in r.lanes], np.bool_)
        waiting = sum_by(r.stream_lane, self._queued / len(self._outcomes), lanes)
        return unlimited & (waiting > np.bincount(r.stream_lane, minlength=lanes))

    def _notes(self) -> tuple[str, ...]:
        notes = list(self._before.notes)
        if not self._system.per_subscription:
            notes.append("so many subscriptions that percentiles are kept per class only")
        grown = abs(self._queued - self._total(lambda one: one.waiting_before))[self._settles].sum()
        if grown > UNSETTLED * self._published.sum():
            notes.append("the queues had not settled when counting began; simulate more publications")
        unlimited = np.array([lane.link.buffer_messages is None for lane in self._routes.lanes], np.bool_)
        overflow = self._total(lambda one: one.tally.overflow)[unlimited[self._routes.stream_lane]]
        if overflow.any():
            notes.append(f"a link without a buffer limit held {UNLIMITED_BUFFER:,} messages; {overflow.sum():,.0f} "
                         "more were pushed out to bound the memory")  # fmt: skip
        return tuple(notes)

    def _stages(self) -> dict[str, dict[int, float | None]]:
        """Mean delay per class of every stage; the link's is what the others leave of the whole."""
        if not self._system.stages.any:
            return {}
        delay_sum = self._total(lambda one: one.tally.delay_sum)
        total = delay_sum / np.maximum(1, self._delivered)
        topic = self._system.stream_published
        means = {
            "publisher": self._stage("publisher")[topic],
            "broker_in": self._stage("broker_in")[topic],
            "broker_out": self._stage("broker_out"),
            "switch": self._stage("switch"),
        }
        means["link"] = total - means["broker_in"] - means["broker_out"] - means["switch"]
        means["end_to_end"] = total + means["publisher"]
        for name, mean in means.items():
            known = self._delay_known & (self._before.stable if name in ("publisher", "end_to_end") else True)
            means[name] = np.where(known, mean, np.nan)
        by_class = {name: class_mean(mean, self._delivered, self._class) for name, mean in means.items()}
        return by_class if by_class["link"] else {}

    def _stage(self, name: str) -> Floats:
        """Mean delay in a stage, over all replications."""
        count = np.sum([one.stages[name].count for one in self._outcomes], axis=0)
        total = np.sum([one.stages[name].sum for one in self._outcomes], axis=0)
        return np.asarray(total / np.maximum(1, count), np.float64)

    def _class_extra(self, klass: int, priority: Ints) -> dict[str, Any]:
        """Percentiles of a class, and standard errors from the spread between replications."""
        inside = self._class == klass
        rows = priority == klass if self._system.per_subscription else np.arange(len(self._histogram)) == klass
        known = bool(self._delay_known[inside & (self._delivered > 0)].all())
        counts = self._histogram[rows].sum(axis=0, keepdims=True, dtype=np.int64)
        p50, p95, p99 = percentiles_s(counts, PERCENTILES)[0] if known else (np.nan,) * 3
        delays, shares = zip(*(self._class_means(one, inside) for one in self._outcomes), strict=True)
        return {
            "delay_p50_s": _number(p50),
            "delay_p95_s": _number(p95),
            "delay_p99_s": _number(p99),
            "delay_mean_se_s": _standard_error(delays) if known else None,
            "success_se": _standard_error(shares),
        }

    def _class_means(self, one: Outcome, inside: Flags) -> tuple[float, float]:
        """Mean delay and success of some streams in one replication."""
        delivered = one.tally.delivered[inside].sum()
        published = one.published[self._system.stream_published][inside].sum()
        delay = one.tally.delay_sum[inside].sum() / delivered if delivered else np.nan
        return delay, delivered / published if published else np.nan


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _standard_error(values: tuple[float, ...]) -> float | None:
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
