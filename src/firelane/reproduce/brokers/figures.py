"""The broker-cluster figures drawn again, and ours in the same axes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firelane.balance import Loads
from firelane.plots import COLOURS, figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = dict[str, Any]
SHOWN = 6  # topics in Figure 2a
BASELINE, LONG_TERM, OURS, CAUSAL = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[5]


def draw(results: Results, loads: Loads, output: Path) -> None:
    """figure-2.png to figure-7.png."""
    _figure_2(results, loads, output / "figure-2.png")
    _figure_3(results, output / "figure-3.png")
    _figure_4(results, output / "figure-4.png")
    _figure_5(results, output / "figure-5.png")
    _figure_6(results, output / "figure-6.png")
    _figure_7(results, output / "figure-7.png")


def _figure_2(results: Results, loads: Loads, path: Path) -> None:
    drawn, axes = figure(11, 4.2, columns=2)
    hours = loads.times_s / 3600
    largest = np.argsort(-loads.load.mean(axis=0))[:SHOWN]
    for number, topic in enumerate(largest.tolist()):
        axes[0].plot(hours, loads.load[:, topic], color=COLOURS[number], label=loads.topics[topic], linewidth=1)
    axes[0].set(xlabel="hours", ylabel=loads.unit, title="2a: the largest topics over time")
    axes[0].legend(fontsize=8, frameon=False, ncols=2)
    size = np.sort(loads.load[loads.load > 0])
    above = 1.0 - np.arange(len(size)) / len(size)
    few = np.unique(np.geomspace(1, len(size), 500).astype(int)) - 1
    axes[1].loglog(size[::-1][few], above[::-1][few], color=LONG_TERM, label="seen")
    fit = results["tail"]
    tail = np.geomspace(fit["from"], size[-1], 50)
    axes[1].loglog(
        tail, fit["share"] * (tail / fit["from"]) ** -fit["index"], "--", color=BASELINE,
        label=f"Pareto, index {fit['index']:.2f}",
    )  # fmt: skip
    axes[1].set(xlabel=loads.unit, ylabel="share of topics that are larger", title="2b: how large topics are")
    axes[1].legend(fontsize=8, frameon=False)
    save_figure(drawn, path)


def _figure_3(results: Results, path: Path) -> None:
    drawn, axes = figure(11, 4.2, columns=2)
    shares = [100 * point["threshold"] for point in results["baseline"]]
    for column, (value, title) in enumerate(
        (("load_difference_mean", "3a: load difference, mean"), ("switches", "3b: switches in all"))
    ):
        axes[column].plot(shares, [point[value] for point in results["baseline"]], "o-", color=BASELINE)
        axes[column].set(xscale="log", title=title, xlabel="threshold, % of what a broker carries on average")
    axes[0].set_ylabel(results["unit"])
    drawn.suptitle("The baseline: a high threshold saves switches and costs balance")
    save_figure(drawn, path)


def _figure_4(results: Results, path: Path) -> None:
    drawn, axes = figure(8, 4.2)
    series = results["series"]
    for name, share, colour in zip(
        ("threshold_low", "threshold_high"), series["thresholds"], (LONG_TERM, BASELINE), strict=True
    ):
        axes.plot(
            series["hours"], series["difference"][name], color=colour, linewidth=1, label=f"threshold {share:.1%}"
        )
    _over_time(axes, results, "4: two thresholds with equally many reconfigurations")
    save_figure(drawn, path)


def _figure_5(results: Results, path: Path) -> None:
    drawn, axes = figure(11, 4.6, columns=2)
    others = results["others"]
    shown = (
        ("baseline", results["baseline"], BASELINE, "o"),
        ("long-term, knowing the day", results["long_term"], LONG_TERM, "s"),
        ("long-term, from the past only", others["causal"], CAUSAL, "^"),
        ("bounded moves (ours)", others["bounded_moves"], OURS, "D"),
    )
    for name, points, colour, marker in shown:
        difference = [point["load_difference_mean"] for point in points]
        for column, value in enumerate(("reconfigurations", "switches")):
            order = np.argsort([point[value] for point in points])
            axes[column].plot(
                np.array([point[value] for point in points])[order], np.array(difference)[order],
                marker=marker, markersize=4, color=colour, label=name,
            )  # fmt: skip
    axes[0].set(xlabel="reconfigurations", ylabel=f"load difference, mean {results['unit']}", title="5a")
    axes[1].set(xlabel="switches in all", title="5b, axes exchanged")
    for one in axes:
        one.set_xscale("symlog", linthresh=1)
        one.set_yscale("log")
    axes[0].legend(fontsize=8, frameon=False)
    drawn.suptitle("What balance costs: lower and further left is better")
    save_figure(drawn, path)


def _figure_6(results: Results, path: Path) -> None:
    drawn, axes = figure(11, 4.2, columns=2)
    series = results["series"]
    names = {
        "threshold_low": (f"threshold {series['thresholds'][0]:.1%}", COLOURS[3]),
        "threshold_high": (f"threshold {series['thresholds'][1]:.1%}", BASELINE),
        "long_term_3": ("long-term, 3 reconfigurations", LONG_TERM),
    }
    for name, (label, colour) in names.items():
        axes[0].plot(series["hours"], series["difference"][name], color=colour, linewidth=1, label=label)
        axes[1].plot(series["hours"], np.cumsum(series["switches"][name]), color=colour, label=label)
    _over_time(axes[0], results, "6a: load difference")
    axes[1].set(xlabel="hours", title="6b: switches so far")
    save_figure(drawn, path)


def _figure_7(results: Results, path: Path) -> None:
    drawn, axes = figure(8, 4.2)
    series = results["series"]
    for name, label, colour in (
        ("threshold_never", "placed once by the first minute", BASELINE),
        ("long_term_0", "placed once, knowing the day", LONG_TERM),
    ):
        axes.plot(series["hours"], series["difference"][name], color=colour, linewidth=1, label=label)
    _over_time(axes, results, "7: no reconfigurations")
    save_figure(drawn, path)


def _over_time(axes: Axes, results: Results, title: str) -> None:
    axes.set(xlabel="hours", ylabel=f"load difference, {results['unit']}", title=title)
    axes.legend(fontsize=8, frameon=False)
