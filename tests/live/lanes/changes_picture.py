"""The picture of docs/control.md: ten changes, what became of each category, and the decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from firelane.plots import COLOURS, figure, save_figure
from live.lanes.changes import CATEGORIES, CHANGES

LOOKS = {  # of a decision, by what it was about
    "applied": {"marker": "v", "color": "black"},
    "forecast": {"marker": "v", "color": COLOURS[1]},
    "unchanged": {"marker": "|", "color": "grey"},
}
BOUNDS_S = {"real-time": 0.05, "streaming": 0.2, "transactional": 1.0}


def draw(run: Any, path: Path) -> Path:
    """Delays above, what arrives below."""
    drawn, (above, below) = figure(width=14, height=7.0, rows=2)
    for number, name in enumerate(CATEGORIES):
        one, colour = run.seconds[name], COLOURS[number]
        seconds = np.arange(len(one.due)) + 0.5
        above.plot(seconds, 1e3 * one.delay_s, color=colour, label=name)
        arrived = np.divide(one.came, one.due, out=np.full(len(one.due), np.nan), where=one.due > 0)
        below.plot(seconds, 100 * arrived, color=colour)
        below.axhline(100 * (1 - CATEGORIES[name]["max_loss"]), color=colour, linestyle=":", linewidth=1)
        if name in BOUNDS_S:
            above.axhline(1e3 * BOUNDS_S[name], color=colour, linestyle=":", linewidth=1)
    for start, words in CHANGES.items():
        for axes in (above, below):
            axes.axvline(start, color="lightgrey", linewidth=1, zorder=0)
        above.text(start + 1, 0.98, words, rotation=90, va="top", fontsize=7, transform=above.get_xaxis_transform())
    for one in run.decisions:
        kind = "unchanged" if one["version"] == one["version_before"] else one["kind"]
        below.plot(one["at_s"], 104, clip_on=False, **LOOKS.get(kind, LOOKS["applied"]))
    above.set_yscale("log")
    above.set_ylabel("mean delay, ms")
    below.set_ylabel("arrives, %")
    below.set_ylim(0, 106)
    below.set_xlabel("seconds")
    above.legend(ncols=4, frameon=False, loc="lower right")
    return save_figure(drawn, path)
