"""Recorded readings: a CSV file with the time in its first column and a column per sensor."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from firelane.arrays import Floats
from firelane.errors import FirelaneError
from firelane.scenario.save import write_whole

MOST_CELLS = 500_000_000
MOST_VALUE = 1e15  # of a reading or a time: beyond, differences lose their meaning
LEAST_DELTA = 1e-12


class TraceError(FirelaneError):
    """Readings that cannot be used: `source` (a file) and `problem`, with its remedy."""

    def __init__(self, problem: str, *, source: str = "") -> None:
        self.problem = problem
        self.source = source
        super().__init__(f"{source}: {problem}" if source else problem)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """What every sensor read at every time; times rise, and nothing is missing, infinite or beyond sense."""

    names: tuple[str, ...]
    times_s: Floats
    values: Floats  # times x sensors

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.times_s), len(self.names)) or self.values.size == 0:
            raise TraceError("there are no readings in it; give a time and at least one sensor, and one row")
        sound = np.abs(self.times_s) <= MOST_VALUE  # NaN is not
        if not sound.all():
            row = int(np.flatnonzero(~sound)[0])
            raise TraceError(f"row {row + 1} has the time {self.times_s[row]:g}; write a number of seconds")
        back = np.flatnonzero(np.diff(self.times_s) <= 0)
        if len(back):
            row = int(back[0]) + 1
            raise TraceError(
                f"time does not go forward in row {row + 1}: {self.times_s[row]:.17g} s after "
                f"{self.times_s[row - 1]:.17g} s; sort the rows and leave out those that are there twice"
            )
        good = np.abs(self.values) <= MOST_VALUE  # NaN is not
        if not good.all():
            row, sensor = np.argwhere(~good)[0]
            raise TraceError(
                f'sensor "{self.names[sensor]}" reads {self.values[row, sensor]:g} at {self.times_s[row]:g} s; '
                "leave the row or the sensor out, or fill it in"
            )

    def save(self, path: str | Path) -> None:
        """Write the CSV file; readings in full, so that they read back as they are."""
        table = pa.table([self.times_s, *self.values.T], names=["TIME", *self.names])
        content = pa.BufferOutputStream()
        csv.write_csv(table, content, csv.WriteOptions(quoting_style="needed"))
        try:
            write_whole(path, content.getvalue().to_pybytes())
        except OSError as problem:
            raise TraceError(f"this file cannot be written: {problem.strerror}", source=str(path)) from None


def read_trace(path: str | Path, *, sensors: str = "*") -> Trace:
    """Read a CSV file; `sensors` chooses columns by name, with `*` and `?` as wildcards."""
    try:
        table = _read_table(path)
        names = [name for name in table.column_names[1:] if fnmatchcase(name, sensors)]
        if not names:
            some = ", ".join(table.column_names[1:6]) or "none"
            raise TraceError(f'no sensor matches "{sensors}"; the first of its sensors: {some}')
        twice = [name for name in names if table.column_names.count(name) > 1]
        if twice:
            raise TraceError(f'the sensor "{twice[0]}" is there twice; rename one of them')
        if table.num_rows == 0:
            raise TraceError("there are no readings in it, only names; give at least one row")
        values = np.column_stack([_numbers(table, name) for name in names])
        return Trace(names=tuple(names), times_s=_numbers(table, table.column_names[0]), values=values)
    except TraceError as problem:
        raise TraceError(problem.problem, source=str(path)) from None


def _read_table(path: str | Path) -> pa.Table:
    try:
        return csv.read_csv(path, convert_options=csv.ConvertOptions(null_values=[""]))
    except FileNotFoundError:
        raise TraceError("there is no such file") from None
    except (OSError, pa.ArrowException) as problem:
        reason = getattr(problem, "strerror", None) or str(problem).splitlines()[0]
        raise TraceError(
            f"this cannot be read: {reason}; give a CSV file with a row of names, the time in seconds first"
        ) from None


def _numbers(table: pa.Table, name: str) -> Floats:
    """A column as numbers; what is empty is NaN."""
    column = table.column(table.column_names.index(name))
    if column.null_count == table.num_rows > 0:
        raise TraceError(f'the column "{name}" is empty; leave it out')
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        cells = enumerate(column.to_pylist(), 1)
        row, cell = next((one for one in cells if not _is_number(one[1])), (1, column[0]))
        raise TraceError(f'the column "{name}" has "{cell}" in row {row}; write a number, or leave the column out')
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)


def _is_number(cell: object) -> bool:
    try:
        float(str(cell))
    except ValueError:
        return False
    return cell is not None
