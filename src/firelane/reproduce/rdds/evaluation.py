"""The RDDS paper again: Figures 5 and 8 to 13, live on an exchange, with generated fires and with measured ones.

Implements: rdds, section IV.
Differs:    as in experiments, loss and suppression.
Symbols:    as in experiments.
Checked by: tests/reproduce/test_rdds.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from firelane import __version__
from firelane.errors import FirelaneError
from firelane.reproduce.namespaces import NetworkError
from firelane.reproduce.rdds import experiments, fires, loss, models, suppression
from firelane.reproduce.rdds.figures import draw, draw_suppression
from firelane.reproduce.rdds.play import SAMPLE_ROWS
from firelane.reproduce.rdds.report import report
from firelane.reproduce.rdds.stage import staged
from firelane.scenario.save import write_whole
from firelane.sense import Fire, fire_trace
from firelane.show import progress_bar

Results = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is run with generated fires, with given ones, with loss, and how many fires there are."""

    generated: experiments.Effort
    given: experiments.Effort
    crossing: loss.LossEffort
    given_crossing: loss.LossEffort
    fires: int


FULL = Effort(
    generated=experiments.FULL, given=experiments.GIVEN, crossing=loss.FULL, given_crossing=loss.GIVEN, fires=42
)
QUICK = Effort(
    generated=experiments.QUICK, given=experiments.QUICK, crossing=loss.QUICK, given_crossing=loss.QUICK, fires=12
)


def reproduce(
    output: Path, *, quick: bool, seed: int, trace: Path | None = None, effort: Effort | None = None
) -> Results:
    """Run everything, and write report.md, results.json, suppression.png and the figures of each kind of fires."""
    effort = effort or (QUICK if quick else FULL)
    started = perf_counter()
    given = [] if trace is None else fires.measured(trace)  # first, as something may be wrong with it
    kinds = [(fires.generated(effort.fires, seed), effort.generated, effort.crossing)]
    kinds += [(fires.as_fires(name, one), effort.given, effort.given_crossing) for name, one in given]
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FirelaneError(f"{output}: cannot make this folder: {problem.strerror}") from None
    total = sum(much.runs + losses.runs for _, much, losses in kinds)
    results: Results = {
        "paper": "rdds",
        "firelane": __version__,
        "seed": seed,
        "quick": quick,
        "quota": True,
        "fires": {},
        "models": [],
        "seconds": 0.0,
    }
    with progress_bar(total, "live") as progress, TemporaryDirectory(prefix="firelane-rdds-") as scratch:
        for kind, much, losses in kinds:
            one = _fires(kind, much, losses, Path(scratch), seed, progress)
            results["quota"] = one.pop("quota")
            results["fires"][kind.name] = one
            results["seconds"] = perf_counter() - started
            _draw(one, output)
            _write(results, output)  # what there is, as the rest takes a while
    draw_suppression(results["fires"], output / "suppression.png")
    results |= {"models": _models(effort, seed, given), "seconds": perf_counter() - started}
    _write(results, output)
    write_whole(output / "report.md", report(results))
    return results


def _write(results: Results, output: Path) -> None:
    write_whole(output / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")


def _fires(
    kind: fires.Fires,
    effort: experiments.Effort,
    losses: loss.LossEffort,
    scratch: Path,
    seed: int,
    progress: Callable[[int], None],
) -> Results:
    """Everything with one kind of fires."""
    file = scratch / "fires.npz"
    kind.save(file)
    load_period_s = effort.window * SAMPLE_ROWS * effort.control_interval_s
    points = suppression.suppressed(kind)
    with staged(file, load_period_s=load_period_s) as place:
        found = experiments.Experiments(place, points, effort, seed=seed, progress=progress).all()
        found["quota"] = place.quota is not None
    found |= {"suppression": points, "figure_11": [], "no_figure_11": ""}
    try:
        found["figure_11"] = loss.figure_11(file, losses, seed=seed, progress=progress)
    except NetworkError as problem:
        found["no_figure_11"] = str(problem)
    return found | {"folder": kind.name}


def _draw(found: Results, output: Path) -> None:
    folder = output / found["folder"]
    folder.mkdir(exist_ok=True)
    draw(found, folder)


def _models(effort: Effort, seed: int, given: list[tuple[str, Any]]) -> list[Results]:
    """Other models at the paper's delta."""
    traces = {fires.GENERATED: [fire_trace(Fire(seed=seed + number)) for number in range(effort.fires)]}
    traces |= {name: [trace] for name, trace in given}
    return models.compare(traces, deltas=(suppression.PAPER_DELTA,))
