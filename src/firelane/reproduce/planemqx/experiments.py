"""PlanEMQX's evaluation again: a plan for four categories of applications, and its effect live beside no plan.

Implements: planemqx, section V-C: Table II and Figures 4 to 7.
Differs:    on our exchange over real connections on this machine, with a link paced as in the scenario. Bounds on
            delay, which the paper does not print, are ours; those on loss are the drops of its Listing 2.
Symbols:    as in the paper: RT, ST (VS in its Table I), TS, AN.
Checked by: tests/reproduce/test_planemqx.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.plan import plan
from firelane.predict import predict
from firelane.reproduce.live import WARM_UP, Live, Schedule, Seen, from_metrics, replay, run, schedule, typical
from firelane.scenario import Category, load
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan
from firelane.scenario.routes import Routes, routes
from firelane.tune import tune

LINK = "post"
PAPER_BPS = 10e6
BANDWIDTHS_BPS = (8e6, 9e6, 10e6, 11e6, 12e6, 13e6)
CATEGORIES = ("real-time", "streaming", "transactional", "analytics")
BEARS = {
    "real-time": Category(weight=4, max_delay_s=0.02, max_loss=0.0),
    "streaming": Category(weight=3, max_delay_s=0.05, max_loss=0.02),
    "transactional": Category(weight=2, max_delay_s=0.5, max_loss=0.0),
    "analytics": Category(weight=1, max_delay_s=1.0, max_loss=0.05),
}
DRAWN = 20  # schedules, of which the one with the most typical load is sent
REPLAYS = 10  # with other messages dropped
BOX = (5, 25, 50, 75, 95, 99, 100)  # percentiles of Figure 6
SIGMAS = 3.0

Results = dict[str, Any]


def scenario(bandwidth_bps: float = PAPER_BPS) -> Scenario:
    """The paper's applications and devices over a link of this bandwidth."""
    base = load("planemqx")
    link = replace(base.links[LINK], bandwidth_bps=bandwidth_bps)
    return replace(base, links={LINK: link}, categories=BEARS)


def drawn(network: Routes, seconds: float, seed: int) -> Schedule:
    """Publications of so long, with a load that is typical."""
    return typical(schedule(network, seconds=seconds, seed=[seed, number]) for number in range(DRAWN))


def default_plan(network: Routes) -> Plan:
    """A broker that treats all alike."""
    return tune(network, priorities="none", drops="none")


def planned(network: Routes) -> Results:
    """What the planner decides, and the plan itself."""
    found = plan(network.scenario)
    return {**found.to_data(), "plan": found.to_plan()}


def compared(
    sent: Schedule, chosen: Plan, folder: Path, *, attempts: int, progress: Callable[[int], None]
) -> dict[str, Results]:
    """Both ways with the same publications: predicted, simulated and live, by category and by topic."""
    network = sent.routes
    return {
        name: _one(sent, one, folder / name, attempts, progress)
        for name, one in (("default", default_plan(network)), ("planned", chosen))
    }


def by_bandwidth(seconds: float, seed: int, *, attempts: int, progress: Callable[[int], None]) -> list[Results]:
    """Figure 4: the mean delay without a plan at each bandwidth."""
    found = []
    for bps in BANDWIDTHS_BPS:
        network = routes(scenario(bps))
        sent, nothing = drawn(network, seconds, seed), default_plan(network)
        outcome = run(sent, nothing, attempts=attempts, progress=progress)
        live = from_metrics(network, outcome.metrics)
        found.append(
            {
                "bandwidth_bps": bps,
                "load": float(sent.load()[0]),
                "predicted_s": _mean(predict(network, nothing).column("delay_mean_s"), _rates(network)),
                "simulated_s": _of_all(replay(sent, nothing, warm_up=WARM_UP, seed=seed)),
                "live_s": _of_all(live),
                "disturbed": outcome.disturbed,
            }
        )
    return found


