"""A sweep as Spark jobs: chunks of the grid, each written whole or not at all, and never twice.

    sweep/_about.json              the scenario and the length of a simulation that all of it was made with
    sweep/chunk=0123456789abcdef/  rows of some points and seeds

What is in the table is not simulated again, so a sweep that was killed goes on where it was, and a wider grid adds to
the table.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from firelane.errors import FirelaneError
from firelane.pipeline import writing
from firelane.pipeline.files import to_read, to_write
from firelane.pipeline.schemas import SWEEP
from firelane.pipeline.sweep.grid import Grid, Point
from firelane.pipeline.sweep.trial import Trial
from firelane.scenario.model import Scenario
from firelane.scenario.save import write_whole

ABOUT = "_about.json"  # readers of tables pass over names like these
TRIALS_A_TASK = 32  # a task in Python costs a tenth of a second by itself
LEAST_TASKS, TASKS_A_CORE = 16, 4  # in a chunk
KEY = ("link_bps", "rate_factor", "order", "drops", "seed")

Seeds = tuple[int | None, ...]  # None is the prediction, which needs none
Task = list[tuple[Point, Seeds]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How many simulations and predictions the grid has, how many were there before, and the rows of the table."""

    trials: int
    found: int
    rows: int


def sweep(
    spark: SparkSession,
    scenario: Scenario,
    grid: Grid,
    folder: Path,
    *,
    publications: int,
    progress: Callable[[int], None] = lambda _: None,
) -> Swept:
    """Do what is missing of a grid; `progress` is called with the number of trials that are done since the last call.

    The first trial is made here: it refuses what cannot be simulated, and compiles what the tasks need.
    """
    first = next(grid.points())
    Trial(scenario, first).simulated(grid.seeds[0], 1)
    with _reserved(folder, {"scenario_hash": scenario.digest(), "publications": publications}):
        done = _done(spark, folder)
        progress(found := sum(key in done for key in _keys(grid)))
        for chunk in _chunks(_tasks(_missing(grid, done)), max(LEAST_TASKS, TASKS_A_CORE * _cores(spark))):
            _keep(_rows(spark, scenario, chunk, publications), folder, _name(chunk))
            progress(sum(len(seeds) for task in chunk for _, seeds in task))
        return Swept(trials=grid.trials, found=found, rows=writing.count(folder))


def _rows(spark: SparkSession, scenario: Scenario, tasks: list[Task], publications: int) -> DataFrame:
    """The rows of a chunk, a Spark task for each of its tasks."""
    kinds = to_arrow_schema(spark.createDataFrame([], SWEEP).schema)

    # Python, as the simulator is; the trials of a task are its loop.
    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column("id").to_pylist():
                for point, seeds in tasks[number]:
                    yield pa.RecordBatch.from_pylist(_results(Trial(scenario, point), seeds, publications), kinds)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, SWEEP)


def _results(trial: Trial, seeds: Seeds, publications: int) -> list[dict[str, Any]]:
    return [
        row for seed in seeds for row in (trial.predicted() if seed is None else trial.simulated(seed, publications))
    ]


def _keep(rows: DataFrame, folder: Path, name: str) -> None:
    """Write rows beside the table, and make them part of it when they are whole."""
    draft = folder / f".{name}-{secrets.token_hex(4)}"  # the Java of a killed sweep may go on for a moment
    try:
        rows.write.parquet(to_write(draft))
        draft.rename(folder / f"chunk={name}")
    except PySparkException as problem:
        told = re.search(r"firelane\.errors\.\w+: (.*)", str(problem))
        if told is None:
            raise
        raise FirelaneError(told[1]) from None


def _keys(grid: Grid) -> Iterator[tuple[Any, ...]]:
    for point in grid.points():
        columns = tuple(point.columns().values())
        for seed in (None, *grid.seeds):
            yield (*columns, seed)


def _missing(grid: Grid, done: set[tuple[Any, ...]]) -> Iterator[tuple[Point, Seeds]]:
    """What is still to be done."""
    for point in grid.points():
        columns = tuple(point.columns().values())
        yield point, tuple(seed for seed in (None, *grid.seeds) if (*columns, seed) not in done)


def _tasks(work: Iterable[tuple[Point, Seeds]]) -> Iterator[Task]:
    """The work in tasks, all of them full but the last; a point may be divided."""
    task: Task = []
    room = TRIALS_A_TASK
    for point, seeds in work:
        rest = seeds
        while rest:
            now, rest = rest[:room], rest[room:]
            task.append((point, now))
            room -= len(now)
            if not room:
                yield task
                task, room = [], TRIALS_A_TASK
    if task:
        yield task


def _chunks(tasks: Iterator[Task], size: int) -> Iterator[list[Task]]:
    while chunk := list(islice(tasks, size)):
        yield chunk


def _cores(spark: SparkSession) -> int:
    """How many tasks run at a time, as Spark thinks: into so many parts it divides what is not divided."""
    return spark.range(10_000).select(sf.spark_partition_id()).distinct().count()


def _name(chunk: list[Task]) -> str:
    """A name that only this work has."""
    work = [[list(point.columns().values()), seeds] for task in chunk for point, seeds in task]
    return hashlib.sha256(json.dumps(work).encode()).hexdigest()[:16]


def _done(spark: SparkSession, folder: Path) -> set[tuple[Any, ...]]:
    """The points and seeds that are in the table."""
    if not any(folder.glob("chunk=*")):
        return set()
    return {tuple(row) for row in spark.read.parquet(to_read(folder)).select(*KEY).distinct().collect()}


@contextmanager
def _reserved(folder: Path, about: dict[str, Any]) -> Iterator[None]:
    """The folder for this sweep alone, without the halves that a killed one left."""
    with writing.locked(folder):
        if not (folder / ABOUT).exists() and any(one.name != writing.LOCK for one in folder.iterdir()):
            raise FirelaneError(f"{folder}: there is something else in this folder; name another, or empty it first")
        _same(folder, about)
        for draft in folder.glob(".*/"):
            shutil.rmtree(draft, ignore_errors=True)
        yield


def _same(folder: Path, about: dict[str, Any]) -> None:
    """An error, if what is in the folder is from another scenario or another length of simulation."""
    file = folder / ABOUT
    if not file.exists():
        write_whole(file, json.dumps(about) + "\n")
        return
    try:
        before = dict(json.loads(file.read_text()))
    except (ValueError, TypeError):
        raise FirelaneError(f"{file}: this does not say what the sweep was made with; name another folder") from None
    if before != about:
        what = " and ".join(name.replace("_", " ") for name in about if before.get(name) != about[name])
        raise FirelaneError(f"{folder}: this sweep was made with another {what}; name another folder, or empty it")
