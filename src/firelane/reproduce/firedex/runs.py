"""The simulations behind the FireDeX figures: every configuration on scenarios drawn anew, several at a time.

Implements: firedex, section 5.1 (ten runs of 6.5 million publications, each on parameters drawn anew).
Differs:    links at 98 % load or more are not compared with formulas: their queues do not settle within a run.
Symbols:    rho -> load, y -> klass.
Checked by: tests/reproduce/test_firedex.py
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.metrics import Metrics
from firelane.predict import predict
from firelane.scenario.generate import firedex
from firelane.scenario.plan import Plan
from firelane.scenario.routes import Routes, routes
from firelane.show import progress_bar
from firelane.simulate import simulate
from firelane.tune import tune, upper_bound

CLASSES = 9
SETTLES = 0.98  # links below this load come to rest within a run
BY_BANDWIDTH = "bandwidth-adjusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is simulated: runs of a configuration, and publications in each of them."""

    runs: int
    publications: int
    most_copies: float = math.inf  # in one run without limit to its buffers; shortens those with many subscribers


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One configuration: how many subscribe to how much, over which links, and who decides."""

    priorities: str = BY_BANDWIDTH
    drops: str = "none"
    subscriptions: tuple[int, int] = (70, 42)  # of each subscriber: telemetry, asynchronous
    subscribers: int = 10
    shared: bool = False
    buffer: int | None = 2000

    def routes(self, seed: int) -> Routes:
        """The scenario that this seed draws."""
        telemetry, events = self.subscriptions
        drawn = firedex(
            seed=seed,
            subscribers=self.subscribers,
            telemetry_subscriptions=telemetry,
            async_subscriptions=events,
            shared=self.shared,
            buffer=self.buffer,
        )
        return routes(drawn)

    def simulation_seed(self, seed: int) -> int:
        """Of the run on this scenario: the same for plans that are compared, else different."""
        sizes = [seed, *self.subscriptions, self.subscribers, self.shared, self.buffer or 0]
        return int(np.random.SeedSequence(sizes).generate_state(1)[0])

    def publications(self, effort: Effort) -> int:
        """How many publications a run has: fewer when each becomes many copies.

        Not with a limited buffer, which takes long to settle if its lowest class is hardly served.
        """
        if self.buffer is not None:
            return effort.publications
        copies = self.subscribers * sum(self.subscriptions) / 200  # of one publication, about: 200 topics
        return max(1, round(min(effort.publications, effort.most_copies / copies)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One scenario under one plan: simulated once and predicted by three formulas."""

    seed: int
    publications: int
    plan: Plan
    weight: Floats  # of each subscription
    klass: Ints  # of each subscription; without priorities, the one it would have had
    link_load: Floats  # offered, before drops
    carried_load: Floats  # of each subscription's link, after drops
    bounds: dict[str, float]  # highest utility rate of any plan, with and without headroom
    simulated: Metrics
    predicted: dict[str, Metrics]


def simulate_all(cases: Iterable[Case], seeds: Sequence[int], effort: Effort) -> dict[Case, list[Run]]:
    """Every case on the scenario of every seed, in as many threads as there are cores; the longest first."""
    wanted = sorted(dict.fromkeys(cases), key=lambda case: -case.publications(effort) * case.subscribers)
    total = sum(case.publications(effort) for case in wanted) * len(seeds)
    with progress_bar(total, "simulating") as progress, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        coming = {case: [pool.submit(_run, case, seed, effort, progress) for seed in seeds] for case in wanted}
        try:
            return {case: [one.result() for one in runs] for case, runs in coming.items()}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after Ctrl-C, do not start the rest


def _run(case: Case, seed: int, effort: Effort, progress: Callable[[int], None]) -> Run:
    network = case.routes(seed)
    plan = tune(network, priorities=case.priorities, drops=case.drops, seed=seed)
    publications = case.publications(effort)
    simulated = simulate(
        network,
        plan,
        publications=publications,
        replications=1,
        seed=case.simulation_seed(seed),
        progress=progress,
        threads=1,
    )
    ranked = tune(network, priorities=BY_BANDWIDTH, drops="none") if case.priorities == "none" else plan
    carried = np.array([link.load for link in simulated.links.values()])
    return Run(
        seed=seed,
        publications=publications,
        plan=plan,
        weight=np.array([need.weight for need in network.needs]),
        klass=ranked.per_subscription(network)[1],
        link_load=np.array([link.load for link in predict(network).links.values()]),
        carried_load=carried[network.subscription_lane],
        bounds=_bounds(network, simulated),
        simulated=simulated,
        predicted={
            "ours": predict(network, plan),
            "independent": predict(network, plan, arrivals="independent"),
            "equation_5": predict(network, plan, arrivals="paper"),
        },
    )


def _bounds(network: Routes, metrics: Metrics) -> dict[str, float]:
    most = metrics.utility()["maximum"]
    return {
        "with_headroom": upper_bound(network) / most,
        "without_headroom": upper_bound(network, headroom=0.0) / most,
    }


# ------------------------------------------------------------------------------- from runs to numbers


def class_delay_s(run: Run, metrics: Metrics, *, below: float = SETTLES) -> Floats:
    """Mean delay of each class on links below this load, weighted by what is delivered; NaN where nothing is."""
    delivered, delay = metrics.column("delivered_hz"), metrics.column("delay_mean_s")
    counted = np.isfinite(delay) & (delivered > 0) & (run.carried_load < below)
    klass, weight = run.klass[counted], delivered[counted]
    return per_class(klass, delay[counted] * weight, weight)


def class_success(run: Run, metrics: Metrics) -> Floats:
    """Share of each class's messages that is delivered."""
    offered = metrics.column("offered_hz")
    return per_class(run.klass, metrics.column("success") * offered, offered)


def class_queued(run: Run) -> Floats:
    """Share of each class's messages that still wait when the simulation ends."""
    published = run.simulated.column("offered_hz") * run.simulated.column("window_s")
    return per_class(run.klass, run.simulated.column("queued"), published)


def per_class(klass: Ints, part: Floats, whole: Floats) -> Floats:
    """Sum of the parts over sum of the wholes."""
    above, below = (np.bincount(klass, values, CLASSES).astype(np.float64) for values in (part, whole))
    return above / np.where(below > 0, below, np.nan)


def over_runs(values: Sequence[float]) -> dict[str, Any]:
    """Mean and standard error of a number that every run gives; runs without it are left out."""
    known = np.array([value for value in values if math.isfinite(value)])
    if not len(known):
        return {"mean": None, "standard_error": None, "runs": 0}
    error = float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None
    return {"mean": float(known.mean()), "standard_error": error, "runs": len(known)}


def by_class(values: Sequence[Floats]) -> list[dict[str, Any]]:
    """The same for every class."""
    return [over_runs([one[klass] for one in values]) for klass in range(CLASSES)]
