"""The demo's picture: how late data is and how much of its value arrives, over time, with the phases of the fire."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firelane.demo.fire import LOAD
from firelane.demo.outcome import Demo
from firelane.plots import COLOURS, figure, save_figure
from firelane.units import si

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES = ("#FFFFFF", "#F3EBDD")  # behind the phases in turn


def draw(demo: Demo, path: Path) -> Path:
    """Delay on the left, value on the right, a colour for each broker."""
    drawn, (left, right) = figure(11, 4.6, columns=2)
    for number, (name, one) in enumerate((("plain broker", demo.plain), ("Firelane", demo.firelane))):
        steps, colour = one.steps, COLOURS[number]
        left.plot(steps.middle_s, steps.alarm_delay_s, "o-", color=colour, markersize=3, label=f"{name}, alarms")
        left.plot(steps.middle_s, steps.delay_s, "--", color=colour, linewidth=1, label=f"{name}, everything")
        right.plot(steps.middle_s, steps.value, "o-", color=colour, markersize=3, label=f"{name}, all that arrived")
        right.plot(steps.middle_s, steps.in_time, "--", color=colour, linewidth=1, label=f"{name}, late counts less")
    left.set(title="How late it is (mean delay, log scale)", yscale="log")
    left.margins(y=0.12)
    left.yaxis.set_major_formatter(lambda value, _: si(float(f"{value:.2g}"), "s"))
    right.set(title="Value delivered, of what there was", ylim=(0, 1.15), yticks=np.linspace(0, 1, 6))
    right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for axes in (left, right):
        axes.set(xlabel="seconds since the start", xlim=(0, demo.fire.seconds))
        _mark_phases(axes, demo)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize=9)
    rates = f"plain broker {demo.plain.utility_rate:.0%}, Firelane {demo.firelane.utility_rate:.0%}"
    drawn.suptitle(f"A fire behind a link offered {LOAD:g} times what it carries. Value delivered: {rates}",
                   fontweight="bold")  # fmt: skip
    return save_figure(drawn, path)


def _mark_phases(axes: Axes, demo: Demo) -> None:
    for number, phase in enumerate(demo.fire.phases):
        axes.axvspan(phase.start_s, phase.end_s, color=SHADES[number % len(SHADES)], zorder=0, linewidth=0)
        axes.annotate(phase.name, ((phase.start_s + phase.end_s) / 2, 1), (0, -12), xycoords=("data", "axes fraction"),
                      textcoords="offset points", ha="center", fontsize=9, style="italic")  # fmt: skip
