"""Tables that grow by batches: every batch of a query is one file, or one a day, that bears its number.

    TABLE/day=2026-05-09/QUERY-0000000042.parquet

Spark runs a batch again that it had not finished, with the same rows and the same number, so its files take the place
of those it had written before. A file appears whole or not at all. Whatever reads Parquet reads these folders; there
is no list beside them that it would have to know.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from firelane.errors import StoreError
from firelane.pipeline.mqtt.notes import sync_folder


def write_batch(table: pa.Table, folder: Path, *, query: str, batch: int, time: str, keep: bool = True) -> None:
    """Write the rows of a batch; their day is that of the column `time`, which only that is for unless it is kept."""
    days = _days(table.column(time))
    rows = table if keep else table.drop_columns([time])
    try:
        for day in pc.unique(days).to_pylist():
            place = folder / f"day={day}"
            place.mkdir(parents=True, exist_ok=True)
            write_file(rows.filter(pc.equal(days, day)), place / _name(query, batch))
    except OSError as problem:
        raise StoreError(f"cannot be written: {problem.strerror or problem}", path=str(folder)) from None


def _days(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """The days (UTC) of time stamps or of seconds since the epoch."""
    seconds = times if pa.types.is_integer(times.type) else pc.floor_temporal(times, unit="second")
    return pc.strftime(seconds.cast(pa.timestamp("s")), format="%Y-%m-%d")


def batch_files(folder: Path, *, query: str, batch: int) -> list[Path]:
    """What a batch has written, if it is done again."""
    return list(folder.glob(f"day=*/{_name(query, batch)}"))


def _name(query: str, batch: int) -> str:
    return f"{query}-{batch:010d}.parquet"


def write_file(table: pa.Table, path: Path) -> None:
    """Write a file that is whole and on disk, or not there."""
    draft = path.with_name(f".{path.name}")
    with draft.open("wb") as file:
        parquet.write_table(table, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)
