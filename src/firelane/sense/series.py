"""A recorded series of loads and precision factors, and a sequence of factors that makes one worth recording."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firelane.arrays import Floats
from firelane.errors import FirelaneError
from firelane.sense.trace import MOST_VALUE, Trace, TraceError, read_trace

UNEVEN = 0.25  # a sample may be this part of the period early or late
COLUMNS = ("load", "gamma")
MOST_SAMPLES = 10_000
SWING = 1.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """What the load was over each period, and the factor that was in force from its end on."""

    times_s: Floats
    load: Floats
    gamma: Floats

    def __post_init__(self) -> None:
        if len(self.times_s) < 2 or not len(self.times_s) == len(self.load) == len(self.gamma):
            raise TraceError("a series needs a time, a load and a gamma in every row, and two rows")
        for name, column, least in (("load", self.load, 0.0), ("gamma", self.gamma, 1e-9)):
            good = (column >= least) & (column <= MOST_VALUE)  # NaN is not
            if not good.all():
                row = int(np.flatnonzero(~good)[0])
                raise TraceError(f"row {row + 1} has the {name} {column[row]:g}; leave out rows without a measurement")
        steps = np.diff(self.times_s)
        off = np.abs(steps - self.period_s) > UNEVEN * self.period_s
        if not self.period_s > 0 or off.any():
            row = int(np.flatnonzero(off)[0]) + 1 if off.any() else 1
            raise TraceError(f"row {row + 1} does not come a period after the one before; sample the load evenly")

    def __len__(self) -> int:
        return len(self.times_s)

    @property
    def period_s(self) -> float:
        """The time between samples."""
        return float(np.median(np.diff(self.times_s)))


def read_series(path: str | Path) -> Series:
    """Read a CSV file with the columns time (first), load and gamma, a row per sample."""
    trace = read_trace(path)
    lower = [name.lower() for name in trace.names]
    missing = [name for name in COLUMNS if lower.count(name) != 1]
    if missing:
        raise TraceError(f'there is no one column "{missing[0]}"; name them time, load and gamma', source=str(path))
    load, gamma = (trace.values[:, lower.index(name)] for name in COLUMNS)
    try:
        return Series(times_s=trace.times_s, load=load, gamma=gamma)
    except TraceError as problem:
        raise TraceError(problem.problem, source=str(path)) from None


def excite(
    samples: int, *, gamma: float, swing: float = SWING, levels: int = 2, hold: int = 3, seed: int = 1
) -> Floats:
    """The factor to apply after each sample: drawn anew between gamma / swing and gamma x swing, and held for a while.

    Two levels are a random binary sequence; more of them show whether the load follows the logarithm of gamma. How
    long a level is held is drawn too, from one sample to `hold`, so that fast and slow answers both show.
    """
    if not (gamma > 0 and swing > 1 and levels >= 2 and hold >= 1 and samples >= 1):
        raise FirelaneError("excite needs samples and hold of 1 or more, 2 levels, gamma above 0 and swing above 1")
    draw = np.random.default_rng(seed)
    places = np.repeat(draw.integers(levels, size=samples), draw.integers(1, hold + 1, size=samples))[:samples]
    return np.asarray(gamma * swing ** (2 * places / (levels - 1) - 1), np.float64)


class Exciter:
    """Sets a publisher's factor as `excite` has it, whatever the load is, and records both."""

    def __init__(self, *, gamma_max: float, period_s: float, seed: int = 1) -> None:
        self.target = 1.0  # nothing is kept
        self.gamma_max = gamma_max
        self.period_s = period_s
        self._gammas = excite(MOST_SAMPLES, gamma=gamma_max / SWING, swing=SWING, seed=seed)
        self._rows: list[tuple[float, float, float]] = []
        self._next_s = -np.inf

    def due(self, now_s: float) -> bool:
        """Whether a period has passed."""
        return now_s >= self._next_s and len(self._rows) < MOST_SAMPLES

    def sample(self, now_s: float, load: float) -> float:
        """Note the load and what is in force from now on."""
        self._next_s = now_s + self.period_s
        gamma = float(self._gammas[len(self._rows)])
        self._rows.append((now_s, load, gamma))
        return gamma

    def series(self) -> Series:
        """The longest stretch that was recorded evenly; the first sample, which has no period, is left out."""
        rows = np.array(self._rows[1:], np.float64).reshape(-1, 3)
        late = np.flatnonzero(np.diff(rows[:, 0]) > (1 + UNEVEN) * self.period_s) + 1
        times_s, load, gamma = max(np.split(rows, late), key=len).T
        return Series(times_s=times_s, load=load, gamma=gamma)


def save_series(series: Series, path: str | Path) -> None:
    """Write a file that `read_series` reads."""
    values = np.column_stack([series.load, series.gamma])
    Trace(names=COLUMNS, times_s=series.times_s - series.times_s[0], values=values).save(path)
