"""Figures 4 to 7 of the PlanEMQX paper, drawn from live runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from firelane.plots import COLOURS, bars, figure, save_figure
from firelane.reproduce.planemqx.experiments import CATEGORIES

Results = dict[str, Any]
WAYS = {"default": COLOURS[0], "planned": COLOURS[2]}
SOURCES = ("predicted", "simulated", "live")
SHORT = {"real-time": "RT", "streaming": "ST", "transactional": "TS", "analytics": "AN"}


def draw(results: Results, output: Path) -> None:
    """figure-4.png to figure-7.png."""
    _figure_4(results, output / "figure-4.png")
    _figure_5(results, output / "figure-5.png")
    _figure_6(results, output / "figure-6.png")
    _figure_7(results, output / "figure-7.png")


def _figure_4(results: Results, path: Path) -> None:
    drawn, axes = figure(7.5, 4.2)
    points = results["bandwidths"]
    for number, source in enumerate(SOURCES):
        found = [(one["bandwidth_bps"] / 1e6, one[f"{source}_s"]) for one in points if one[f"{source}_s"] is not None]
        if found:
            mbps, delay_s = zip(*found, strict=True)
            axes.plot(mbps, 1e3 * np.array(delay_s), "o-", color=COLOURS[number], label=source)
    axes.set(
        xlabel="bandwidth, Mbit/s", ylabel="mean delay, ms", yscale="log", title="4: without a plan, at each bandwidth"
    )
    axes.legend(frameon=False)
    save_figure(drawn, path)


def _figure_5(results: Results, path: Path) -> None:
    drawn, axes = figure(11, 4.4, columns=2)
    for one, (way, title) in zip(axes, (("default", "5: default"), ("planned", "5: planned")), strict=True):
        found = results["both"][way]["categories"]
        series = {
            source: [1e3 * (found[name]["delay_s"][source] or np.nan) for name in CATEGORIES] for source in SOURCES
        }
        bars(one, [SHORT[name] for name in CATEGORIES], series)
        one.set(title=title, ylabel="mean delay, ms")
    axes[0].legend(frameon=False, fontsize=8)
    most = max(one.get_ylim()[1] for one in axes)
    for one in axes:
        one.set_ylim(0, most)
    save_figure(drawn, path)


def _figure_6(results: Results, path: Path) -> None:
    drawn, axes = figure(9, 4.4)
    for shift, (way, colour) in zip((-0.18, 0.18), WAYS.items(), strict=True):
        boxes = [results["both"][way]["categories"][name]["box_s"] for name in CATEGORIES]
        stats = [
            {
                "whislo": 1e3 * one[0],
                "q1": 1e3 * one[1],
                "med": 1e3 * one[2],
                "q3": 1e3 * one[3],
                "whishi": 1e3 * one[5],
            }
            for one in boxes
        ]
        axes.bxp(
            stats, positions=np.arange(len(CATEGORIES)) + shift, widths=0.3, showfliers=False, patch_artist=True,
            boxprops={"facecolor": colour, "alpha": 0.6}, medianprops={"color": "black"},
        )  # fmt: skip
        axes.plot(
            np.arange(len(CATEGORIES)) + shift, [1e3 * one[6] for one in boxes], "_", color=colour, label=f"{way}, most"
        )
        axes.fill_between([], [], color=colour, alpha=0.6, label=way)
    axes.set_xticks(np.arange(len(CATEGORIES)), CATEGORIES)
    axes.set(ylabel="delay, ms", yscale="log", title="6: delays live; boxes 25 to 75 %, whiskers 5 to 99 %")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    save_figure(drawn, path)


def _figure_7(results: Results, path: Path) -> None:
    drawn, axes = figure(12, 6.4, rows=2)
    topics = sorted(results["both"]["planned"]["topics"], key=lambda name: int(name.rpartition("/")[2]))
    for one, way in zip(axes, WAYS, strict=True):
        found = results["both"][way]["topics"]
        for number, category in enumerate(CATEGORIES):
            delay_ms = [1e3 * found.get(name, {}).get(category, np.nan) for name in topics]
            one.plot(range(len(topics)), delay_ms, "o", color=COLOURS[number], label=category)
        one.set_xticks(range(len(topics)), [name.rpartition("/")[2] for name in topics])
        one.set(ylabel="mean delay, ms", title=f"7: {way}, topics that several categories share")
    axes[0].legend(frameon=False, fontsize=8, ncols=4)
    axes[1].set_xlabel("topic")
    save_figure(drawn, path)
