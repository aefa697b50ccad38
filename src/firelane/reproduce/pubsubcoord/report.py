"""The report of the PubSubCoord reproduction, in Markdown: every number in it is taken from the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from firelane.reproduce.pubsubcoord.chapters import (
    balancing_chapter,
    coordination_chapter,
    locality_chapter,
    paths_chapter,
    scale_chapter,
)
from firelane.reproduce.pubsubcoord.deadlines import MULTI, SINGLE
from firelane.reproduce.pubsubcoord.figures import PAPER_S, ways
from firelane.reproduce.wording import NOTHING, paragraphs, percent, seconds, table

Results = dict[str, Any]
WITH_A_GOOD_PATH = 5  # cases 1 to 5
YES, NO, AS_GOOD = "yes", "no", "as good"
ALIKE = 0.01  # of two delays: what is nearer than that is as good
ON_A_LINE = 0.98  # correlation, or more


def report(results: Results) -> str:
    """The whole report."""
    parts = (
        _opening(results),
        _in_short(results),
        locality_chapter(results["figure_6"]),
        scale_chapter(results["figure_7a"], results["figure_7b"]),
        coordination_chapter(results["figure_7c"]),
        paths_chapter(results["figure_8"]),
        balancing_chapter(results["balancing"]),
    )
    return paragraphs(*parts) + "\n"


def _opening(results: Results) -> str:
    command = f"firelane reproduce pubsubcoord{' --quick' if results['quick'] else ''} --seed {results['seed']}"
    return paragraphs(
        "# PubSubCoord, run again",
        "Figures 6 to 8 and Table 1 of *An Autonomous and Dynamic Coordination and Discovery Service for Wide-Area "
        f"Peer-to-peer Publish/Subscribe* (DEBS 2017), by `{command}`, with Firelane {results['firelane']}, in "
        f"{results['seconds']:.0f} s{_later(results)}. Edges, routers and ZooKeeper are processes, clients are MQTT "
        "connections. The paper's text gives few numbers beside its drawings; where it does, they stand beside ours.",
        "How it fits one machine of two cores:",
        "\n".join(f"* {one}" for one in _sizes(results)),
    )


def _later(results: Results) -> str:
    """Which chapters are of other runs than the rest, where results were put together of several."""
    of = {"figure_7c_run": "the chapter on thousands that join", "balancing_run": "the one on balancing"}
    return "".join(f"; {name} is of {results[key]}" for key, name in of.items() if key in results)


def _sizes(results: Results) -> list[str]:
    crowd = results["figure_7c"]
    return [
        "As in the paper a message is 64 bytes, and a publisher sends one every 50 ms; reliability is QoS 1. Brokers "
        "keep messages in memory only, as the paper's do.",
        "The paper's netem is a relay in front of brokers that holds back what passes: 10 ms one way between a client "
        "and its edge (Figure 6), 40 ms between an edge and a router (Figures 6, 7a and 7b). Of a lossy link 1 % of "
        "TCP segments come a retransmission time-out later (the round trip and 0.2 s), and what is behind them waits.",
        f"Figure 6: {results['networks']} networks (5) and {results['routers']} routers (5), with a fifth of the "
        "paper's topics.",
        f"Figures 7a and 7b: {results['scale_networks']} networks that subscribe (100), to all topics of another, and "
        f"up to {max(point['routers'] for point in results['figure_7b']['points'])} routers (5 to 40). A router has a "
        f"share of a core{'' if results['figure_7b']['limited'] else ' (only reckoned: no quota can be set here)'} of "
        "which it needs nine tenths when it is alone, as the paper's are nearly full when they are five.",
        f"Figures 7c and 7f: {results['crowd_networks']} networks (100) with up to "
        f"{max(point['topics'] for point in crowd):,} topics each (100): as many edge and topic pairs as in the paper. "
        "Every subscriber is a connection of its own.",
        f"Figure 8: {results['path_s']:g} s each (the paper: 10 000 messages).",
    ]


def _in_short(results: Results) -> str:
    rows = [
        *_locality_rows(results["figure_6"]),
        *_scale_rows(results["figure_7a"], results["figure_7b"]["points"]),
        *_crowd_rows(results["figure_7c"]),
        *_path_rows(results["figure_8"]),
        *(_city_row(run) for run in results["balancing"]),
    ]
    return paragraphs(
        "## In short",
        "*Holds* is whether what the paper says is so here: delays that differ by less than "
        f"{percent(ALIKE)} are as good as each other. Where the paper says nothing there is nothing to hold.",
        table(["", "paper", "here", "holds"], rows),
    )


def shorter(this_s: float, than_s: float) -> str:
    """Whether a delay is shorter than another, as good, or not."""
    if abs(this_s - than_s) < ALIKE * than_s:
        return AS_GOOD
    return YES if this_s < than_s else NO


def rising(values: Sequence[float]) -> str:
    """Whether each is more than the one before; nothing can be said of one."""
    if len(values) < 2:
        return NOTHING
    return YES if bool(np.all(np.diff(values) > 0)) else NO


def on_a_line(places: Sequence[float], values: Sequence[float], *, falling: bool = False) -> str:
    """Whether they rise, or fall, and do it linearly; of two values nothing can be said."""
    if len(values) < 3:
        return NOTHING
    sign = -1 if falling else 1
    if rising([sign * one for one in values]) == NO:
        return NO
    straight = sign * np.corrcoef(places, values)[0, 1] >= ON_A_LINE
    return YES if straight else f"{NO}: {'falls' if falling else 'grows'}, not linearly"


def _locality_rows(points: list[Results]) -> list[list[str]]:
    most = max(point["topics"] for point in points)
    some = sorted((point for point in points if point["topics"] == most), key=lambda point: point["locality"])
    first, last = some[0], some[-1]
    said = (
        f"{seconds(first['latency_s']['mean'])} at {percent(first['locality'])}, "
        f"{seconds(last['latency_s']['mean'])} at {percent(last['locality'])} "
        f"(links alone: {seconds(first['expected_s'])}, {seconds(last['expected_s'])})"
    )
    holds = rising([-point["latency_s"]["mean"] for point in some])
    return [["latency, the more topics stay local", "falls", said, holds]]


def _scale_rows(more: list[Results], routers: list[Results]) -> list[list[str]]:
    fit = np.corrcoef([point["topics"] for point in more], [point["edge_load"] for point in more])[0, 1]
    shares = [float(np.mean(point["router_loads"])) for point in routers]
    loads = ", ".join(percent(one) for one in shares)
    high_s = [point["latency_s"]["p99"] for point in routers]
    high = ", ".join(seconds(one) for one in high_s)
    busy = f"{percent(more[0]['edge_load'])} to {percent(more[-1]['edge_load'])} (correlation {fit:.2f})"
    numbers = [point["routers"] for point in routers]
    counts = ", ".join(str(one) for one in numbers)
    grows = on_a_line([point["topics"] for point in more], [point["edge_load"] for point in more])
    falls = on_a_line(numbers, shares, falling=True)
    sooner = (YES if max(high_s[1:]) < high_s[0] else NO) if len(high_s) > 1 else NOTHING
    return [
        ["how busy an edge is, by the number of topics", "grows linearly", busy, grows],
        [f"how busy routers are, if they are {counts}", "falls linearly", loads, falls],
        ["latency of 99 % then", "falls once they are not full", high, sooner],
    ]


def _crowd_rows(points: list[Results]) -> list[list[str]]:
    first, last = points[0], points[-1]
    many = f"{first['joining']:,} and {last['joining']:,}" if len(points) > 1 else f"{first['joining']:,}"
    both = [first, last] if len(points) > 1 else [first]

    def of(*keys: str) -> str:
        found = [point[keys[0]] if len(keys) == 1 else point[keys[0]][keys[1]] for point in both]
        return " and ".join(seconds(one) for one in found)

    low_s, high_s = PAPER_S
    means_s = [point["zookeeper_mean_s"] for point in points]
    asked = f"a request to ZooKeeper while {many} join at once, mean"
    within = f"{NO}: shorter" if max(means_s) < low_s else YES if max(means_s) <= high_s else f"{NO}: longer"
    return [
        [asked, f"{1e3 * low_s:g} to {seconds(high_s)}", of("zookeeper_mean_s"), within],
        ["the same as a broker sees it, median", NOTHING, of("probe", "median"), NOTHING],
        ["from SUBSCRIBE until another broker knows, median", NOTHING, of("known", "median"), NOTHING],
        ["from SUBSCRIBE until the topic has a router, median", NOTHING, of("assigned", "median"), NOTHING],
        *(
            [name, "grow", " and ".join(f"{point[name]:,.0f}" for point in both), rising([one[name] for one in both])]
            for name in ("znodes", "watches")
        ),
    ]


def _path_rows(points: list[Results]) -> list[list[str]]:
    found = ways(points)
    if MULTI not in found:
        return [["two paths", "cases 1 to 5 better than any single path", "not run", NOTHING]]
    mean = {way: {one["name"]: one["latency_s"]["mean"] for one in some} for way, some in found.items()}
    good = [f"case {number}" for number in range(1, WITH_A_GOOD_PATH + 1) if f"case {number}" in mean[MULTI]]
    worst, best = max(mean[MULTI][name] for name in good), min(mean[SINGLE].values())
    slow = [one for one in points if one["name"] == "8a" and one["first"]["loss"]][-1]
    worst_of_all = max(mean[MULTI].values())
    better = sum(mean[MULTI][name] < mean[SINGLE][name] for name in mean[MULTI])
    sizes = {way: np.mean([_bytes(one) for one in some]) for way, some in found.items()}
    return [
        [
            "two paths, the worst of cases 1 to 5; one path, the best case",
            "better",
            f"{seconds(worst)}; {seconds(best)}",
            shorter(worst, best),
        ],
        [
            f"two paths, the worst case; one path of {seconds(slow['first']['delay_s'])} links that lose 1 %",
            "better",
            f"{seconds(worst_of_all)}; {seconds(slow['latency_s']['mean'])}",
            shorter(worst_of_all, slow["latency_s"]["mean"]),
        ],
        ["cases in which two paths are better than one", NOTHING, f"{better} of {len(mean[MULTI])}", NOTHING],
        [
            "bytes on the links, two paths to one",
            "more",
            f"{sizes[MULTI] / sizes[SINGLE]:.2f} times",
            YES if sizes[MULTI] > sizes[SINGLE] else NO,
        ],
    ]


def _bytes(one: Results) -> float:
    return float(sum(one["passed"].values()) / max(1, one["samples"]))


def _city_row(run: Results) -> list[str]:
    share = [float(np.mean(run[f"{name}_difference_hz"])) / run["mean_router_hz"] for name in (
        "counted", "predicted", "exact", "hashed")]  # fmt: skip
    said = (
        f"load difference {percent(share[0], decimals=1)} of a router's load with {run['moves']} moves; predicted "
        f"{percent(share[1], decimals=1)} with {np.median(run['predicted_moves']):.0f} (loads known exactly: "
        f"{percent(share[2], decimals=1)} with {run['exact_moves']}); hashed {percent(share[3])}; "
        f"{run['lost']} of {run['messages']:,} messages lost"
    )
    return [f"a city, balanced live by `{run['strategy']}`", NOTHING, said, NOTHING]
