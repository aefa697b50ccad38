"""The FireDeX figures drawn again: markers are simulated, lines are formulas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firelane.plots import COLOURS, bars, figure, save_figure
from firelane.reproduce.firedex.runs import CLASSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = dict[str, Any]
PLACES = np.arange(CLASSES)
TITLES = {"rate": "utility of all / highest utility of all", "mean_of_ratios": "mean of each subscription's ratio"}
OWN, SHARED = "own links of 8 Mbit/s", "one link shared by all"


def draw(results: Results, output: Path) -> None:
    """figure-5.png to figure-10.png."""
    _figure_5(results, output / "figure-5.png")
    _figure_6(results, output / "figure-6.png")
    _figure_7(results, output / "figure-7.png")
    _figure_8(results, output / "figure-8.png")
    _figure_9(results, output / "figure-9.png")
    _figure_10(results, output / "figure-10.png")


def _figure_5(results: Results, path: Path) -> None:
    drawn, axes = figure(11, 7, columns=3, rows=2)
    for row, (links, place) in enumerate((("own", OWN), ("shared", SHARED))):
        for column, (load, case) in enumerate(results["figure_5"][links].items()):
            _formulas_and_simulation(axes[row][column], case, independent=links == "shared")
            after = " dropped to 0.9" if load == "overload" else ""
            title = f"5{'abc'[column]}: load {case['compared_load'] or case['offered_load']['mean']:.2f}{after}"
            axes[row][column].set_title(title, fontsize=10)
        axes[row][0].set_ylabel(f"{place}\nmean delay, ms (log scale)")
        axes[row][0].legend(loc="upper left", fontsize=8, frameon=False)
    drawn.suptitle(
        "Predicted and simulated delay per class; on a shared link, copies of one publication queue together"
    )
    save_figure(drawn, path)


def _formulas_and_simulation(axes: Axes, case: Results, *, independent: bool) -> None:
    formulas = case["predicted_s"]
    axes.plot(PLACES, _ms(formulas["ours"]), color=COLOURS[1], label="our formula")
    axes.plot(PLACES, _ms(formulas["equation_5"]), color=COLOURS[0], linestyle="--", label="the paper's Eq. 5")
    if independent:
        axes.plot(PLACES, _ms(formulas["independent"]), color=COLOURS[2], linestyle=":", label="Cobham, independent")
    _markers(axes, case["simulated_s"], COLOURS[6], "simulated", scale=1e3)
    classes_axis(axes)
    log_ms_axis(axes)


def _figure_6(results: Results, path: Path) -> None:
    drawn, axes = figure(11, 4.6, columns=2)
    for place, links, title in zip(axes, ("own", "shared"), (OWN, SHARED + ", 8 Mbit/s each"), strict=True):
        for number, (many, case) in enumerate(results["figure_6"][links].items()):
            place.plot(PLACES, _ms(case["predicted_s"]["ours"]), color=COLOURS[number])
            _markers(
                place, case["simulated_s"], COLOURS[number], f"{many} subscriber{'s' if many != '1' else ''}", scale=1e3
            )
        classes_axis(place)
        log_ms_axis(place)
        place.set_title(title, fontsize=10)
    axes[0].set_ylabel("mean delay, ms (log scale)")
    legend = axes[0].legend(loc="upper left", title="lines: formula, markers: simulated", fontsize=8, frameon=False)
    legend.set_alignment("left")
    drawn.suptitle("Delay per class as subscribers are added: load 1.7, exponential drop rates")
    save_figure(drawn, path)


def _figure_7(results: Results, path: Path) -> None:
    drawn, axes = figure(8, 4.2)
    for number, (name, switch) in enumerate(_switches(results)):
        _markers(axes, switch["success"], COLOURS[number], name, line=True)
    classes_axis(axes)
    axes.set(ylabel="delivered", ylim=(-0.03, 1.05), title="What each class gets delivered, buffer of 2000 messages")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(loc="lower left", frameon=False)
    save_figure(drawn, path)


def _figure_8(results: Results, path: Path) -> None:
    drawn, axes = figure(8, 4.2)
    for number, (name, switch) in enumerate(_switches(results)):
        _markers(axes, switch["delay_s"], COLOURS[number], name, line=True, scale=1e3)
        nothing = [k for k, row in enumerate(switch["delay_s"]) if row["mean"] is None]
        if nothing:
            text = f"{name}: nothing of class\n{' and '.join(map(str, nothing))} is delivered"
            axes.text(0.99, 0.9, text, color=COLOURS[number], ha="right", fontsize=8, transform=axes.transAxes)
    classes_axis(axes)
    log_ms_axis(axes)
    title = "How late what is delivered of each class is, buffer of 2000 messages"
    axes.set(ylabel="mean delay, ms (log scale)", title=title)
    axes.legend(loc="center left", fontsize=8, frameon=False)
    save_figure(drawn, path)


def _switches(results: Results) -> list[tuple[str, Results]]:
    return [item for item in results["figures_7_and_8"].items() if "shared" not in item[0]]


def _figure_9(results: Results, path: Path) -> None:
    found = results["figure_9"]
    drawn, axes = figure(12, 8.4, rows=2)
    names = [name.replace(" + ", "\n+ ").replace("-adjusted", "-\nadjusted") for name in found["rates"]]
    for place, (rate, title) in zip(axes, TITLES.items(), strict=True):
        values = {
            shown: [each[source][rate]["mean"] for each in found["rates"].values()]
            for shown, source in (("simulated", "simulated"), ("fluid limit", "fluid"))
        }
        bars(place, names, values, percent=True)
        for label in place.texts:
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})
        place.set(ylabel="utility rate", ylim=(0, 1.08), title=title)
        place.axvline(4.5, color="grey", linewidth=0.8)
        place.text(4.45, 1.02, "buffer drops only", ha="right", fontsize=9, color="grey")
        place.text(4.55, 1.02, "drop rates, 10 % headroom", ha="left", fontsize=9, color="grey")
    bound = found["bound"]["without_headroom"]["mean"]
    axes[0].axhline(bound, color=COLOURS[6], linestyle="--", linewidth=1, zorder=0.5)
    axes[0].text(-0.45, bound + 0.015, f"no plan can exceed {bound:.1%}", fontsize=9)
    axes[1].legend(loc="upper left", ncols=2, frameon=False)
    drawn.suptitle("How much of the information's value gets through, by priority assignment")
    save_figure(drawn, path)


def _figure_10(results: Results, path: Path) -> None:
    drawn, axes = figure(11, 4.6, columns=2)
    factors = [float(factor) for factor in results["figure_10"]]
    cases = list(results["figure_10"].values())
    for place, (rate, title) in zip(axes, TITLES.items(), strict=True):
        for number, policy in enumerate(("flat", "linear", "exponential", "optimised")):
            values = [case[policy][rate]["mean"] for case in cases]
            place.plot(factors, values, color=COLOURS[number], marker="osD^"[number], label=policy)
        place.set(xscale="log", xlabel="weight of asynchronous events, times Table 2's")
        place.set_title(title, fontsize=10)
        place.set_xticks(factors, [f"{factor:g}" for factor in factors])
        place.minorticks_off()
        place.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes[0].plot(
        factors, [case["bound"]["mean"] for case in cases], color=COLOURS[6], linestyle="--", label="upper bound"
    )
    axes[0].set_ylabel("utility rate (formula)")
    axes[0].legend(loc="center", bbox_to_anchor=(0.5, 0.27), fontsize=8, frameon=False)
    drawn.suptitle("Drop policies under bandwidth-adjusted priorities")
    save_figure(drawn, path)


def _markers(
    axes: Axes, rows: list[Results], colour: str, label: str, *, line: bool = False, scale: float = 1.0
) -> None:
    """Means with their standard errors."""
    errors = [scale * (row["standard_error"] or 0.0) for row in rows]
    style = "o-" if line else "o"
    axes.errorbar(PLACES, _scaled(rows, scale), errors, fmt=style, color=colour, label=label, markersize=4, capsize=2)


def classes_axis(axes: Axes) -> None:
    """The nine classes."""
    axes.set_xticks(PLACES)
    axes.set_xlabel("priority class (0 is the highest)")


def log_ms_axis(axes: Axes) -> None:
    """A logarithmic axis with plain numbers, so many that at least two show."""
    if not any(np.isfinite(np.asarray(line.get_ydata(), float)).any() for line in axes.lines):
        axes.text(0.5, 0.5, "no link settles", ha="center", transform=axes.transAxes)
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    places = [one * 10.0**power for power in range(-3, 6) for one in ((1, 2, 5) if high / low < 300 else (1,))]
    axes.set_yticks([place for place in places if low <= place <= high])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: "")


def _ms(rows: list[Results]) -> list[float]:
    return _scaled(rows, 1e3)


def _scaled(rows: list[Results], scale: float) -> list[float]:
    return [float("nan") if row["mean"] is None else scale * row["mean"] for row in rows]
