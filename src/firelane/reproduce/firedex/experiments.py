"""The experiments of the FireDeX paper, figure by figure: which cases they need and what numbers come out.

Implements: firedex, section 5, Fig. 5 to 10.
Differs:    Fig. 5 and 6 are run on own links and on one shared link, where fan-out shows; both definitions of
            the utility rate are kept; `delay-adjusted` priorities and the upper bound are ours.
Symbols:    U -> utility, alpha -> weight, rho -> load, rho~ -> headroom, Xi -> success.
Checked by: tests/reproduce/test_firedex.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firelane.metrics import Metrics
from firelane.predict import predict
from firelane.reproduce.firedex.runs import (
    BY_BANDWIDTH,
    SETTLES,
    Case,
    Run,
    by_class,
    class_delay_s,
    class_queued,
    class_success,
    over_runs,
)
from firelane.scenario.generate import firedex
from firelane.scenario.routes import routes
from firelane.tune import tune, upper_bound

Runs = dict[Case, list[Run]]
Results = dict[str, Any]

FORMULAS = ("ours", "independent", "equation_5")
RATES = ("rate", "mean_of_ratios")
LINKS = {"own": False, "shared": True}

# Section 5.2.1: subscriptions and drop rates of the three loads.
LOADS = {"medium": ((21, 15), "none"), "high": ((42, 24), "none"), "overload": ((70, 42), "exponential")}
CUTS = (0.94, 0.96, SETTLES)  # which links of Fig. 5b to compare: those below
SUBSCRIBERS = (1, 10, 20, 50, 100)  # section 5.2.2
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # Fig. 10
POLICIES = ("flat", "linear", "exponential", "optimised")  # section 4.3

# Section 5.3: the three ways to configure the switch.
SWITCHES = {
    "plain": Case(priorities="none"),
    "priorities": Case(),
    "priorities and drop rates": Case(drops="exponential"),
}
# Section 5.4, Fig. 9, and what it says about drop rates.
RANKINGS = {
    "none": Case(priorities="none"),
    "random": Case(priorities="random"),
    "information": Case(priorities="information"),
    "bandwidth-adjusted": Case(),
    "delay-adjusted": Case(priorities="delay-adjusted"),
    "bandwidth-adjusted + exponential": Case(drops="exponential"),
    "bandwidth-adjusted + optimised": Case(drops="optimised"),
    "delay-adjusted + optimised": Case(priorities="delay-adjusted", drops="optimised"),
}
PLAIN_SHARED = Case(priorities="none", shared=True)


def figure_5_case(load: str, *, shared: bool) -> Case:
    """A load of Fig. 5; buffers are without end, as in the formulas."""
    subscriptions, drops = LOADS[load]
    return Case(subscriptions=subscriptions, drops=drops, shared=shared, buffer=None)


def figure_6_case(subscribers: int, *, shared: bool) -> Case:
    """A number of subscribers of Fig. 6."""
    return Case(subscribers=subscribers, drops="exponential", shared=shared, buffer=None)


def ranked_case(priorities: str, *, shared: bool) -> Case:
    """One side of our own comparison: optimised drop rates under this ranking."""
    return Case(priorities=priorities, drops="optimised", shared=shared)


def all_cases() -> Iterable[Case]:
    """Everything that is simulated; a case that two figures share is run once."""
    for shared in LINKS.values():
        yield from (figure_5_case(load, shared=shared) for load in LOADS)
        yield from (figure_6_case(subscribers, shared=shared) for subscribers in SUBSCRIBERS)
        yield from (ranked_case(priorities, shared=shared) for priorities in (BY_BANDWIDTH, "delay-adjusted"))
    yield from SWITCHES.values()
    yield from RANKINGS.values()
    yield PLAIN_SHARED


# ---------------------------------------------------------------------- Fig. 5 and 6: is the model right?


def figure_5(runs: Runs) -> Results:
    """Predicted and simulated delay per class at three loads."""
    return {
        links: {load: _validated(runs[figure_5_case(load, shared=shared)]) for load in LOADS}
        for links, shared in LINKS.items()
    }


def figure_6(runs: Runs) -> Results:
    """The same at load 1.7 for more and more subscribers."""
    return {
        links: {str(many): _validated(runs[figure_6_case(many, shared=shared)]) for many in SUBSCRIBERS}
        for links, shared in LINKS.items()
    }


def _validated(runs: list[Run]) -> Results:
    simulated = [class_delay_s(run, run.simulated) for run in runs]
    predicted = {name: [class_delay_s(run, run.predicted[name]) for run in runs] for name in FORMULAS}
    offered = np.concatenate([run.link_load for run in runs])
    carried = np.concatenate([[link.load for link in run.simulated.links.values()] for run in runs])
    difference = {
        name: by_class([ours - seen for ours, seen in zip(values, simulated, strict=True)])
        for name, values in predicted.items()
    }
    return {
        "publications": runs[0].publications,
        "offered_load": over_runs([float(run.link_load.mean()) for run in runs]),
        "compared_load": float(offered[carried < SETTLES].mean()) if (carried < SETTLES).any() else None,
        "links": len(carried),
        "unstable_links": int((carried >= 1).sum()),
        "unsettled_links": int(((carried >= SETTLES) & (carried < 1)).sum()),
        "simulated_s": by_class(simulated),
        "predicted_s": {name: by_class(values) for name, values in predicted.items()},
        "difference_s": difference,
        "equation_5_minus_cobham_s": {str(load): _lowest_class_off_s(runs, load) for load in CUTS},
        "largest_difference_s": {name: _largest(rows) for name, rows in difference.items()},
        "largest_relative_difference": {
            name: _largest(_relative(rows, by_class(simulated))) for name, rows in difference.items()
        },
    }


def _lowest_class_off_s(runs: list[Run], below: float) -> Results:
    """Eq. 5 minus Cobham's formula at class 8, on links below this load only: without a simulation's noise."""
    pairs = [
        [class_delay_s(run, run.predicted[name], below=below)[-1] for name in ("equation_5", "independent")]
        for run in runs
    ]
    return over_runs([ours - exact for ours, exact in pairs])


def _largest(rows: list[Results]) -> Results:
    """The class with the largest difference."""
    known = [{**row, "class": k} for k, row in enumerate(rows) if row["mean"] is not None]
    nothing = {"mean": None, "standard_error": None, "class": None}
    return max(known, key=lambda row: abs(row["mean"]), default=nothing)


def _relative(difference: list[Results], simulated: list[Results]) -> list[Results]:
    """The differences as shares of what is simulated."""
    return [
        {key: None if gap[key] is None else gap[key] / seen["mean"] for key in ("mean", "standard_error")}
        for gap, seen in zip(difference, simulated, strict=True)
    ]


# ----------------------------------------------------------------- Fig. 7 and 8: what the approach brings


def figures_7_and_8(runs: Runs) -> Results:
    """Success and delay per class of the three switches, with a buffer of 2000 messages."""
    found = {name: _switch(runs[case]) for name, case in SWITCHES.items()}
    found["plain, one shared link"] = _switch(runs[PLAIN_SHARED])
    return found


def _switch(runs: list[Run]) -> Results:
    success = [class_success(run, run.simulated) for run in runs]
    fluid = [class_success(run, run.predicted["ours"]) for run in runs]
    return {
        "success": by_class(success),
        "fluid_success": by_class(fluid),
        "success_minus_fluid": by_class([ours - limit for ours, limit in zip(success, fluid, strict=True)]),
        "delay_s": by_class([class_delay_s(run, run.simulated, below=math.inf) for run in runs]),
        "mean_success": over_runs([_mean_success(run.simulated) for run in runs]),
        "mean_delay_s": over_runs([_mean_delay_s(run.simulated) for run in runs]),
        "still_queued": over_runs([_still_queued(run.simulated) for run in runs]),
        "class_still_queued": by_class([class_queued(run) for run in runs]),
    }


def _mean_success(metrics: Metrics) -> float:
    return float(np.average(metrics.column("success"), weights=metrics.column("offered_hz")))


def _mean_delay_s(metrics: Metrics) -> float:
    delivered, delay = metrics.column("delivered_hz"), metrics.column("delay_mean_s")
    some = delivered > 0
    return float(np.average(delay[some], weights=delivered[some])) if some.any() else math.nan


def _still_queued(metrics: Metrics) -> float:
    """Share of the messages that wait in a queue when the run ends."""
    published = metrics.column("offered_hz").sum() * metrics.column("window_s")[0]
    return float(metrics.column("queued").sum() / published)


def load_for_delay(delay_s: float, seeds: Sequence[int]) -> float:
    """At which load, by our formula, the lowest class would wait so long under exponential drop rates."""
    networks = [Case(buffer=None).routes(seed) for seed in seeds]

    def waits_s(headroom: float) -> float:
        plans = [tune(one, priorities=BY_BANDWIDTH, drops="exponential", headroom=headroom) for one in networks]
        rows = [predict(one, plan).classes()[-1] for one, plan in zip(networks, plans, strict=True)]
        return float(np.mean([row["delay_mean_s"] for row in rows]))

    low, high = 1e-4, 0.5
    for _ in range(20):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if waits_s(middle) > delay_s else (low, middle)
    return 1 - low


# -------------------------------------------------------------------- Fig. 9: which ranking is worth most?


def figure_9(runs: Runs) -> Results:
    """Achieved utility rate of every ranking, the gains between them, and what no plan can exceed."""
    found = {name: runs[case] for name, case in RANKINGS.items()}
    plain, ranked = found["none"], found["bandwidth-adjusted"]
    dropped = found["bandwidth-adjusted + optimised"]
    compared = {
        "bandwidth-adjusted over information": (ranked, found["information"]),
        "bandwidth-adjusted over none": (ranked, plain),
        "with drop rates over bandwidth-adjusted": (dropped, ranked),
        "with drop rates over none": (dropped, plain),
    }
    return {
        "rates": {name: _rates(one) for name, one in found.items()},
        "gains": {name: _gains(*map(_simulated, pair)) for name, pair in compared.items()},
        "fluid_gains": {name: _gains(*map(_fluid, pair)) for name, pair in compared.items()},
        "ceilings": {"over none": _ceiling(plain), "over bandwidth-adjusted": _ceiling(ranked)},
        "bound": {name: over_runs([run.bounds[name] for run in plain]) for name in plain[0].bounds},
        "if success counts messages": _messages_ceiling(plain),
    }


def _rates(runs: list[Run]) -> Results:
    """Both definitions of the utility rate, simulated and by the fluid limit."""
    return {
        source: {rate: over_runs([one.utility()[rate] for one in metrics]) for rate in RATES}
        for source, metrics in (("simulated", _simulated(runs)), ("fluid", _fluid(runs)))
    }


def _simulated(runs: list[Run]) -> list[Metrics]:
    return [run.simulated for run in runs]


def _fluid(runs: list[Run]) -> list[Metrics]:
    return [run.predicted["ours"] for run in runs]


def _gains(found: list[Metrics], over: list[Metrics]) -> Results:
    """What these gain over the others, scenario by scenario."""
    pairs = [(one.utility(), base.utility()) for one, base in zip(found, over, strict=True)]
    return {rate: over_runs([one[rate] / base[rate] - 1 for one, base in pairs]) for rate in RATES}


def _ceiling(runs: list[Run]) -> Results:
    """What could be gained over these runs if everything arrived, and as much as the link can carry."""
    utility = [run.simulated.utility() for run in runs]
    return {
        "everything": {rate: over_runs([1 / one[rate] - 1 for one in utility]) for rate in RATES},
        "bound": over_runs(
            [run.bounds["without_headroom"] / one["rate"] - 1 for run, one in zip(runs, utility, strict=True)]
        ),
    }


def _messages_ceiling(runs: list[Run]) -> Results:
    """The most to be gained if Eq. 8 is read with messages a second in place of a share."""
    rates = []
    for run in runs:
        offered, success = (run.simulated.column(name) for name in ("offered_hz", "success"))
        rates.append(float(run.weight @ np.log1p(success * offered) / (run.weight @ np.log1p(offered))))
    return over_runs([1 / rate - 1 for rate in rates])


# ------------------------------------------------------------------ Fig. 10: which drop rates are worth most?


def figure_10(seeds: Sequence[int]) -> Results:
    """Utility rate of the drop policies, by formula, as asynchronous events get more valuable."""
    return {str(factor): _policies(factor, seeds) for factor in FACTORS}


def _policies(factor: float, seeds: Sequence[int]) -> Results:
    found: dict[str, list[dict[str, float]]] = {policy: [] for policy in POLICIES}
    bounds = []
    for seed in seeds:
        network = routes(firedex(seed=seed, async_weight_factor=factor))
        for policy in POLICIES:
            plan = tune(network, priorities=BY_BANDWIDTH, drops=policy)
            found[policy].append(predict(network, plan).utility())
        bounds.append(upper_bound(network) / found["flat"][-1]["maximum"])
    rates = {p: {rate: over_runs([one[rate] for one in values]) for rate in RATES} for p, values in found.items()}
    best = np.array([one["rate"] for one in found["optimised"]])
    return {
        **rates,
        "bound": over_runs(bounds),
        "optimised_of_bound": {"least": float((best / bounds).min()), **over_runs((best / bounds).tolist())},
    }
