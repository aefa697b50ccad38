"""The PlanEMQX paper again: its plan, Table II and Figures 4 to 7, live on an exchange with real clients.

Implements: planemqx, section V.
Differs:    as in experiments.
Symbols:    as in experiments.
Checked by: tests/reproduce/test_planemqx.py
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from firelane import __version__
from firelane.errors import FirelaneError
from firelane.reproduce.planemqx import experiments
from firelane.reproduce.planemqx.figures import draw
from firelane.reproduce.planemqx.report import report
from firelane.scenario.routes import routes
from firelane.scenario.save import write_whole
from firelane.show import progress_bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long both ways are run at 10 Mbit/s, and the default at each bandwidth; and how often, if disturbed."""

    seconds: float
    seconds_each: float
    attempts: int


FULL = Effort(seconds=300, seconds_each=60, attempts=2)  # five minutes, as in the paper
QUICK = Effort(seconds=20, seconds_each=6, attempts=1)


def reproduce(output: Path, *, quick: bool, seed: int, effort: Effort | None = None) -> dict[str, Any]:
    """Run everything, and write report.md, results.json and figure-4.png to figure-7.png into `output`."""
    effort = effort or (QUICK if quick else FULL)
    started = perf_counter()
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FirelaneError(f"{output}: cannot make this folder: {problem.strerror}") from None
    network = routes(experiments.scenario())
    decided = experiments.planned(network)
    chosen = decided.pop("plan")
    sent = experiments.drawn(network, effort.seconds, seed)
    runs = 2 + len(experiments.BANDWIDTHS_BPS) * effort.seconds_each / effort.seconds
    total = round(runs * len(sent.at_s))
    with progress_bar(total, "live") as progress, TemporaryDirectory(prefix="firelane-records-", dir=output) as scratch:
        figure_4 = experiments.by_bandwidth(effort.seconds_each, seed, attempts=effort.attempts, progress=progress)
        both = experiments.compared(sent, chosen, Path(scratch), attempts=effort.attempts, progress=progress)
    results = {
        "paper": "planemqx",
        "firelane": __version__,
        "seed": seed,
        "quick": quick,
        "run_s": effort.seconds,
        "load": float(sent.load()[0]),
        "plan": decided,
        "bandwidths": figure_4,
        "both": both,
        "seconds": perf_counter() - started,
    }
    draw(results, output)
    write_whole(output / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")
    write_whole(output / "report.md", report(results))
    return results
