"""Pictures of results: one look, legible without the text around them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firelane.errors import FirelaneError
from firelane.scenario.save import write_whole

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
        content = io.BytesIO()
        drawn.savefig(content, format=path.suffix.removeprefix(".") or "png")
        write_whole(path, content.getvalue())
    except OSError as problem:
        raise FirelaneError(f"{path}: cannot write the picture: {problem.strerror}") from None
    except ValueError:
        raise FirelaneError(f"{path}: pictures of this kind cannot be written; name it .png, .svg or .pdf") from None
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


def _label(value: float, percent: bool) -> str:
    """A number as short as it stays clear."""
    if np.isnan(value):
        return ""
    return f"{value:.0%}" if percent else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
