"""Tables out: folders of Parquet files that appear whole, and are replaced whole when a job runs again.

    with reserved(folder, "positions", ("loads", "changes")) as output:
        output.write("loads", table)                  # `changes` of the run before go, as they are not written

A table is written beside its place, as `.NAME.NUMBER.unfinished`, and moved there when Spark is done. So a job that is
killed leaves the table of the run before, and beside it a folder that its name tells apart from a finished one. The
next run clears it away and uses another name, as the Java of the one that was killed may go on for a moment.
A table has its job's name in it: what another job or somebody else wrote is not replaced.
The folder must be in a file system that all machines of a cluster share.
"""

from __future__ import annotations

import fcntl
import glob
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from firelane.errors import FirelaneError
from firelane.pipeline.files import to_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOCK, JOB = "_lock", "_job"  # readers of tables pass over names like these


@dataclass(frozen=True, slots=True)
class Output:
    """A folder that one job has for its tables."""

    folder: Path
    job: str
    written: set[str] = field(default_factory=set)

    def write(
        self, name: str, table: DataFrame, *, partition_by: Sequence[str] = (), if_empty: str | None = None
    ) -> int:
        """Write the table in place of the one that an earlier run wrote; the number of rows in it.

        `if_empty` is what to complain of instead if there are none.
        """
        beside = self.folder / f".{name}.{secrets.token_hex(4)}.unfinished"
        try:
            table.write.partitionBy(*partition_by).parquet(to_write(beside))
            (beside / JOB).write_text(f"{self.job}\n")
            rows = count(beside)
            if not rows and if_empty is not None:
                raise FirelaneError(if_empty)
            _move(beside, self.folder / name)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        self.written.add(name)
        return rows


@contextmanager
def reserved(folder: Path, job: str, tables: Sequence[str], files: Sequence[str] = ()) -> Iterator[Output]:
    """The folder for these tables of a job; those that are not written go, unless it fails.

    A table may have files beside it that the job writes itself, such as `loads.csv`.
    """
    with locked(folder):
        for name in tables:
            _refuse_others(folder / name, job)
            for left in folder.glob(f".{glob.escape(name)}.*.unfinished"):
                shutil.rmtree(left, ignore_errors=True)
        for name in files:
            _refuse_file(folder / name)
        output = Output(folder, job)
        yield output
        for name in set(tables) - output.written:
            _clear(folder / name)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, made if need be, for this process alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise FirelaneError(f"{folder}: another run is writing to this folder; wait for it, or name another") from None
    except OSError as problem:
        where, why = problem.filename or folder, problem.strerror or problem
        raise FirelaneError(f"{where}: cannot be written: {why}; name another folder, or make room") from None


def count(folder: Path) -> int:
    """How many rows a finished table has, by the ends of its files."""
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(file).num_rows for file in folder.rglob("[!._]*.parquet"))


def refuse_inside(output: Path, source: Path) -> None:
    """An error, if what a job writes would be part of what it reads."""
    if output.resolve().is_relative_to(source.resolve()):
        raise FirelaneError(f"{output}: this is where the input is; name a folder outside of {source} for the tables")


def _refuse_others(folder: Path, job: str) -> None:
    """An error, if there is something in the way that is not a table of this job and would be lost."""
    if folder.exists() and not folder.is_dir():
        raise FirelaneError(f"{folder}: this is a file; tables are written to folders, name another")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / JOB).exists():
        raise FirelaneError(f"{folder}: there is something else in this folder; name another, or empty it first")
    if (owner := (folder / JOB).read_text(errors="replace").strip()) != job:
        raise FirelaneError(f"{folder}: this table is of the job {owner}; name another folder for those of {job}")


def _refuse_file(file: Path) -> None:
    """An error, if there is a file without the table that the job would have written before it."""
    if file.exists() and not (file.with_suffix("") / JOB).exists():
        raise FirelaneError(f"{file}: this file was there before; name another folder, or move it away")


def _move(beside: Path, place: Path) -> None:
    former = place.parent / f".{place.name}.former"
    _clear(former)
    if place.exists():
        place.rename(former)
    beside.rename(place)
    _clear(former)


def _clear(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
