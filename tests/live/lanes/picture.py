"""The picture of docs/lanes.md: predicted, simulated and live delays of each class, and what clients see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firelane.plots import COLOURS, figure, save_figure

LINES = {  # what is drawn, under which name, and how
    "predicted_ms": ("predicted", {"color": COLOURS[6], "linestyle": "-", "linewidth": 1}),
    "simulated_ms": ("simulated", {"color": COLOURS[3], "linestyle": "", "marker": "s", "fillstyle": "none"}),
    "live_ms": ("live", {"color": COLOURS[1], "linestyle": "", "marker": "o"}),
    "end_to_end_ms": ("end to end, as clients see it", {"color": COLOURS[0], "linestyle": "", "marker": "x"}),
}


def draw(agreement: dict[str, Any], path: Path) -> Path:
    """One panel a load."""
    drawn, panels = figure(width=9.5, height=4.0, columns=len(agreement))
    for axes, (name, run) in zip([panels] if len(agreement) == 1 else panels, agreement.items(), strict=True):
        rows = run["classes"]
        for key, (label, style) in LINES.items():
            axes.plot([row["class"] for row in rows], [row[key] for row in rows], label=label, **style)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} ms")
        axes.set_xticks([row["class"] for row in rows])
        axes.set_xlabel("class (0 is the best)")
        axes.set_title(name)
    handles, labels = axes.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    drawn.suptitle("Mean delay by class on 8 Mbit/s: one number, three ways", fontweight="bold")
    return save_figure(drawn, path)
