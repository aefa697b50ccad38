"""What the sensors of firefighters read: traces of fires, each played to its end and back again, from anywhere on.

A run lasts seconds, a fire ten minutes. So every sensor is somewhere else in some fire: at any moment they show the
whole of it, and a short run has the mix of readings that a long one has. Played backwards a trace goes on without a
jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.errors import FirelaneError
from firelane.sense import Fire, Trace, fire_trace, read_trace

THERMOCOUPLES, ALL = "TC*", "*"  # the columns to use of a measured fire: the former, if it has such
GENERATED = "generated"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fires:
    """Traces of one step, side by side."""

    name: str
    step_s: float
    values: Floats  # rows x columns

    def save(self, path: Path) -> None:
        """For other processes to read."""
        with path.open("wb") as file:
            np.savez(file, name=self.name, step_s=self.step_s, values=self.values)


def load_fires(path: Path) -> Fires:
    """What was saved."""
    with np.load(path) as data:
        return Fires(name=str(data["name"]), step_s=float(data["step_s"]), values=data["values"])


def generated(count: int, seed: int) -> Fires:
    """So many buildings on fire, of 24 thermometers each, for ten minutes at one reading a second."""
    traces = [fire_trace(Fire(seed=seed + number)) for number in range(count)]
    return Fires(name=GENERATED, step_s=1.0, values=np.hstack([one.values for one in traces]))


def measured(path: Path) -> list[tuple[str, Trace]]:
    """The traces in a file, or in all CSV files of a folder, by name."""
    paths = sorted(path.glob("*.csv")) if path.is_dir() else [path]
    if not paths:
        raise FirelaneError(f"{path}: there are no CSV files in this folder; give traces of fires")
    return [(one.stem if one.stem != GENERATED else "trace", _thermocouples(one)) for one in paths]


def _thermocouples(path: Path) -> Trace:
    trace = read_trace(path, sensors=ALL)
    chosen = [place for place, name in enumerate(trace.names) if name.startswith(THERMOCOUPLES[:-1])]
    if not chosen:
        return trace
    names = tuple(trace.names[place] for place in chosen)
    return Trace(names=names, times_s=trace.times_s, values=np.ascontiguousarray(trace.values[:, chosen]))


def as_fires(name: str, trace: Trace) -> Fires:
    """A measured fire to play; its readings must be regular."""
    steps_s = np.diff(trace.times_s)
    if len(steps_s) < 2 or not np.allclose(steps_s, steps_s[0], rtol=0.01):
        raise FirelaneError(f"{name}: its readings are not equally far apart; give a trace with a steady interval")
    return Fires(name=name, step_s=float(steps_s[0]), values=trace.values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensors:
    """Some sensors, each with a trace and a place in it to begin at."""

    fires: Fires
    column: Ints
    offset: Ints

    def __len__(self) -> int:
        return len(self.column)

    def read(self, row: int) -> Floats:
        """What all of them read at a step."""
        return self.fires.values[played(row + self.offset, len(self.fires.values)), self.column]


def sensors(fires: Fires, count: int, *seed: int) -> Sensors:
    """So many sensors, drawn by the seed."""
    draw = np.random.default_rng(seed)
    rows, columns = fires.values.shape
    return Sensors(fires=fires, column=draw.integers(columns, size=count), offset=draw.integers(2 * rows, size=count))


def played(row: Ints, rows: int) -> Ints:
    """The row of a trace that is shown at a step, if it is played forwards and backwards for ever."""
    period = 2 * (rows - 1)
    place = row % period
    return np.minimum(place, period - place)


def names_of(count: int) -> Sequence[str]:
    """Names for so many sensors."""
    return tuple(f"T{number}" for number in range(count))
