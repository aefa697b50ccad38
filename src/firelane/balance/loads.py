"""How much each topic asks of its broker, step by step: read from Parquet or CSV into one array."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firelane.arrays import Floats, Ints
from firelane.errors import FirelaneError

COLUMNS = {"subscribers": "subscribers", "messages": "messages_hz", "bytes": "bytes_hz"}
UNITS = {"subscribers": "subscribers", "messages": "messages/s", "bytes": "bytes/s"}
MOST_CELLS = 500_000_000  # steps x topics
MOST_LOAD = 1e15


class LoadsError(FirelaneError):
    """Loads that cannot be used: `source` (a file or folder) and `problem`, with its remedy."""

    def __init__(self, problem: str, *, source: str = "") -> None:
        self.problem = problem
        self.source = source
        super().__init__(f"{source}: {problem}" if source else problem)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loads:
    """The load of every topic at every step; 0 where the topic is not there."""

    topics: tuple[str, ...]
    times_s: Ints  # the start of each step, rising
    load: Floats  # steps x topics
    unit: str = "subscribers"

    def __post_init__(self) -> None:
        if self.load.shape != (len(self.times_s), len(self.topics)) or self.load.size == 0:
            raise LoadsError("there is no load in it; give at least one topic and one step")
        good = (self.load >= 0) & (self.load <= MOST_LOAD)  # NaN is neither
        if not np.all(good):
            step, topic = np.argwhere(~good)[0]
            raise LoadsError(
                f'topic "{self.topics[topic]}" at {self.times_s[step]} s has the load {self.load[step, topic]:g}; '
                f"write a number from 0 to {MOST_LOAD:g}"
            )


def read_loads(path: str | Path, *, load: str | None = None) -> Loads:
    """Read a Parquet file or folder, or a CSV file, of the columns time_s, topic and a load.

    The folder of a pipeline's job stands for the loads in it.
    """
    inside = Path(path) / "loads"
    try:
        return loads_of(_read_table(inside if inside.is_dir() else Path(path)), load=load)
    except LoadsError as problem:
        raise LoadsError(problem.problem, source=str(path)) from None


def loads_of(table: pa.Table, *, load: str | None = None) -> Loads:
    """The loads in a table of one row per step and topic."""
    there = [kind for kind, column in COLUMNS.items() if not _empty(table, column)]
    kind = load or (there[0] if there else "subscribers")
    for name in ("time_s", "topic", COLUMNS[kind]):
        if name not in table.column_names:
            remedy = f"; it has {', '.join(COLUMNS[one] for one in there)}" if there and name == COLUMNS[kind] else ""
            raise LoadsError(f"the column {name} is missing{remedy}; columns are time_s, topic and a load")
        if table.column_names.count(name) > 1:
            raise LoadsError(f"the column {name} is there twice; leave one out")
    if table.num_rows == 0:
        raise LoadsError("there are no rows in it; give at least one topic and one step")
    time = _cast(table, "time_s", pa.int64())
    topic = _cast(table, "topic", pa.string()).combine_chunks().dictionary_encode()
    value = _cast(table, COLUMNS[kind], pa.float64())
    topics = topic.dictionary.to_pylist()
    times_s, step = np.unique(time.to_numpy(), return_inverse=True)
    number = topic.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Loads(
        topics=tuple(topics),
        times_s=times_s,
        load=_grid(times_s, topics, step, number, value.to_numpy()),
        unit=UNITS[kind],
    )


def _empty(table: pa.Table, name: str) -> bool:
    """No such column, or one of nulls only: of a table that could have told, but does not."""
    places = [place for place, one in enumerate(table.column_names) if one == name]
    return all(0 < table.num_rows == table.column(place).null_count for place in places)


def _grid(times_s: Ints, topics: list[str], step: Ints, number: Ints, value: Floats) -> Floats:
    cells = len(times_s) * len(topics)
    if cells > MOST_CELLS:
        raise LoadsError(
            f"{len(times_s)} steps of {len(topics)} topics are more than {MOST_CELLS:,}; take longer steps"
        )
    cell = step * len(topics) + number
    twice = np.flatnonzero(np.bincount(cell, minlength=cells) > 1)
    if len(twice):
        when, who = divmod(int(twice[0]), len(topics))
        raise LoadsError(f'topic "{topics[who]}" is there twice at {times_s[when]} s; add its rows up')
    load = np.zeros(cells)
    load[cell] = value
    return load.reshape(len(times_s), len(topics))


def _cast(table: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    column = table.column(name)
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise LoadsError(f"{name}: row {row + 1} has no value; leave the row out or fill it in")
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        wanted = {"int64": "whole numbers", "string": "text", "double": "numbers"}[str(kind)]
        raise LoadsError(f"{name}: this column holds {column.type}, not {wanted}") from None


def _read_table(path: Path) -> pa.Table:
    from pyarrow import csv, parquet

    wanted = {"time_s", "topic", *COLUMNS.values()}
    if not path.exists():
        raise LoadsError("there is no such file or folder; give one of Parquet, or a .csv file")
    if path.is_dir() and next(path.rglob("*.parquet"), None) is None:
        raise LoadsError("there is no Parquet file in it; give a folder that has some, or a .csv file")
    try:
        if path.suffix.lower() == ".csv":
            types: dict[str, Any] = {"topic": pa.string()}
            return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types))
        there = parquet.ParquetDataset(path).schema.names
        return parquet.read_table(path, columns=[name for name in there if name in wanted])
    except (OSError, pa.ArrowException) as problem:
        reason = getattr(problem, "strerror", None) or str(problem).splitlines()[0]
        raise LoadsError(f"this cannot be read: {reason}; give a Parquet file or folder, or a .csv file") from None
