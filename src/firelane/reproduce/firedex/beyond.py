"""What the FireDeX paper does not have: our ranking against its own, and how its Table 2 can be read.

Implements: ours; firedex, section 5.1, Table 2, as far as it goes.
Differs:    `delay-adjusted` takes Eq. 9 with rates after drops, per flow, over the whole link.
Symbols:    rho -> load, alpha -> weight.
Checked by: tests/reproduce/test_firedex.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from firelane.metrics import delays_compared
from firelane.predict import predict
from firelane.reproduce.firedex.experiments import LINKS, LOADS, Results, Runs, ranked_case
from firelane.reproduce.firedex.runs import BY_BANDWIDTH, Run, over_runs
from firelane.scenario.generate import firedex


def delay_adjusted(runs: Runs) -> Results:
    """`delay-adjusted` against `bandwidth-adjusted`: same flows, same drop rates, other classes."""
    return {
        links: _compared(
            runs[ranked_case(BY_BANDWIDTH, shared=shared)], runs[ranked_case("delay-adjusted", shared=shared)]
        )
        for links, shared in LINKS.items()
    }


def _compared(before: list[Run], after: list[Run]) -> Results:
    rows = [_one_compared(old, new) for old, new in zip(before, after, strict=True)]
    kinds = ("value_weighted", "message_weighted")
    reductions = {
        source: {kind: [row[source][kind]["reduction"] for row in rows] for kind in kinds}
        for source in ("simulated", "predicted")
    }
    return {
        "seeds": rows,
        "reduction": {
            source: {
                kind: {**over_runs(values), "least": min(values), "most": max(values)} for kind, values in each.items()
            }
            for source, each in reductions.items()
        },
        "reduced_on": sum(value > 0 for value in reductions["simulated"]["value_weighted"]),
        "of_bound": {
            "least": min(row["of_bound"] for row in rows),
            **over_runs([row["of_bound"] for row in rows]),
        },
    }


def _one_compared(old: Run, new: Run) -> Results:
    promised = new.plan.promised
    row: Results = {
        "seed": new.seed,
        "same_flows_and_drop_rates": bool(
            np.array_equal(old.plan.subscription_flow, new.plan.subscription_flow)
            and np.array_equal(old.plan.flow_drop_rate, new.plan.flow_drop_rate)
        ),
        "utility_rate": {
            BY_BANDWIDTH: old.simulated.utility()["rate"],
            "delay-adjusted": new.simulated.utility()["rate"],
        },
        "of_bound": promised["utility"] / promised["upper_bound"],
    }
    for source, pair in (
        ("simulated", [old.simulated, new.simulated]),
        ("predicted", [old.predicted["ours"], new.predicted["ours"]]),
    ):
        first, second = delays_compared(new.weight, pair)
        row[source] = {
            kind: {
                f"{BY_BANDWIDTH}_s": first[f"{kind}_s"],
                "delay-adjusted_s": second[f"{kind}_s"],
                "reduction": 1 - second[f"{kind}_s"] / first[f"{kind}_s"],
            }
            for kind in ("value_weighted", "message_weighted")
        }
    return row


# Table 2 in the text we have has lost a column, so what a rate and a bandwidth are of is open: text, arguments of
# `generate.firedex`, and what to multiply its load by.
KEPT = "a rate per publisher and topic, each publisher advertising 62 % of the telemetry and all asynchronous topics"
READINGS: dict[str, tuple[dict[str, Any], float]] = {
    KEPT: ({}, 1.0),
    "a rate per publisher and topic, every publisher advertising all topics": ({"telemetry_share": 1.0}, 1.0),
    "a rate per topic, however many publishers": ({"telemetry_share": 1.0, "publishers": 1}, 1.0),
    "as kept, but 80 Mbit/s for each subscriber instead of for all ten": ({}, 0.1),
    "every publisher all topics, 80 Mbit/s for each subscriber": ({"telemetry_share": 1.0}, 0.1),
    "as kept, but sizes in bits": ({}, 1 / 8),
    "every publisher all topics, sizes in bits": ({"telemetry_share": 1.0}, 1 / 8),
}


def readings(seeds: Sequence[int]) -> Results:
    """The three loads that each reading of Table 2 gives, mean over the seeds."""
    return {text: _loads(given, factor, seeds) for text, (given, factor) in READINGS.items()}


def _loads(given: dict[str, Any], factor: float, seeds: Sequence[int]) -> Results:
    found = {}
    for name, ((telemetry, events), _) in LOADS.items():
        drawn = (
            firedex(seed=seed, telemetry_subscriptions=telemetry, async_subscriptions=events, **given) for seed in seeds
        )
        loads = [[link.load for link in predict(one).links.values()] for one in drawn]
        found[name] = over_runs([factor * float(np.mean(one)) for one in loads])
    return found
