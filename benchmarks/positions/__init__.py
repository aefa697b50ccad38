"""Distinct vehicles per zone and minute: Spark beside DuckDB and Polars, and beside itself on one and two workers.

All read the same Parquet files of a generated city and count the same; a run in which their results differ gets no
number. Each engine has a process of its own and all cores, and counts twice: the first time with nothing in its caches
(but the files in the system's), the second time warm. Its start is left out, and said in progress.

The cluster is Spark's own, with a master and one or two workers of one core each on this machine, all started from the
Python package. The same job runs on both after a first one that warms them up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from firelane.bench import Measure, say
from firelane.errors import FirelaneError

from .cluster import cluster

ROWS, QUICK_ROWS = 50_000_000, 300_000
SHARE = 0.56  # of a city's vehicles are there at a time, on average
STEPS = 1380
ENGINES = ("Spark", "DuckDB", "Polars")
COUNTING = Path(__file__).with_name("counting.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How long an engine took to start, for the first time and for the second, and what it found."""

    start_s: float
    first_s: float
    second_s: float
    rows: int
    digest: str


def measures(quick: bool = False) -> list[Measure]:
    """Both comparisons, on one city."""
    rows = QUICK_ROWS if quick else ROWS
    with TemporaryDirectory(prefix="firelane-positions-") as folder:
        city = Path(folder) / "city"
        made = _generated(city, rows)
        say(f"  {made:,} positions of a city, {_size_mb(city):,.0f} MB")
        return [*_engines(city / "positions", made), _workers(city / "positions", made)]


def _engines(city: Path, rows: int) -> list[Measure]:
    found = {engine: _counted(engine, city) for engine in ENGINES}
    _agree(found)
    ours = found.pop("Spark")
    return [
        Measure(
            name=f"positions, {rows:,} rows, {which} run",
            ours=getattr(ours, which + "_s"),
            peers={engine: getattr(one, which + "_s") for engine, one in found.items()},
            unit="s",
        )
        for which in ("first", "second")
    ]


def _workers(city: Path, rows: int) -> Measure:
    found = {}
    for workers in (1, 2):
        with cluster(workers) as master:
            found[f"{workers} workers" if workers > 1 else "1 worker"] = _counted("Spark", city, master)
    _agree(found)
    return Measure(
        name=f"positions, {rows:,} rows, 2 workers of a cluster",
        ours=found["2 workers"].second_s,
        peers={"1 worker": found["1 worker"].second_s},
        unit="s",
    )


def _generated(city: Path, rows: int) -> int:
    from firelane.pipeline import jobs
    from firelane.pipeline.city import City
    from firelane.pipeline.session import session

    with session() as spark:
        done = jobs.city(spark, output=city, city=City(vehicles=max(1, round(rows / SHARE / STEPS))))
    return done.rows_out["positions"]


def _counted(engine: str, city: Path, master: str = "") -> Counted:
    """Counted in a process of its own."""
    command = [sys.executable, str(COUNTING), engine, str(city), master]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise FirelaneError(f"benchmark positions: {engine} failed: {last}")
    counted = Counted(**json.loads(done.stdout.splitlines()[-1]))
    where = f" on {master}" if master else ""
    say(
        f"  {engine}{where}: started in {counted.start_s:.1f} s, {counted.first_s:.2f} s, then {counted.second_s:.2f} s"
    )
    return counted


def _agree(found: dict[str, Counted]) -> None:
    if len({one.digest for one in found.values()}) > 1:
        counts = ", ".join(f"{who} {one.rows:,} rows" for who, one in found.items())
        raise FirelaneError(f"benchmark positions: the results differ ({counts})")


def _size_mb(folder: Path) -> float:
    return sum(one.stat().st_size for one in folder.rglob("*.parquet")) / 1e6
