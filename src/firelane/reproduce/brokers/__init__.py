"""The broker-cluster paper again: Figures 2 to 7 and its two claims, on a generated city and on a trace.

Implements: broker-cluster, sections V and VII.
Differs:    the paper's trace of Cologne cannot be had. A city of its length, step and number of zones is generated, and
            any trace of vehicles can be given. What a broker is loaded with is counted on Spark.
Symbols:    as in experiments.
Checked by: tests/reproduce/test_brokers.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from firelane import __version__
from firelane.balance import Loads, read_loads
from firelane.balance.cases import SEEDS, STEPS
from firelane.errors import FirelaneError
from firelane.reproduce.brokers import sixty
from firelane.reproduce.brokers.experiments import all_figures, always_there
from firelane.reproduce.brokers.figures import draw
from firelane.reproduce.brokers.report import report
from firelane.scenario.save import write_whole

BROKERS = 5
GENERATED = "a generated city"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How large the generated city is (its zones and its 23 hours of minutes are the paper's), and how many seeded
    cases of how many minutes follow."""

    vehicles: int
    hours: float = 23.0
    zones: int = 400
    seeds: Sequence[int] = SEEDS
    steps: int = STEPS


FULL = Effort(vehicles=40_000)
QUICK = Effort(vehicles=4_000, seeds=SEEDS[:1], steps=200)


def reproduce(
    output: Path, *, quick: bool, seed: int, trace: Path | None = None, effort: Effort | None = None
) -> dict[str, Any]:
    """Run everything, and write report.md, results.json, sixty.png and figure-2.png to figure-7.png of each city."""
    from firelane.pipeline.session import session

    effort = effort or (QUICK if quick else FULL)
    started = perf_counter()
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FirelaneError(f"{output}: cannot make this folder: {problem.strerror}") from None
    given = {}
    with session() as spark, TemporaryDirectory(prefix="firelane-city-", dir=output) as scratch:
        if trace is not None:  # first, as something may be wrong with it
            name = trace.absolute().name.partition(".")[0]
            folder = name if name not in ("", "generated") else "trace"
            given[f"the trace {name}"] = _city(_counted(spark, trace, Path(scratch) / "trace"), output, folder)
        generated = _city(_generated(spark, Path(scratch), effort, seed), output, "generated")
    cities = {GENERATED: generated, **given}
    cases = sixty.contests(steps=effort.steps, seeds=effort.seeds)
    sixty.draw(cases, output / "sixty.png")
    results = {
        "paper": "broker-cluster",
        "firelane": __version__,
        "seed": seed,
        "quick": quick,
        "vehicles": effort.vehicles,
        "cities": cities,
        "sixty": cases,
        "seconds": perf_counter() - started,
    }
    write_whole(output / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")
    write_whole(output / "report.md", report(results))
    return results


def _generated(spark: Any, scratch: Path, effort: Effort, seed: int) -> Loads:
    from firelane.pipeline import jobs
    from firelane.pipeline.city import City

    city = City(vehicles=effort.vehicles, hours=effort.hours, zones=effort.zones, seed=seed)
    jobs.city(spark, output=scratch / "positions", city=city)
    return _counted(spark, scratch / "positions", scratch / "generated")


def _counted(spark: Any, positions: Path, output: Path) -> Loads:
    from firelane.pipeline import jobs
    from firelane.pipeline.positions import Grid

    jobs.positions(spark, source=positions, output=output, grid=Grid())
    return read_loads(output / "loads")


def _city(loads: Loads, output: Path, folder: str) -> dict[str, Any]:
    from firelane.pipeline.tails import CLOSEST, Sizes, fits

    size, count = np.unique(loads.load[loads.load > 0].astype(np.int64), return_counts=True)
    made = {one.tail: one for one in fits(Sizes(size=size, count=count))}
    if not made:
        raise FirelaneError(f"{folder}: its zones have too few different sizes to fit a tail to; give a larger trace")
    fit = made.get(CLOSEST) or next(iter(made.values()))
    tail = {
        "index": fit.exponent,
        "from": fit.least,
        "share": fit.share,
        "distance": fit.distance,
        "lognormal_distance": fit.lognormal_distance,
    }
    results = {
        "folder": folder,
        "unit": loads.unit,
        "tail": tail,
        **all_figures(always_there(loads), BROKERS),
        "while_wanted": all_figures(loads, BROKERS),
    }
    (output / folder).mkdir(exist_ok=True)
    draw(results, loads, output / folder)
    return results
