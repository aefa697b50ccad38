"""Beyond the paper: `bounded-moves` against the baseline over sixty seeded cases.

Every threshold of the baseline meets the band of ours with the fewest switches at a mean excess that is no higher.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from firelane.balance.cases import SIZES, STEP_S, TAILS, one_case
from firelane.balance.compare import BANDS, MAX_MOVES, SHARES, curve, duels
from firelane.plots import COLOURS, figure, save_figure
from firelane.reproduce.wording import paragraphs, percent, table
from firelane.show import progress_bar

Results = dict[str, Any]
LOOKS = {"threshold": ("o", COLOURS[0]), "bounded-moves": ("D", COLOURS[2])}
RARELY_HZ = 1 / 86_400  # drawn where a method did not switch at all


def contests(*, steps: int, seeds: Sequence[int]) -> list[Results]:
    """Both curves and the duels of all cases, by size and tail."""
    kinds = list(product(SIZES, TAILS))
    found = []
    with progress_bar(len(kinds) * len(seeds), "sixty cases") as progress, ThreadPoolExecutor(os.cpu_count()) as pool:
        for (topics, brokers), tail in kinds:
            coming = [
                pool.submit(_contest, progress, topics=topics, brokers=brokers, tail=tail, seed=seed, steps=steps)
                for seed in seeds
            ]
            about = {"topics": topics, "brokers": brokers, "tail": tail, "steps": steps}
            found.append({**about, "cases": [one.result() for one in coming]})
    return found


def _contest(progress: Callable[[int], None], **about: Any) -> Results:
    case = one_case(**about)
    baseline = curve(case, "threshold", SHARES)
    ours = curve(case, "bounded-moves", BANDS, max_moves=MAX_MOVES)
    progress(1)
    return {
        "seed": about["seed"],
        "threshold": [asdict(point) for point in baseline],
        "bounded-moves": [asdict(point) for point in ours],
        "fewer_times": [one.ratio for one in duels(baseline, ours) if one.rival.switches],
    }


def chapter(kinds: list[Results]) -> str:
    """What came of it, for the report."""
    everything = _fewer(*kinds)
    steps = kinds[0]["steps"]
    rows = [
        [
            _name(kind),
            f"{len(_fewer(kind))}",
            f"{np.median(_fewer(kind)):,.0f}",
            f"{min(_fewer(kind)):.1f}",
            percent(float(np.mean(_fewer(kind) > 1))),
        ]
        for kind in kinds
    ]
    opening = (
        f"Seeded days of {steps:,} minutes, sizes with a light or a heavy Pareto tail ({_tails()}), topics that come "
        f"and go; {_count(kinds)} cases in all. Each threshold of the baseline "
        f"({', '.join(percent(share) for share in SHARES)} of what a broker carries on average) meets the band of "
        f"`bounded-moves` that has the fewest switches at an equal or lower mean excess; {len(BANDS)} bands from "
        f"{percent(BANDS[0], decimals=2)} to {percent(BANDS[-1])} were tried."
    )
    closing = (
        f"Over all {len(everything)} duels ours has {np.median(everything):,.0f} times fewer switches in the median, "
        f"and {min(everything):.1f} times where it gains least (0: none of its bands was as balanced)."
    )
    columns = ["cases", "duels", "times fewer switches, median", "at least", "duels with fewer"]
    title = f"## Beyond the paper: {_count(kinds)} seeded cases"
    return paragraphs(title, opening, table(columns, rows), closing, "![What balance costs](sixty.png)")


def draw(kinds: list[Results], path: Path) -> None:
    """Both curves of each size and tail: medians over the seeds, every seed faintly behind."""
    drawn, axes = figure(12, 6.6, columns=len(SIZES), rows=len(TAILS))
    for number, kind in enumerate(kinds):
        one = axes[number % len(TAILS)][number // len(TAILS)]
        for method, (marker, colour) in LOOKS.items():
            hours = kind["steps"] * STEP_S / 3600
            switches = np.array([[point["switches"] for point in case[method]] for case in kind["cases"]]) / hours
            excess = np.array([[point["excess"] for point in case[method]] for case in kind["cases"]])
            shown = np.maximum(switches, 3600 * RARELY_HZ)
            one.plot(shown.T, 100 * excess.T, color=colour, alpha=0.15, linewidth=0.8)
            one.plot(
                np.median(shown, axis=0), 100 * np.median(excess, axis=0),
                marker=marker, markersize=4, color=colour, label=method,
            )  # fmt: skip
        one.set(
            xscale="log", yscale="log", title=f"{kind['topics']:,} topics, {kind['brokers']} brokers, {kind['tail']}"
        )
        one.grid(alpha=0.25)
    for row in axes:
        row[0].set_ylabel("mean excess, % of a broker's load")
    for one in axes[-1]:
        one.set_xlabel("switches an hour")
    axes[0][0].legend(fontsize=8, frameon=False)
    drawn.suptitle(f"{_count(kinds)} cases, what balance costs: lower and further left is better")
    save_figure(drawn, path)


def _fewer(*kinds: Results) -> Any:
    """How many times fewer switches, in every duel."""
    return np.array([ratio for kind in kinds for case in kind["cases"] for ratio in case["fewer_times"]])


def _count(kinds: list[Results]) -> int:
    return sum(len(kind["cases"]) for kind in kinds)


def _name(kind: Results) -> str:
    return f"{kind['topics']:,} topics, {kind['brokers']} brokers, {kind['tail']}"


def _tails() -> str:
    return " and ".join(f"index {index}" for index in TAILS.values())
