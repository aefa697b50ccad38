"""The figures of the RDDS paper drawn again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firelane.plots import COLOURS, figure, save_figure
from firelane.reproduce.rdds.crossing import DDS, RELIABLE_DDS, SILENT_UDP, TCP, UDP
from firelane.reproduce.rdds.experiments import BATCHED
from firelane.reproduce.rdds.outcome import TARGET
from firelane.reproduce.rdds.play import CACHING, KALMAN, PLAIN
from firelane.sense.bank import AUTO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = dict[str, Any]
WAYS = {PLAIN: "every reading", CACHING: "caching", KALMAN: "filters", AUTO: "auto", BATCHED: "auto, batched"}
OF_WAY = dict(zip(WAYS, (COLOURS[0], COLOURS[3], COLOURS[5], COLOURS[2], COLOURS[6]), strict=True))
CROSSED = {
    UDP: "UDP",
    SILENT_UDP: "UDP, nothing asked for",
    TCP: "TCP",
    DDS: "DDS, best effort",
    RELIABLE_DDS: "DDS, reliable",
}
LOAD, DELTA, REFERENCE = COLOURS[1], COLOURS[2], COLOURS[0]


def draw(results: Results, output: Path) -> None:
    """What there is of figure-5.png and figure-8.png to figure-13.png."""
    _figure_5(results["figure_5"], results["interval_s"], output / "figure-5.png")
    _by_participants(
        results["scalability"], "messages_hz", "messages a second, sent and received", "8", output / "figure-8.png"
    )
    _by_participants(results["scalability"], "load", "load of the device", "9", output / "figure-9.png")
    _figure_10(results["scalability"], output / "figure-10.png")
    if results["figure_11"]:
        _figure_11(results["figure_11"], output / "figure-11.png")
    _figure_12(results["figure_12"], output / "figure-12.png")
    _figure_13(results["figure_13"], output / "figure-13.png")


def draw_suppression(fires: dict[str, Results], path: Path) -> None:
    """How much need not be sent at each precision, for all fires."""
    drawn, axes = figure(5 * len(fires), 4.2, columns=len(fires))
    for one, (name, results) in zip(np.atleast_1d(axes), fires.items(), strict=True):
        points = results["suppression"]
        for way in (CACHING, KALMAN, AUTO):
            shares = [point[way] for point in points]
            style = "--" if way == AUTO else "-"
            one.plot(
                [point["delta"] for point in points], shares, style, marker="o", color=OF_WAY[way], label=WAYS[way]
            )
        one.set(xscale="log", ylim=(0, 1), xlabel="delta, C", title=name)
        one.set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2], ["0.05", "0.1", "0.2", "0.5", "1", "2"], minor=False)
        one.set_xticks([], minor=True)
        one.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("readings that need not be sent")
    first.legend(frameon=False, fontsize=8)
    save_figure(drawn, path)


def _figure_5(found: Results, interval_s: float, path: Path) -> None:
    drawn, axes = figure(11, 3.8, columns=2)
    for one, (each, name) in zip(axes, ((found["each"], "one"), (found["every_ten"], "ten")), strict=True):
        step = 10 if name == "ten" else 1
        one.plot(step * np.arange(1, len(each) + 1), each, color=LOAD, marker="o" if step > 1 else "")
        one.set(
            ylim=(0, 1.05),
            xlabel="seconds of the fires",
            title=f"5: sampled every {'second' if name == 'one' else 'ten seconds'}",
        )
    axes[0].set_ylabel("load of the device")
    save_figure(drawn, path)


def _by_participants(points: list[Results], value: str, label: str, number: str, path: Path) -> None:
    drawn, axes = figure(7.5, 4.4)
    for way, name in WAYS.items():
        some = [point for point in points if point["way"] == way]
        if not some:
            continue
        height = [point[value]["mean"] if value == "load" else point[value] for point in some]
        axes.plot([point["participants"] for point in some], height, "o-", color=OF_WAY[way], label=name)
    _participants_axis(axes, points)
    if value == "load":
        axes.set_ylim(0, 1.08)
        axes.axhline(1.0, color="black", linewidth=0.8, alpha=0.5)
    else:
        axes.set_yscale("log")
        offered = sorted({(point["participants"], point["offered_hz"]) for point in points})
        axes.plot(*zip(*offered, strict=True), ":", color="black", alpha=0.6, label="all readings")
    axes.set(ylabel=label, title=f"{number}: delta 0.5")
    axes.legend(frameon=False, fontsize=8)
    save_figure(drawn, path)


def _participants_axis(axes: Axes, points: list[Results]) -> None:
    counts = sorted({point["participants"] for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("firefighters")


def _figure_10(points: list[Results], path: Path) -> None:
    ways = [way for way in WAYS if any(point["way"] == way for point in points)]
    counts = sorted({point["participants"] for point in points})[-3:]
    drawn, axes = figure(2.0 + 1.0 * len(ways) * len(counts) / 2.2, 4.2)
    width = 0.8 / len(ways)
    parts = {"kernel": COLOURS[3], "rest": COLOURS[5], "models": COLOURS[2]}
    names = {"kernel": "kernel", "rest": "network and the rest", "models": "models"}
    ticks, labels = [], []
    for group, count in enumerate(counts):
        for place, way in enumerate(ways):
            (point,) = [one for one in points if one["way"] == way and one["participants"] == count]
            at, low = group + (place - (len(ways) - 1) / 2) * width, 0.0
            for part, colour in parts.items():
                label = names[part] if group == place == 0 else None
                axes.bar(at, point[part], 0.9 * width, bottom=low, color=colour, label=label)
                low += point[part]
            ticks.append(at)
            labels.append(WAYS[way])
    axes.set_xticks(ticks, labels, rotation=90, fontsize=7)
    for group, count in enumerate(counts):
        axes.text(group, 1.06, f"{count} firefighter{'s' * (count > 1)}", ha="center", fontsize=8)
    axes.set(ylim=(0, 1.15), ylabel="load of the device", title="10: what the load is made of")
    axes.grid(visible=False, axis="x")
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.0, 0.92))
    save_figure(drawn, path)


def _figure_11(points: list[Results], path: Path) -> None:
    drawn, axes = figure(11, 4.2, columns=2)
    for number, (way, name) in enumerate(CROSSED.items()):
        some = [point for point in points if point["way"] == way]
        if not some:
            continue
        losses = [point["loss"] for point in some]
        axes[0].plot(losses, [point["packets"] for point in some], "o-", color=COLOURS[number], label=name)
        axes[1].plot(losses, [point["rmse"] for point in some], "o-", color=COLOURS[number], label=name)
    axes[0].set(
        xlabel="share of packets lost", ylabel="packets to the subscriber", title="11a: packets", ylim=(0, None)
    )
    axes[1].set(xlabel="share of packets lost", ylabel="RMSE, C", title="11b: error, delta 1", yscale="log")
    axes[1].axhline(1.0, color="black", linewidth=0.8, alpha=0.5)
    axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[1].yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else "")
    axes[1].legend(frameon=False, fontsize=8)
    save_figure(drawn, path)


def _figure_12(points: list[Results], path: Path) -> None:
    drawn, axes = figure(11, 4.2, columns=2)
    sensors = [point["paper_sensors"] for point in points]
    for name, colour, label in (("on", DELTA, "controlled"), ("off", REFERENCE, "delta 0.7, not controlled")):
        mean = [point[name]["mean"] for point in points]
        spread = [point[name]["standard_error"] or 0.0 for point in points]
        axes[0].errorbar(sensors, mean, spread, fmt="o-", color=colour, label=label, capsize=3)
    axes[0].axhline(TARGET, color="black", linestyle=":", label="target")
    axes[0].set(ylim=(0, 1.08), ylabel="load of the device", title="12a: load")
    axes[1].plot(sensors, [point["delta"]["mean"] for point in points], "o-", color=DELTA, label="controlled")
    axes[1].plot(sensors, [0.7] * len(sensors), "--", color=REFERENCE, label="not controlled")
    axes[1].set(ylim=(0, 1.08), ylabel="delta, C", title="12b: precision")
    for one in axes:
        one.set_xlabel("sensors of a firefighter, in the paper's numbers")
        one.legend(frameon=False, fontsize=8)
    save_figure(drawn, path)


def _figure_13(found: Results, path: Path) -> None:
    drawn, axes = figure(11, 4.6)
    samples = range(1, len(found["load"]) + 1)
    axes.plot(samples, found["load"], color=LOAD, label="load", linewidth=1.2)
    axes.plot(samples, found["target"], color=REFERENCE, linestyle="--", label="target of the load")
    axes.plot(samples, found["delta"], color=DELTA, label="delta, C", linewidth=1.6)
    for at, text in (
        (found["surge"], "three times\nas many sensors"),
        (found["slow"], "messages are processed\nhalf as fast"),
    ):
        axes.axvline(at, color="black", linewidth=0.8, alpha=0.5)
        axes.text(at + 0.6, 1.2, text, fontsize=8, va="top")
    axes.set(ylim=(0, 1.22), xlabel="sample", title="13: a surge, and a subscriber that does not keep up")
    axes.legend(frameon=False, fontsize=8, loc="lower left", ncols=3)
    save_figure(drawn, path)
