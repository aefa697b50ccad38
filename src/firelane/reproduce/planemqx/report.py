"""The report of the PlanEMQX reproduction, in Markdown: every number in it is taken from the results."""

from __future__ import annotations

from typing import Any

from firelane.reproduce.planemqx.experiments import CATEGORIES
from firelane.reproduce.wording import paragraphs, percent, seconds, table

Results = dict[str, Any]
PAPER_DROPPED = {"real-time": 0.0007, "streaming": 0.0185, "transactional": 0.0010, "analytics": 0.0494}
PAPER_GAIN = 0.20  # of real-time and streaming
PAPER_MOST_S = {"default": 0.0227, "planned": 0.0185}  # of real-time, Figure 6


def report(results: Results) -> str:
    """The whole report."""
    chapters = (
        _opening(results),
        _in_short(results),
        _plan(results),
        _drops(results),
        _delays(results),
        _rest(results),
    )
    return paragraphs(*chapters) + "\n"


def gain(results: Results, category: str, source: str = "live") -> float:
    """How much less the mean delay of a category is with the plan."""
    before, after = (results["both"][way]["categories"][category]["delay_s"][source] for way in ("default", "planned"))
    return float(1 - after / before)


def _opening(results: Results) -> str:
    command = f"firelane reproduce planemqx{' --quick' if results['quick'] else ''} --seed {results['seed']}"
    return paragraphs(
        "# PlanEMQX, run again",
        f"Table II and Figures 4 to 7 of *PlanEMQX* (ICSA 2024), by `{command}`, with Firelane "
        f"{results['firelane']}, in {results['seconds']:.0f} s: 30 devices, 30 topics, 16 applications and 80 "
        "subscriptions live on an exchange, over real connections and a link of 10 Mbit/s, for "
        f"{results['run_s']:g} s each way with the same publications (load {results['load']:.2f}).",
    )


def _in_short(results: Results) -> str:
    both = results["both"]
    rows = [
        *(
            [
                f"{name}: mean delay with the plan",
                f"{percent(PAPER_GAIN)} less" if name in ("real-time", "streaming") else "more",
                f"{percent(gain(results, name))} less"
                if gain(results, name) >= 0
                else f"{percent(-gain(results, name))} more",
            ]
            for name in CATEGORIES
        ),
        *(
            [
                f"real-time: longest delay, {way}",
                seconds(PAPER_MOST_S[way]),
                seconds(both[way]["categories"]["real-time"]["box_s"][-1]),
            ]
            for way in ("default", "planned")
        ),
        [
            "drops as planned, within chance",
            "yes",
            "yes" if all(one["dropped"]["holds"] for one in both["planned"]["categories"].values()) else "no",
        ],
    ]
    why = (
        "There is more to gain here than in the paper: its network is emulated in a way in which, as it says, packets "
        "do not wait for the transmission of those before them, so its default delays are short."
    )
    return paragraphs("## In short", table(["", "paper", "here, live"], rows), why, _disturbed(results))


def _disturbed(results: Results) -> str:
    held_up = [way for way, one in results["both"].items() if one["disturbed"]]
    return f"The machine was busy with other things in the run of: {', '.join(held_up)}." if held_up else ""


def _plan(results: Results) -> str:
    plan = results["plan"]
    drops = ", ".join(f"{percent(rate)} of {name}" for name, rate in plan["drops"].items() if rate > 0)
    proved = ", proved to be the best on its grid" if plan["proven_optimal"] else ""
    return paragraphs(
        "## The plan",
        f"{' before '.join(plan['order'])}; drops: {drops}. The paper's Listing 2 is the same. Decided by "
        f"`{plan['planner']}` in {plan['seconds']:.2f} s{proved}. The bounds on loss are the paper's "
        "drops, those on delay are ours: the paper does not print them.",
    )


def _drops(results: Results) -> str:
    found = results["both"]["planned"]["categories"]
    rows = [
        [
            name,
            f"{one['published']:,}",
            f"{one['consumed']:,}",
            percent(one["dropped"]["share"], decimals=2),
            percent(
                {"mean": one["dropped"]["planned"], "standard_error": one["dropped"]["standard_error"]}, decimals=2
            ),
            percent(PAPER_DROPPED[name], decimals=2),
        ]
        for name, one in found.items()
    ]
    return paragraphs(
        "## Table II: dropped messages",
        table(["category", "published", "consumed", "dropped", "planned, and its chance", "paper"], rows),
    )


def _delays(results: Results) -> str:
    rows = [
        [
            name,
            way,
            *(seconds(one["delay_s"][source]) for source in ("predicted", "simulated", "live")),
            *(seconds(one["box_s"][place]) for place in (2, 4, 5, 6)),
        ]
        for name in CATEGORIES
        for way in ("default", "planned")
        for one in [results["both"][way]["categories"][name]]
    ]
    columns = ["category", "", "predicted", "simulated", "live", "50 %", "95 %", "99 %", "most"]
    pictures = "\n".join(f"![Figure {number}](figure-{number}.png)" for number in (5, 6))
    return paragraphs("## Figures 5 and 6: delays", table(columns, rows), pictures)


def _rest(results: Results) -> str:
    rows = [
        [
            f"{one['bandwidth_bps'] / 1e6:g} Mbit/s",
            f"{one['load']:.2f}",
            *(
                seconds({"mean": one[f"{source}_s"], "standard_error": None})
                for source in ("predicted", "simulated", "live")
            ),
        ]
        for one in results["bandwidths"]
    ]
    return paragraphs(
        "## Figure 4: without a plan, at each bandwidth",
        table(["bandwidth", "load", "predicted", "simulated", "live"], rows),
        "A link that is offered more than it carries has no mean delay in the long run, so none is predicted.",
        "![Figure 4](figure-4.png)",
        "## Figure 7: one topic, several categories",
        "![Figure 7](figure-7.png)",
    )
