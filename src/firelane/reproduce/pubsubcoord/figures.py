"""The figures of the PubSubCoord paper drawn again, and the city that is balanced live."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firelane.plots import COLOURS, figure, save_figure
from firelane.reproduce.pubsubcoord.deadlines import MULTI, SINGLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = dict[str, Any]
MEAN, HIGH, LINKS, OTHER = COLOURS[1], COLOURS[0], COLOURS[6], COLOURS[2]
PAPER_S = (0.010, 0.020)  # Figure 7c: how long ZooKeeper takes to answer, least and most
OF_LINKS = {"L2": (COLOURS[3], "L2, to the router"), "L3": (COLOURS[4], "L3, from it"), "L1": ("0.65", "L1, direct")}
ROOM = 1.05  # above the highest
HATCH = {SINGLE: "", MULTI: "////"}


def draw(results: Results, output: Path) -> None:
    """figure-6.png, figure-7.png, figure-8.png and balancing.png."""
    _figure_6(results["figure_6"], output / "figure-6.png")
    _figure_7(results, output / "figure-7.png")
    _figure_8(results["figure_8"], output / "figure-8.png")
    _balancing(results["balancing"], output / "balancing.png")


def _milliseconds(points: list[Results], which: str) -> list[float]:
    return [1e3 * point["latency_s"][which] for point in points]


def _figure_6(points: list[Results], path: Path) -> None:
    from matplotlib.lines import Line2D

    drawn, axes = figure(7.5, 4.4)
    for number, topics in enumerate(sorted({point["topics"] for point in points})):
        some = [point for point in points if point["topics"] == topics]
        places = [100 * point["locality"] for point in some]
        colour = COLOURS[number]
        axes.plot(places, _milliseconds(some, "mean"), "o-", color=colour, label=f"{topics} topics a network")
        axes.plot(places, [1e3 * point["expected_s"] for point in some], ":", color=colour)
    handles, _ = axes.get_legend_handles_labels()
    handles.append(Line2D([], [], linestyle=":", color=LINKS, label="the links alone"))
    axes.set(xlabel="data locality: % of topics that nobody elsewhere wants", ylabel="end to end, ms, mean")
    axes.set(title="6: the more stays local, the sooner it is there", ylim=(0, None))
    axes.legend(handles=handles, frameon=False, fontsize=8)
    save_figure(drawn, path)


def _figure_7(results: Results, path: Path) -> None:
    drawn, axes = figure(13, 7.4, columns=3, rows=2)
    more, routers, crowd = results["figure_7a"], results["figure_7b"]["points"], results["figure_7c"]
    _latencies(axes[0][0], [point["topics"] for point in more], more, "7a: more topics", "topics of a network")
    _latencies(axes[0][1], [point["routers"] for point in routers], routers, "7b: more routers", "routers")
    _coordination(axes[0][2], crowd)
    axes[1][0].plot([point["topics"] for point in more], [100 * point["edge_load"] for point in more], "o-", color=MEAN)
    axes[1][0].set(
        xlabel="topics of a network", ylabel="% of a core, an edge", title="7d: how busy edges are", ylim=(0, None)
    )
    counts = [point["routers"] for point in routers]
    axes[1][1].plot(counts, [100 * np.mean(point["router_loads"]) for point in routers], "o-", color=MEAN, label="mean")
    axes[1][1].plot(
        counts, [100 * max(point["router_loads"]) for point in routers], "^--", color=HIGH, label="the busiest"
    )
    axes[1][1].set(
        xlabel="routers", ylabel="% of its share of a core, a router", title="7e: how busy routers are", ylim=(0, None)
    )
    axes[1][1].legend(frameon=False, fontsize=8)
    _nodes(axes[1][2], crowd)
    axes[1][1].set_ylim(0, ROOM * axes[1][1].get_ylim()[1])
    for one in (axes[0][1], axes[1][1]):
        one.set_xticks(counts)
    save_figure(drawn, path)


def _latencies(axes: Axes, places: list[int], points: list[Results], title: str, label: str) -> None:
    for which, colour, style in (("mean", MEAN, "o-"), ("p99", OTHER, "s-"), ("max", HIGH, "^--")):
        name = {"mean": "mean", "p99": "99 %", "max": "largest"}[which]
        axes.plot(places, _milliseconds(points, which), style, color=colour, label=name)
    axes.axhline(80, color=LINKS, linestyle=":", label="the links alone")
    axes.set(title=title, xlabel=label, ylabel="end to end, ms", ylim=(0, ROOM * axes.get_ylim()[1]))
    _legend_below(axes)


def _coordination(axes: Axes, points: list[Results]) -> None:
    counts = [point["joining"] for point in points]
    lines = {
        "a request, by ZooKeeper": [1e3 * point["zookeeper_mean_s"] for point in points],
        "a request, by a broker": [1e3 * point["probe"]["median"] for point in points],
        "another broker knows": [1e3 * point["known"]["median"] for point in points],
        "the topic has a router": [1e3 * point["assigned"]["median"] for point in points],
    }
    for (name, values), colour in zip(lines.items(), (COLOURS[1], COLOURS[5], COLOURS[2], COLOURS[3]), strict=True):
        axes.plot(counts, values, "o-", color=colour, label=name)
    low, high = PAPER_S
    axes.axhspan(1e3 * low, 1e3 * high, color=LINKS, alpha=0.18, linewidth=0, label="a request, in the paper")
    axes.set(yscale="log", title="7c: thousands join at once", xlabel="subscribers that join")
    axes.set_ylabel("ms, median (by ZooKeeper: mean)")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _legend_below(axes)


def _nodes(axes: Axes, points: list[Results]) -> None:
    counts = [point["joining"] for point in points]
    axes.plot(counts, [point["znodes"] for point in points], "o-", color=MEAN, label="znodes")
    axes.plot(counts, [point["watches"] for point in points], "s-", color=OTHER, label="watches")
    axes.set(title="7f: what ZooKeeper holds", xlabel="subscribers that join", ylim=(0, None))
    axes.legend(frameon=False, fontsize=8)


def _legend_below(axes: Axes, columns: int = 2, **more: Any) -> None:
    """Where it hides nothing and takes no height from the lines."""
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=columns, **more)


def _figure_8(points: list[Results], path: Path) -> None:
    drawn, axes = figure(13, 4.8, columns=3)
    for loss, colour in ((0.0, MEAN), (0.01, HIGH)):
        some = [point for point in points if point["name"] == "8a" and point["first"]["loss"] == loss]
        delays = [1e3 * point["first"]["delay_s"] for point in some]
        name = "1 % lost" if loss else "nothing lost"
        axes[0].plot(delays, _milliseconds(some, "mean"), "o-", color=colour, label=f"mean, {name}")
        axes[0].plot(delays, _milliseconds(some, "max"), "^--", color=colour, label=f"largest, {name}")
    axes[0].set(title="8a: one path", xlabel="delay of each link, ms", ylabel="end to end, ms", ylim=(0, None))
    _legend_below(axes[0])
    _cases(axes[1], points)
    _overhead(axes[2], points)
    save_figure(drawn, path)


def ways(points: list[Results]) -> dict[str, list[Results]]:
    """The cases of Table 1, by way, those that were run."""
    found = {way: [one for one in points if one["way"] == way and one["name"] != "8a"] for way in (SINGLE, MULTI)}
    return {way: some for way, some in found.items() if some}


_WAYS = {SINGLE: "one path", MULTI: "two paths"}
_LARGEST = "the largest of each"


def _cases(axes: Axes, points: list[Results]) -> None:
    found = ways(points)
    width = 0.8 / len(found)
    for number, (way, some) in enumerate(found.items()):
        place = np.arange(len(some)) + (number - (len(found) - 1) / 2) * width
        colour = (MEAN, OTHER)[number]
        axes.bar(place, _milliseconds(some, "mean"), width, color=colour, label=f"{_WAYS[way]}, mean")
        label = _LARGEST if number == len(found) - 1 else None
        axes.plot(place, _milliseconds(some, "max"), "v", color=LINKS, markersize=4, label=label)
        axes.set_xticks(np.arange(len(some)), [one["name"].removeprefix("case ") for one in some])
    axes.set(title="8b: the cases of Table 1", xlabel="case", ylabel="end to end, ms")
    handles, _ = axes.get_legend_handles_labels()
    _legend_below(axes, handles=sorted(handles, key=lambda one: one.get_label() == _LARGEST))


def _overhead(axes: Axes, points: list[Results]) -> None:
    from matplotlib.patches import Patch

    found = ways(points)
    width = 0.8 / len(found)
    for number, (way, some) in enumerate(found.items()):
        place = np.arange(len(some)) + (number - (len(found) - 1) / 2) * width
        bottom = np.zeros(len(some))
        for link, (colour, _) in OF_LINKS.items():
            height = np.array([one["passed"][link] / max(1, one["samples"]) for one in some])
            axes.bar(
                place, height, 0.95 * width, bottom=bottom, color=colour, hatch=HATCH[way], edgecolor="w", linewidth=0
            )
            bottom += height
        axes.set_xticks(np.arange(len(some)), [one["name"].removeprefix("case ") for one in some])
    axes.set(title="8c: bytes on the links, for each message", xlabel="case", ylabel="bytes, both ways")
    links = [Patch(facecolor=colour, label=name) for colour, name in OF_LINKS.values()]
    plain = [Patch(facecolor="0.4", edgecolor="w", hatch=HATCH[way], linewidth=0, label=_WAYS[way]) for way in found]
    _legend_below(axes, handles=[*links, *plain])


def _balancing(runs: list[Results], path: Path) -> None:
    drawn, axes = figure(6.5 * len(runs), 4.2, columns=len(runs))
    for one, run in zip(np.atleast_1d(axes), runs, strict=True):
        hours = [6 + number * run["minutes"] / 60 for number in range(1, run["steps"] + 1)]
        lines = {
            "hashed": (run["hashed_difference_hz"], COLOURS[3], "-"),
            "assigned once": (run["still_difference_hz"], COLOURS[4], "-"),
            "known exactly": (run["exact_difference_hz"], LINKS, ":"),
            "live": (run["counted_difference_hz"], MEAN, "o-"),
        }
        for name, (values, colour, style) in lines.items():
            share = [100 * value / run["mean_router_hz"] for value in values]
            one.plot(hours, share, style, color=colour, label=name)
        low, high = 100 * np.array(run["predicted_range_hz"]) / run["mean_router_hz"]
        one.fill_between(hours, low, high, color=LINKS, alpha=0.25, linewidth=0, label="predicted")
        one.set(title=f"{run['strategy']}: {run['moves']} moves", xlabel="hour of the day", ylim=(0, None))
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("load difference, % of a router's load")
    drawn.legend(*first.get_legend_handles_labels(), frameon=False, fontsize=9, loc="outside lower center", ncols=5)
    save_figure(drawn, path)
