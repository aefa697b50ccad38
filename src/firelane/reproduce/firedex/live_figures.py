"""Figures 7 to 9 live: filled markers are live, lines what the same publications do on simulated links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firelane.plots import COLOURS, bars, figure, save_figure
from firelane.reproduce.firedex.figures import classes_axis, log_ms_axis
from firelane.reproduce.firedex.live import SHOWN_AS
from firelane.reproduce.firedex.runs import CLASSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = dict[str, Any]
PLACES = np.arange(CLASSES)
SOURCES = {"promised by the plan": "promised", "simulated": "simulated", "live": "live"}


def draw_live(live: Results, output: Path) -> None:
    """live-7.png to live-9.png."""
    _figure_7(live, output / "live-7.png")
    _figure_8(live, output / "live-8.png")
    _figure_9(live, output / "live-9.png")


def _figure_7(live: Results, path: Path) -> None:
    drawn, axes = figure(8, 4.2)
    for number, (switch, rows) in enumerate(_switches(live)):
        _both(axes, rows, "success", COLOURS[number], switch, scale=1.0)
    classes_axis(axes)
    axes.set(ylabel="delivered", ylim=(-0.03, 1.05), title=f"What each class gets delivered, live: {_links(live)}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    _legend(axes, "lower left")
    save_figure(drawn, path)


def _figure_8(live: Results, path: Path) -> None:
    drawn, axes = figure(8, 4.2)
    for number, (switch, rows) in enumerate(_switches(live)):
        _both(axes, rows, "delay_s", COLOURS[number], switch, scale=1e3)
        nothing = [str(k) for k, row in enumerate(rows) if row["delay_s"]["live"] is None]
        if nothing:
            text = f"{switch}: nothing of class\n{' and '.join(nothing)} is delivered"
            axes.text(0.99, 0.9, text, color=COLOURS[number], ha="right", fontsize=8, transform=axes.transAxes)
    classes_axis(axes)
    log_ms_axis(axes)
    axes.set(ylabel="mean delay, ms (log scale)", title=f"How late what is delivered is, live: {_links(live)}")
    _legend(axes, "center left")
    save_figure(drawn, path)


def _figure_9(live: Results, path: Path) -> None:
    found = live["configurations"]
    order = sorted(found, key=lambda name: found[name]["drops"] != "none")
    names = [name.replace(" + ", "\n+ ").replace("-adjusted", "-\nadjusted") for name in order]
    drawn, axes = figure(12, 4.6)
    rates = [found[name]["utility"]["rate"] for name in order]
    bars(axes, names, {shown: [one[source] for one in rates] for shown, source in SOURCES.items()}, percent=True)
    for label in list(axes.texts):
        label.remove()  # too coarse for differences of a point
    for series, source in zip(axes.containers, SOURCES.values(), strict=True):
        axes.bar_label(series, [f"{100 * one[source]:.1f}" for one in rates], fontsize=6.5, padding=1)
    axes.set(ylabel="utility rate", ylim=(0, 1.12), title="How much of the information's value gets through, live")
    edge = sum(found[name]["drops"] == "none" for name in order) - 0.5
    axes.axvline(edge, color="grey", linewidth=0.8)
    axes.text(edge - 0.05, 1.06, "buffer drops only", ha="right", fontsize=9, color="grey")
    axes.text(edge + 0.05, 1.06, "drop rates, 10 % headroom", ha="left", fontsize=9, color="grey")
    drawn.legend(loc="outside lower center", ncols=3, frameon=False)
    save_figure(drawn, path)


def _switches(live: Results) -> list[tuple[str, list[Results]]]:
    found = live["configurations"]
    return [(switch, found[name]["classes"]) for switch, name in SHOWN_AS.items() if name in found]


def _both(axes: Axes, rows: list[Results], what: str, colour: str, label: str, *, scale: float) -> None:
    """The simulation as a line, live as markers on it."""
    simulated, live = (
        [float("nan") if row[what][source] is None else scale * row[what][source] for row in rows]
        for source in ("simulated", "live")
    )
    axes.plot(PLACES, simulated, color=colour, linewidth=1.2)
    axes.plot(PLACES, live, color=colour, label=label, marker="o", linestyle="none", markersize=5)


def _legend(axes: Axes, where: Any) -> None:
    title = "lines: simulated, markers: live"
    axes.legend(loc=where, title=title, fontsize=8, title_fontsize=8, frameon=False, alignment="left")


def _links(live: Results) -> str:
    return f"links of {live['link_bps'] / 1e6:g} Mbit/s"
