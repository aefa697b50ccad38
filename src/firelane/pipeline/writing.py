"""Tables out: folders of Parquet files that appear whole, and are replaced whole when a job runs again.

A table is written beside its place, as `.NAME.NUMBER.unfinished`, and moved there when Spark is done. So a job that is
killed leaves the table of the run before, and beside it a folder that its name tells apart from a finished one. The
next run clears it away and uses another name, as the Java of the one that was killed may go on for a moment.
The folder must be in a file system that all machines of a cluster share.
"""

from __future__ import annotations

import glob
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firelane.errors import FirelaneError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FINISHED = "_SUCCESS"  # Spark's mark in a folder that it has written whole


def write(table: DataFrame, folder: Path, *, partition_by: Sequence[str] = ()) -> int:
    """Write the table in place of whatever an earlier run wrote to this folder; the number of rows in it."""
    refuse_others(folder)
    beside = folder.absolute().parent / f".{folder.name}.{secrets.token_hex(4)}.unfinished"
    try:
        for left in beside.parent.glob(f".{glob.escape(folder.name)}.*.unfinished"):
            shutil.rmtree(left, ignore_errors=True)
        beside.parent.mkdir(parents=True, exist_ok=True)
        # Static: under Spark's dynamic mode a partition that is no longer in the table would stay.
        writer = table.write.option("partitionOverwriteMode", "static").mode("overwrite")
        writer.partitionBy(*partition_by).parquet(f"file://{beside}")
        rows = count(beside)
        _move(beside, folder.absolute())
    except OSError as problem:
        raise FirelaneError(f"{folder}: cannot write the table: {problem.strerror or problem}") from None
    except BaseException:
        _clear(beside)
        raise
    return rows


def count(folder: Path) -> int:
    """How many rows a finished table has, by the ends of its files."""
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(file).num_rows for file in folder.rglob("[!._]*.parquet"))


def remove(folder: Path) -> None:
    """Take away a table that an earlier run wrote and this one does not."""
    refuse_others(folder)
    _clear(folder)


def refuse_others(folder: Path) -> None:
    """An error, if there is something in the way that is not a table of ours and would be lost."""
    if folder.is_dir():
        if (folder / FINISHED).exists() or not any(folder.iterdir()):
            return
        raise FirelaneError(f"{folder}: there is something else in this folder; name another, or empty it first")
    if folder.exists():
        raise FirelaneError(f"{folder}: this is a file; tables are written to folders, name another")


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
