"""The FireDeX paper again: its Figures 5 to 10 and its headline numbers, the paper's beside ours.

Implements: firedex, section 5.
Differs:    every headline says whether it holds here, and why not where it does not.
Symbols:    as in experiments.
Checked by: tests/reproduce/test_firedex.py
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from firelane import __version__
from firelane.errors import FirelaneError
from firelane.reproduce.firedex import beyond, experiments
from firelane.reproduce.firedex.figures import draw
from firelane.reproduce.firedex.headlines import PAPER, headlines
from firelane.reproduce.firedex.live import FULL as LIVE_FULL
from firelane.reproduce.firedex.live import QUICK as LIVE_QUICK
from firelane.reproduce.firedex.live import LiveEffort
from firelane.reproduce.firedex.live import live as run_live
from firelane.reproduce.firedex.live_figures import draw_live
from firelane.reproduce.firedex.report import report
from firelane.reproduce.firedex.runs import Case, Effort, Run, simulate_all

FULL = Effort(runs=10, publications=6_500_000)
QUICK = Effort(runs=10, publications=1_000_000, most_copies=4_480_000)


def reproduce(
    output: Path,
    *,
    quick: bool,
    seed: int,
    effort: Effort | None = None,
    live: bool = False,
    live_effort: LiveEffort | None = None,
) -> dict[str, Any]:
    """Run everything, and write report.md, results.json and figure-5.png to figure-10.png into `output`.

    The scenarios of the runs are those of the seeds `seed`, `seed` + 1, and so on. With `live` the configurations of
    Figures 7 to 9 are run with real clients too, on the first of them; that adds live-7.png to live-9.png. `effort`
    and `live_effort` replace what `quick` chooses.
    """
    effort = effort or (QUICK if quick else FULL)
    started = perf_counter()
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FirelaneError(f"{output}: cannot make this folder: {problem.strerror}") from None
    results = _results(effort, seed)
    draw(results, output)
    if live:
        results["live"] = run_live(live_effort or (LIVE_QUICK if quick else LIVE_FULL), seed)
        draw_live(results["live"], output)
    results |= {"quick": quick, "seconds": perf_counter() - started}
    _write(output / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")
    _write(output / "report.md", report(results))
    return results


def _results(effort: Effort, seed: int) -> dict[str, Any]:
    seeds = range(seed, seed + effort.runs)
    runs = simulate_all(experiments.all_cases(), seeds, effort)
    results: dict[str, Any] = {
        "paper": "firedex",
        "firelane": __version__,
        "seed": seed,
        "seeds": list(seeds),
        "runs": effort.runs,
        "publications": effort.publications,
        "simulated_events": sum(run.simulated.extra["events"] for each in runs.values() for run in each),
        "cases": [_case(case, each) for case, each in runs.items()],
        "figure_5": experiments.figure_5(runs),
        "figure_6": experiments.figure_6(runs),
        "figures_7_and_8": experiments.figures_7_and_8(runs),
        "load_for_paper_delay": experiments.load_for_delay(PAPER["8 with drop rates, class 8"], seeds[:3]),
        "figure_9": experiments.figure_9(runs),
        "figure_10": experiments.figure_10(seeds),
        "delay_adjusted": beyond.delay_adjusted(runs),
        "readings": beyond.readings(seeds),
        "paper_values": PAPER,
    }
    return results | {"headlines": headlines(results)}


def _case(case: Case, runs: list[Run]) -> dict[str, Any]:
    """What was simulated, so that it can be again."""
    return {
        **asdict(case),
        "publications": runs[0].publications,
        "scenario_seeds": [run.seed for run in runs],
        "simulation_seeds": [case.simulation_seed(run.seed) for run in runs],
    }


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise FirelaneError(f"{path}: cannot write: {problem.strerror}") from None
