"""What topics' rates will be a little later: as they were a cycle ago, on along their trend, or as now.

A cycle is believed when it has been seen nearly twice and the second would have been foreseen from the first; a trend
when the load is on a line whose slope is more than chance, and not on a step. How often forecasts were nearer or
further off than none would have been is counted.

Implements: planemqx, section VII, the future work: predicting changes.
Differs:    the paper names no method; lengths of cycles are found by autocorrelation.
Symbols:    none of the paper's.
Checked by: tests/control/test_forecast.py
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from firelane.arrays import Flags, Floats

MOST_TOPICS = 1000  # others are as now
MOST_LOOKS = 720  # that are remembered
LINE_LOOKS = (12, 24)  # that a line is drawn through: few if they are enough to tell, else more
SURE = 4.0  # standard errors from which on a slope is believed
STILL = 0.5  # of the slope of a long line: what that of its end must be
LEAST_RISE = 0.1  # of the load, over the line
CROOKED = 3.0  # times the scatter of chance from which on it is no line
SHORTEST_CYCLE = 8  # looks
SHORT_CYCLE = 60  # up to which its highest load is planned for: plans twice a cycle would be too many
LEAST_CYCLES = 32  # looks, in which cycles are looked for; then in SPAN times as many, and so on
SPAN = 1.5
LONGEST_CYCLE = 0.6  # of all looks, so that the start of a third is foreseen
LIKENESS = 0.5  # autocorrelation from which on a cycle is looked into
BETTER = 0.6  # of the error of 'as now': what a cycle's must be below
LEVEL_LOOKS = 3  # that are averaged for the level now
LIVELY = 3.0  # times the variance of chance from which on a load comes and goes
NOTABLE = 0.02  # of the load: smaller errors are all the same
AS_NOW, TREND, CYCLE = "as now", "trend", "cycle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """How forecasts did: how many there were, and how many were nearer than 'as now', or further off."""

    made: int = 0
    helped: int = 0
    hurt: int = 0


class Forecast:
    """Told the rates of topics at every look (one a second), it says what they will be `horizon` looks later."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.way = AS_NOW
        self.record = Record()
        self._number: dict[str, int] = {}
        self._rates = np.zeros((0, 0))  # a row a look, the oldest first
        self._load = np.zeros(0)
        self._cycle: int | None = None
        self._line = 0  # looks on a line
        self._due: deque[tuple[float, float] | None] = deque()  # loads as forecast and as now, if they differ

    def look(self, latest_hz: Mapping[str, float], costs: Mapping[str, float]) -> None:
        """What came since the last look, as rates; costs are what one message of a topic is to links."""
        self._remember(latest_hz)
        cost = np.array([costs.get(name, 0.0) for name in self._number])
        self._load = load = self._rates @ cost
        self._judge(float(load[-1]))
        variance = self._rates @ cost**2
        self._cycle = late_cycle(load, variance, self.horizon)
        self._line = believed_line(load, variance)
        self.way = CYCLE if self._cycle is not None else TREND if self._line else AS_NOW
        now = float(level(self._rates) @ cost)
        self._due.append(None if self.way == AS_NOW else (float(self._expected() @ cost), now))

    @property
    def line_looks(self) -> int:
        """How many of the last looks are on a line, if that is believed."""
        return self._line

    def ahead(self, rates_hz: Mapping[str, float], reach: int = 1) -> dict[str, float]:
        """The rates to expect, on a trend up to so many horizons later; what it knows nothing of stays as it is."""
        if self.way == AS_NOW:
            return dict(rates_hz)
        if self._cycle is None:
            expected = line(self._rates[-self._line :], reach * self.horizon)
        else:
            expected = self._highest(self._cycle)
        return {
            name: float(expected[self._number[name]]) if name in self._number else rate
            for name, rate in rates_hz.items()
        }

    def _remember(self, latest_hz: Mapping[str, float]) -> None:
        if len(self._number) >= MOST_TOPICS:
            self._forget_silent()
        for name in latest_hz:
            if name not in self._number and len(self._number) < MOST_TOPICS:
                self._number[name] = len(self._number)
        row = np.array([latest_hz.get(name, 0.0) for name in self._number])
        before = np.zeros((len(self._rates), len(row)))
        before[:, : self._rates.shape[1]] = self._rates
        self._rates = np.vstack([before, row])[-MOST_LOOKS:]

    def _forget_silent(self) -> None:
        """Make room for other topics: of those on which nothing came in all that is remembered nothing is lost."""
        heard: Flags = self._rates.max(axis=0, initial=0.0) > 0
        names = [name for name, was_heard in zip(self._number, heard.tolist(), strict=True) if was_heard]
        self._number = {name: number for number, name in enumerate(names)}
        self._rates = self._rates[:, heard]

    def _judge(self, load: float) -> None:
        """Compare what was forecast for this look with what came."""
        if len(self._due) < self.horizon or (due := self._due.popleft()) is None:
            return
        forecast, as_now = due
        gain = abs(as_now - load) - abs(forecast - load)
        self.record = Record(
            made=self.record.made + 1,
            helped=self.record.helped + (gain > NOTABLE * load),
            hurt=self.record.hurt + (-gain > NOTABLE * load),
        )

    def _highest(self, cycle: int) -> Floats:
        """The rates at the highest load of the time to come: of a short cycle as a whole, else up to the horizon."""
        looks = cycle if cycle <= SHORT_CYCLE else self.horizon
        last = len(self._load) - 1
        then = last + 1 + np.arange(looks) - cycle * (1 + np.arange(looks) // cycle)
        smooth = np.convolve(self._load, np.full(LEVEL_LOOKS, 1 / LEVEL_LOOKS), "same")
        peak = int(then[np.argmax(smooth[then])])
        return np.asarray(self._rates[max(0, peak - 1) : peak + 2].mean(axis=0))

    def _expected(self) -> Floats:
        if self._cycle is not None:
            return again(self._rates, self._cycle, self.horizon)
        return line(self._rates[-self._line :], self.horizon) if self.way == TREND else level(self._rates)


def level(rates: Floats) -> Floats:
    """The rates now, over a few looks."""
    return np.asarray(rates[-LEVEL_LOOKS:].mean(axis=0))


def line(rates: Floats, ahead: int) -> Floats:
    """Lines through looks (rows), so many looks later."""
    time = _times(len(rates))
    slope: Floats = time @ rates / (time @ time)
    expected: Floats = np.maximum(0.0, rates.mean(axis=0) + slope * (time[-1] + ahead))
    return expected


def believed_line(load: Floats, variance: Floats) -> int:
    """How many of the last looks are on a line, 0 if none are; a long one must not be over already."""
    least = LINE_LOOKS[0]
    for looks in LINE_LOOKS:
        if len(load) >= looks and on_a_line(load[-looks:], variance[-looks:]):
            whole, late = slope(load[-looks:]), slope(load[-least:])
            return looks if late * whole >= STILL * whole**2 else 0
    return 0


def slope(load: Floats) -> float:
    """Of the line through looks."""
    time = _times(len(load))
    return float(time @ load / (time @ time))


def on_a_line(load: Floats, variance: Floats) -> bool:
    """Whether loads are on a line that rises or falls; the variances say what chance does to each."""
    looks = len(load)
    if variance.mean() <= 0:
        return False
    time, rise = _times(looks), slope(load)
    left = load - load.mean() - rise * time
    straight = left @ left / (looks - 2) < CROOKED * variance.mean()
    steep = abs(rise) > max(SURE * np.sqrt(variance.mean() / (time @ time)), LEAST_RISE * load.mean() / looks)
    return bool(straight and steep)


def _times(looks: int) -> Floats:
    return np.arange(looks, dtype=np.float64) - (looks - 1) / 2


def believed_cycle(load: Floats, variance: Floats, horizon: int) -> int | None:
    """After how many looks the load repeats itself, if it did so and could have been foreseen from that.

    The variances say what chance does to each look: what is no more than that has no cycle.
    """
    period = cycle(load)
    if period is None or load[-2 * period :].var() < LIVELY * variance[-2 * period :].mean():
        return None
    off = np.abs(load[period:] - load[:-period])[-period:]
    now = np.convolve(load, np.full(LEVEL_LOOKS, 1 / LEVEL_LOOKS), "valid")  # of looks LEVEL_LOOKS - 1 and later
    as_now = np.abs(load[LEVEL_LOOKS - 1 + horizon :] - now[:-horizon])[-period:]
    return period if off.mean() < BETTER * as_now.mean() else None


def late_cycle(load: Floats, variance: Floats, horizon: int) -> int | None:
    """A believed cycle of late: in the last minute or as far back as is remembered, as other things may lie before."""
    looks = LEAST_CYCLES
    while looks < 2 * len(load):
        if (period := believed_cycle(load[-looks:], variance[-looks:], horizon)) is not None:
            return period
        looks = round(SPAN * looks)
    return None


def cycle(load: Floats) -> int | None:
    """After how many looks the load is most like itself, if there are nearly twice as many."""
    looks = len(load)
    longest = int(looks * LONGEST_CYCLE)
    if longest < SHORTEST_CYCLE:
        return None
    off = load - load.mean()
    power = np.abs(np.fft.rfft(off, 2 * looks)) ** 2
    likeness = np.fft.irfft(power)[: longest + 2] / np.arange(looks, looks - longest - 2, -1)
    if likeness[0] <= 0:
        return None
    inner = likeness[1:-1] / likeness[0]
    peaks = 1 + np.flatnonzero((np.diff(likeness)[:-1] >= 0) & (np.diff(likeness)[1:] < 0) & (inner > LIKENESS))
    peaks = peaks[peaks >= SHORTEST_CYCLE]
    if len(peaks) == 0:
        return None
    return int(peaks[np.argmax(likeness[peaks] > 0.9 * likeness[peaks].max())])


def again(rates: Floats, period: int, ahead: int) -> Floats:
    """What came a cycle, or several, before the look to be forecast."""
    then = len(rates) - 1 + ahead
    then -= period * -(-(ahead) // period)
    return np.asarray(rates[max(0, then - 1) : then + 2].mean(axis=0))
