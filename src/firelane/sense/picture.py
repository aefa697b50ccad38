"""A replay's picture: what sensors read, what a subscriber believes, and when an update was sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firelane.plots import COLOURS, figure, save_figure
from firelane.sense.replaying import Replay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = 3


def draw(replay: Replay, path: Path) -> Path:
    """A panel each for the sensor with the most updates, and those a third and two thirds down from it."""
    order = np.argsort(-replay.sent_of, kind="stable")
    shown = list(dict.fromkeys(int(order[place]) for place in np.arange(PANELS) * len(order) // PANELS))
    drawn, panels = figure(10, 1.2 + 2.6 * len(shown), rows=len(shown))
    for axes, sensor in zip(np.atleast_1d(panels), shown, strict=True):
        _panel(axes, replay, sensor)
    np.atleast_1d(panels)[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    np.atleast_1d(panels)[-1].set_xlabel("seconds")
    data = replay.to_data()
    drawn.suptitle(
        f"{data['suppressed']:.0%} of {data['readings']:,} readings need not be sent "
        f"({replay.model}, within {replay.delta:g})",
        fontweight="bold",
    )
    return save_figure(drawn, path)


def _panel(axes: Axes, replay: Replay, sensor: int) -> None:
    times_s, believed = replay.trace.times_s, replay.believed[:, sensor]
    readings, sent = replay.trace.values[:, sensor], replay.sent[:, sensor]
    axes.fill_between(times_s, believed - replay.delta, believed + replay.delta, color=COLOURS[1], alpha=0.15,
                      linewidth=0, label="± delta")  # fmt: skip
    axes.plot(times_s, readings, ".", color="#777777", markersize=3, label="read")
    axes.plot(times_s, believed, color=COLOURS[1], linewidth=1.2, label="believed by the subscriber")
    axes.plot(times_s[sent], readings[sent], "o", color=COLOURS[0], markersize=4, label="sent")
    axes.set_title(f"{replay.trace.names[sensor]}: {sent.sum()} of {len(sent)} sent", loc="left", fontsize=10)
