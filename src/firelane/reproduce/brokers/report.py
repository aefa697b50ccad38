"""The report of the broker-cluster reproduction, in Markdown: every number in it is taken from the results."""

from __future__ import annotations

from typing import Any

from firelane.reproduce.brokers.sixty import chapter
from firelane.reproduce.wording import paragraphs, percent, table

Results = dict[str, Any]
PAPER_RATIO, PAPER_SAVED = 20.0, 0.27  # the claims of the abstract: "2000 %" and "at least 27 %"


def report(results: Results) -> str:
    """The whole report."""
    cities = results["cities"]
    chapters = [_opening(results), _in_short(cities), chapter(results["sixty"])]
    return paragraphs(*chapters, *(_city(name, one) for name, one in cities.items())) + "\n"


def _opening(results: Results) -> str:
    options = f"{' --quick' if results['quick'] else ''}"
    return paragraphs(
        "# A cluster of IoT brokers, run again",
        "Figures 2 to 7 of *Managing a Cluster of IoT Brokers in Support of Smart City Applications* and its two "
        f"claims, by `firelane reproduce brokers{options} --seed {results['seed']}`, with Firelane "
        f"{results['firelane']}, in {results['seconds']:.0f} s. The paper's trace (Cologne) cannot be had; a "
        "generated city has its length, step and number of zones.",
    )


def _in_short(cities: dict[str, Results]) -> str:
    rows = [
        row
        for name, one in cities.items()
        for reading, claims in (("always", one["claims"]), ("while wanted", one["while_wanted"]["claims"]))
        for row in _rows(name, reading, claims)
    ]
    readings = (
        "Topics are there *always*: every zone is placed in the first minute, also those that nobody is in yet, which "
        "all come to the emptiest broker. That is how the paper's algorithms read. Or *while wanted*: a topic without "
        "subscribers is not there, and is placed free of charge when it comes."
    )
    columns = ["city", "topics are there", "claim", "paper", "here", "holds"]
    return paragraphs("## In short", table(columns, rows), readings, _reading(cities))


def _rows(name: str, reading: str, claims: Results) -> list[list[str]]:
    ratio, saved = claims["difference_ratio"], claims["least_saved"]
    smaller = "-" if ratio is None else f"{ratio:.1f} times"
    least = "-" if saved is None else percent(saved)
    return [
        [
            name,
            reading,
            "load difference at zero reconfigurations",
            "20 times smaller",
            smaller,
            _holds(ratio, PAPER_RATIO),
        ],
        [name, reading, "switches saved at equal balance, at least", "27 %", least, _holds(saved, PAPER_SAVED)],
    ]


def _reading(cities: dict[str, Results]) -> str:
    ours = [
        f"on {name}, bounded-moves with a band of {percent(best['threshold'])} has a mean load difference of "
        f"{best['load_difference_mean']:,.0f} with {best['switches']:,} switches, where the baseline with the fewest "
        f"switches at such a balance has {rival['switches']:,}"
        for name, one in cities.items()
        for best, rival in [_ours(one)]
        if rival is not None
    ]
    hours = (
        "How many times smaller the load difference is depends on how alike the hours of a day are, and on how little "
        "the first minute tells of them: one placement for a whole day cannot suit zones that are full at night and "
        "zones that are full at noon (Figure 7)."
    )
    knowing = (
        "The long-term heuristic knows the loads of the period that it plans for, the baseline does not: part of "
        "what it gains is knowledge. Deciding from the past only (`long-term-causal`) is shown beside it."
    )
    return paragraphs(hours, knowing, "; ".join(ours).capitalize() + "." if ours else "")


def _ours(one: Results) -> tuple[Results, Results | None]:
    """Our setting nearest to the baseline's middle one in balance, and the cheapest baseline that is as good."""
    points, baseline = one["others"]["bounded_moves"], one["baseline"]
    middle = sorted(point["load_difference_mean"] for point in baseline)[len(baseline) // 2]
    best = min(points, key=lambda point: abs(point["load_difference_mean"] - middle))
    as_good = [
        point
        for point in baseline
        if point["load_difference_mean"] <= best["load_difference_mean"] and point["switches"]
    ]
    return best, min(as_good, key=lambda point: point["switches"], default=None)


def _city(name: str, one: Results) -> str:
    tail = one["tail"]
    opening = (
        f"{one['topics']} topics over {one['brokers']} brokers, {one['steps']:,} steps of {one['step_s']} s; a broker "
        f"carries {one['mean_broker_load']:,.0f} {one['unit']} on average. The tail of sizes fits a Pareto "
        f"distribution of index {tail['index']:.2f} from {tail['from']:,.0f} on (distance "
        f"{tail['distance']:.3f}, of a lognormal {tail['lognormal_distance']:.3f})."
    )
    pictures = "\n".join(f"![Figure {number}]({one['folder']}/figure-{number}.png)" for number in range(2, 8))
    return paragraphs(f"## {name}", opening, _methods(one), _claims(one), pictures)


def _methods(one: Results) -> str:
    causal, moved = one["others"]["causal"], one["others"]["bounded_moves"]
    rows = [
        *(_row(f"threshold {percent(point['threshold'], decimals=1)}", point) for point in one["baseline"]),
        *(_row(f"long-term, {point['limit']}", point) for point in one["long_term"]),
        *(_row(f"long-term-causal, {point['limit']}", point) for point in causal),
        *(_row(f"bounded-moves {percent(point['threshold'], decimals=1)}", point) for point in moved),
        _row("greedy", one["others"]["greedy"]),
        _row("naive-move", one["others"]["naive_move"]),
    ]
    return table(["method", "load difference, mean", "at most", "excess, mean", "switches", "reconfigurations"], rows)


def _row(name: str, point: Results) -> list[str]:
    numbers = (point["load_difference_mean"], point["load_difference_max"], point["excess_mean"])
    return [name, *(f"{value:,.0f}" for value in numbers), f"{point['switches']:,}", f"{point['reconfigurations']:,}"]


def _claims(one: Results) -> str:
    saved = one["claims"]["saved"]
    if not saved:
        return "No threshold makes the baseline as balanced as the long-term heuristic with any reconfigurations."
    rows = [[str(row["limit"]), str(row["long_term"]), str(row["baseline"]), percent(row["saved"])] for row in saved]
    return paragraphs(
        "Switches of the long-term heuristic, and the fewest of the baseline at an equal or smaller load difference:",
        table(["reconfigurations", "long-term", "baseline", "saved"], rows),
    )


def _holds(value: float | None, paper: float) -> str:
    return "-" if value is None else "yes" if value >= paper else "no"
