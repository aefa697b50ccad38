"""Pictures of results: one look, legible without the text around them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firelane.errors import FirelaneError
from firelane.metrics import Metrics
from firelane.scenario.save import write_whole
from firelane.units import si

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: distinct for colour-blind readers too.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")
MOST_LABELLED = 10  # classes; more values would run into each other


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


def plain_and_tuned(plain: Metrics, tuned: Metrics, path: Path) -> Path:
    """The picture of the demo: what each class of the tuned plan gets, and how late, without and with the plan."""
    drawn, (left, right) = figure(11, 4.6, columns=2)
    results = {"plain broker": plain, "Firelane": tuned}
    names = _class_names([row["priority"] for row in tuned.classes()])
    place = np.arange(len(names))
    for number, (name, one) in enumerate(results.items()):
        classes, colour = one.classes(of=tuned), COLOURS[number]
        share = np.array([row["success"] for row in classes], float)  # unknown is NaN, which leaves a gap
        delay_s = np.array([row["delay_mean_s"] for row in classes], float)
        columns = left.bar(place + 0.41 * (number - 0.5), share, 0.39, label=name, color=colour)
        right.plot(place, delay_s, "o-", color=colour, linewidth=1.5)
        if len(names) <= MOST_LABELLED:
            left.bar_label(columns, ["" if np.isnan(v) else f"{100 * v:.0f}" for v in share], fontsize=8, padding=1)
            _label_delays(right, delay_s)
    left.set(title="What arrives", ylim=(0, 1.08))
    left.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    right.set(title="How late it is (mean delay, log scale)", yscale="log")
    right.margins(x=0.07, y=0.12)
    right.yaxis.set_major_formatter(lambda value, _: _time(value))
    for axes in (left, right):
        axes.set_xticks(place, names)
        axes.set_xlabel("by Firelane's class (0 goes first)")
        axes.grid(visible=False, axis="x")
    rates = ", ".join(f"{name} {one.utility()['rate']:.0%}" for name, one in results.items())
    drawn.suptitle(f"Value delivered: {rates}", fontweight="bold")
    drawn.legend(loc="outside lower center", ncols=2, frameon=False)
    return save_figure(drawn, path)


def _label_delays(axes: Axes, delay_s: Any) -> None:
    """Each delay above its point, unless it reads as the one before; the white edge keeps it off the line."""
    from matplotlib.patheffects import withStroke

    before = ""
    for place, delay in enumerate(delay_s.tolist()):
        text = "" if np.isnan(delay) else _time(delay)
        if text != before:
            edge = [withStroke(linewidth=3, foreground="white")]
            axes.annotate(text, (place, delay), (0, 6), textcoords="offset points", ha="center", fontsize=8,
                          path_effects=edge)  # fmt: skip
        before = text


def _class_names(classes: list[int]) -> list[str]:
    """The numbers, the first and the last also in words."""
    names = [str(one) for one in classes]
    if len(names) > 1:
        names[0] += "\nfirst"
        names[-1] += "\nlast"
    return names


def _time(seconds: float) -> str:
    """Two digits: 8.9 ms, 420 ms, 1.7 s."""
    return si(float(f"{seconds:.2g}"), "s")


def _label(value: float, percent: bool) -> str:
    """A number as short as it stays clear."""
    if np.isnan(value):
        return ""
    return f"{value:.0%}" if percent else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