def _one(sent: Schedule, chosen: Plan, records: Path, attempts: int, progress: Callable[[int], None]) -> Results:
    network = sent.routes
    outcome = run(sent, chosen, records=records, attempts=attempts, progress=progress)
    group = categories(network)
    replays = [replay(sent, chosen, warm_up=WARM_UP, seed=number) for number in range(REPLAYS)]
    live = from_metrics(network, outcome.metrics)
    predicted = predict(network, chosen)
    rate, delay = predicted.column("delivered_hz"), predicted.column("delay_mean_s")
    drop_rate = chosen.per_subscription(network)[2]
    delivered = recorded(outcome, network)
    return {
        "categories": {
            name: {
                "published": int((live.delivered + live.dropped)[group == number].sum()),
                "consumed": int(live.delivered[group == number].sum()),
                "drop_rate": float(drop_rate[group == number].max()),
                "dropped": _dropped(live, group == number, drop_rate),
                "delay_s": {
                    "predicted": _mean(delay[group == number], rate[group == number]),
                    "simulated": float(np.mean([one.class_delay_s(group, len(CATEGORIES))[number] for one in replays])),
                    "live": float(live.class_delay_s(group, len(CATEGORIES))[number]),
                },
                "box_s": _box(delivered.delay_s[delivered.category == number]),
            }
            for number, name in enumerate(CATEGORIES)
        },
        "topics": _topics(network, delivered),
        "received": outcome.received,
        "late_p99_s": outcome.late_p99_s,
        "silence_s": outcome.silence_s,
        "attempts": outcome.attempts,
        "disturbed": outcome.disturbed,
    }


def categories(network: Routes) -> Ints:
    """The number of each subscription's category."""
    return np.array([CATEGORIES.index(need.category or "") for need in network.needs], np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delivered:
    """Every delivery after the warm-up: of which topic, to which category, and how late."""

    topic: Ints
    category: Ints
    delay_s: Floats


def recorded(outcome: Live, network: Routes) -> Delivered:
    """What the exchange has recorded of a run."""
    assert outcome.records is not None
    table = ds.dataset(outcome.records / "telemetry" / "deliveries").to_table(
        columns=["subscriber", "topic", "delay_us", "plan_version"],
        filter=(pc.field("outcome") == "delivered") & pc.field("delay_us").is_valid(),
    )
    table = table.filter(pc.equal(table["plan_version"], pc.max(table["plan_version"])))
    category = {name: CATEGORIES.index(name.rpartition("-")[0]) for name in network.subscribers}
    topic = {name: place for place, name in enumerate(network.topics)}
    return Delivered(
        topic=np.array([topic[one] for one in table["topic"].to_pylist()], np.int64),
        category=np.array([category[one] for one in table["subscriber"].to_pylist()], np.int64),
        delay_s=table["delay_us"].to_numpy() / 1e6,
    )


def _dropped(live: Seen, members: Flags, drop_rate: Floats) -> Results:
    """The share that was dropped on purpose, and whether chance explains how far that is from the plan."""
    due = live.delivered[members] + live.dropped[members]
    share = float(live.dropped[members].sum() / due.sum())
    expected = float((drop_rate[members] * due).sum() / due.sum())
    error = math.sqrt(float((drop_rate[members] * (1 - drop_rate[members]) * due).sum())) / float(due.sum())
    return {
        "share": share,
        "planned": expected,
        "standard_error": error,
        "holds": abs(share - expected) <= SIGMAS * error + 1e-12,
    }


def _topics(network: Routes, delivered: Delivered) -> Results:
    """Figure 7: the mean delay of each category for the topics that several share."""
    kinds, cells = len(CATEGORIES), len(network.topics) * len(CATEGORIES)
    place = delivered.topic * kinds + delivered.category
    count = np.bincount(place, minlength=cells).reshape(-1, kinds)
    total_s = sum_by(place, delivered.delay_s, cells).reshape(-1, kinds)
    return {
        network.topics[one]: {
            CATEGORIES[number]: float(total_s[one, number] / count[one, number])
            for number in np.flatnonzero(count[one]).tolist()
        }
        for one in np.flatnonzero((count > 0).sum(axis=1) > 1).tolist()
    }


def _box(delay_s: Floats) -> list[float] | None:
    return [float(one) for one in np.percentile(delay_s, BOX)] if len(delay_s) else None


def _of_all(seen: Seen) -> float | None:
    return _mean(seen.delay_s, seen.delivered)


def _rates(network: Routes) -> Floats:
    rates: Floats = predict(network).column("offered_hz")
    return rates


def _mean(values: Floats, weights: Floats) -> float | None:
    """The weighted mean of what has a weight; None if some of that has no value."""
    there = weights > 0
    if not there.any() or not np.all(np.isfinite(values[there])):
        return None
    return float(np.average(values[there], weights=weights[there]))
