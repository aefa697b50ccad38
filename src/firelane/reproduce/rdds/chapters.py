"""The chapters of the report that each kind of fires has: a figure of the paper, its numbers, and what they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from firelane.reproduce.rdds.crossing import DDS
from firelane.reproduce.rdds.figures import CROSSED, WAYS
from firelane.reproduce.rdds.outcome import NEAR, TARGET
from firelane.reproduce.wording import NOTHING, paragraphs, percent, table

Results = dict[str, Any]
NO_DDS = "DDS was not run, as `pip install 'firelane[dds]'` was not."


def chapters(found: Results) -> str:
    """All of them."""
    folder = found["folder"]
    return paragraphs(
        _figures_8_to_10(found["scalability"], folder),
        _figure_5(found["figure_5"], folder),
        _figure_11(found, folder),
        _figure_12(found["figure_12"], folder),
        _figure_13(found["figure_13"], folder),
    )


def with_error(value: Results) -> str:
    """A mean and its standard error."""
    error = value["standard_error"]
    return f"{value['mean']:.3f}" + ("" if error is None else f" ± {error:.3f}")


def number(found: Results, name: str) -> str:
    """One that may not be there."""
    return f"{found[name]:.2f}" if found.get(name) is not None else NOTHING


def _picture(folder: str, which: int) -> str:
    return f"![Figure {which}]({folder}/figure-{which}.png)"


def _figures_8_to_10(points: list[Results], folder: str) -> str:
    rows = [
        [
            WAYS[one["way"]],
            str(one["participants"]),
            f"{one['messages_hz']:,.0f}",
            percent(one["suppressed"], decimals=1),
            with_error(one["load"]),
            *(f"{one[part]:.2f}" for part in ("kernel", "rest", "models")),
            f"{one['overflowed'] + one['missed']:,}",
        ]
        for one in points
    ]
    columns = ["", "firefighters", "messages/s", "not sent", "load", "kernel", "network and rest", "models", "lost"]
    return paragraphs(
        "### Figures 8 to 10: more and more firefighters",
        table(columns, rows),
        "Messages are those that the device sent and received in a second; not sent is the share of its own readings. "
        "Kernel is what the process spent in system calls, models the functions of the banks, the rest is Python: the "
        "client, decoding, and the bookkeeping of streams. Lost is what did not fit the buffer of a full device.",
        *(_picture(folder, which) for which in (8, 9, 10)),
    )


def _figure_5(found: Results, folder: str) -> str:
    return paragraphs(
        "### Figure 5: how often the load is sampled",
        "Sampled with every reading, the load of a run in which nothing changes has a standard deviation of "
        f"{np.std(found['each']):.3f}; every ten readings, {np.std(found['every_ten']):.3f}.",
        _picture(folder, 5),
    )


def _figure_11(found: Results, folder: str) -> str:
    heading = "### Figure 11: packets that get lost"
    if not found["figure_11"]:
        return paragraphs(heading, f"Not run: {found['no_figure_11']}")
    rows = [
        [
            CROSSED[one["way"]],
            percent(one["loss"]),
            f"{one['published']:,}",
            f"{one['packets']:,}",
            f"{one['rmse']:.2f}",
            percent(one["within"], decimals=1),
            percent(one["unsure"], decimals=1),
            f"{one['max_error']:.1f}",
        ]
        for one in found["figure_11"]
    ]
    columns = ["", "lost", "messages", "packets", "RMSE", "within delta", "known to be unsure", "largest error"]
    return paragraphs(
        heading,
        table(columns, rows),
        "The RMSE is that of what the subscriber believes of every reading, 0.9 of an interval after it was made, with "
        "delta 1. Packets are all IP packets towards the subscriber; each is lost by chance, and none on the way back. "
        "A subscriber that is unsure says so: its bound is infinite.",
        "" if any(one["way"] == DDS for one in found["figure_11"]) else NO_DDS,
        _picture(folder, 11),
    )


def _figure_12(points: list[Results], folder: str) -> str:
    rows = [
        [
            f"{one['paper_sensors']:,}",
            f"{one['sensors']:,}",
            with_error(one["on"]),
            with_error(one["delta"]),
            with_error(one["off"]),
        ]
        for one in points
    ]
    near = [abs(one["on"]["mean"] - TARGET) <= NEAR for one in points]
    return paragraphs(
        "### Figure 12: the load, controlled or not",
        table(["sensors in the paper", "here", "load, controlled", "its delta", "load with delta 0.7"], rows),
        f"Within {NEAR} of the target: {sum(near)} of {len(near)}.",
        _picture(folder, 12),
    )


def _figure_13(run: Results, folder: str) -> str:
    return paragraphs(
        "### Figure 13: a surge, and a subscriber that does not keep up",
        f"At sample {run['surge']} every firefighter has three times as many sensors. {_settling(run)}; from the fifth "
        f"sample on it averages {with_error(run['load_after_surge'])}, and delta goes from "
        f"{run['delta_before']:.2f} to {run['delta_after_surge']:.2f} (the paper: 0.68).",
        f"At sample {run['slow']} the device begins to process messages half as fast. {_lowering(run)}",
        _picture(folder, 13),
    )


def _settling(run: Results) -> str:
    if run["settled_in"] is None:
        return "The load does not settle before the next change"
    return f"The load is within {NEAR} of its target, as a mean of three samples, after {run['settled_in']} samples"


def _lowering(run: Results) -> str:
    if run["lowered_at"] is None:
        return "Its signals do not lower the target in this run."
    return (
        f"Its signal, through the exchange, lowers the target from sample {run['lowered_at'] + 1} on (the paper: 100, "
        f"as its subscribers signal at other moments), in the end to {number(run, 'lowered_to')} (0.4), with delta "
        f"{number(run, 'delta_at_last')} (0.93)."
    )
