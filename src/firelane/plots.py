"""Pictures of results: one look, legible without the text around them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firelane.errors import FirelaneError
from firelane.metrics import Metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: distinct for colour-blind readers too.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")


def figure(width: float = 7.0, height: float = 4.2, columns: int = 1, rows: int = 1) -> tuple[Figure, Any]:
    """A figure in the house style, drawn without a screen, and its axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style: Any = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "axes.axisbelow": True,
        "font.size": 10,
        "figure.dpi": 120,
    }
    # Legends are drawn later, outside this context, so each asks for no frame itself.
    with plt.rc_context(style):
        return plt.subplots(rows, columns, figsize=(width, height), layout="constrained")


def save_figure(drawn: Figure, path: Path) -> Path:
    """Write the picture and release its memory."""
    import matplotlib.pyplot as plt

    try:
        drawn.savefig(path)
    except OSError as problem:
        raise FirelaneError(f"{path}: cannot write the picture: {problem.strerror}") from None
    finally:
        plt.close(drawn)
    return path


def bars(axes: Axes, groups: list[str], series: dict[str, list[float]], *, percent: bool = False) -> None:
    """Grouped bars, one colour per series, with their values on top when there are few."""
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        place = np.arange(len(groups)) + (number - (len(series) - 1) / 2) * width
        drawn = axes.bar(place, values, width, label=name, color=COLOURS[number % len(COLOURS)])
        if len(groups) * len(series) <= 24:
            shown = [_label(v, percent) for v in values]
            axes.bar_label(drawn, labels=shown, fontsize=7, padding=1)
    axes.set_xticks(np.arange(len(groups)), groups)
    if percent:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def plain_and_tuned(plain: Metrics, tuned: Metrics, weights: Any, path: Path) -> Path:
    """The picture of the demo: what the most important tenth up to the least get, and how late."""
    drawn, (left, right) = figure(10, 4.2, columns=2)
    order = np.argsort(-weights, kind="stable")
    parts = [part for part in np.array_split(order, 6) if len(part)]
    names = ["most\nvaluable", *[""] * (len(parts) - 2), "least\nvaluable"]
    success, delay = {}, {}
    for name, metrics in (("plain broker", plain), ("Firelane", tuned)):
        share, wait, rate = (metrics.column(c) for c in ("success", "delay_mean_s", "delivered_hz"))
        success[name] = [float(share[part].mean()) for part in parts]
        delay[name] = [_mean_delay_ms(wait[part], rate[part]) for part in parts]
    bars(left, names, success, percent=True)
    left.set(ylabel="delivered", ylim=(0, 1.12), title=f"utility rate: plain {plain.utility()['rate']:.0%}, "
             f"Firelane {tuned.utility()['rate']:.0%}")  # fmt: skip
    left.legend(loc="upper center", ncols=2, bbox_to_anchor=(0.5, -0.16), frameon=False)
    bars(right, names, delay)
    right.set(ylabel="mean delay, ms (log scale)", yscale="log", title="delay of what is delivered")
    return save_figure(drawn, path)


def _mean_delay_ms(delay_s: Any, rate_hz: Any) -> float:
    known = np.isfinite(delay_s) & (rate_hz > 0)
    return 1e3 * float(np.average(delay_s[known], weights=rate_hz[known])) if known.any() else float("nan")


def _label(value: float, percent: bool) -> str:
    """A number as short as it stays clear."""
    if np.isnan(value):
        return ""
    return f"{value:.0%}" if percent else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
