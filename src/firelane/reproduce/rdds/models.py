"""Models beyond value and slope, each tried against the filter in use: a third state, a damped slope, neighbours.

    python -m firelane.reproduce.rdds.models [MEASURED.csv ...]

Every model is the filter of `firelane.sense.filter` with one thing more, and like it knows only what was sent. A
neighbour enters through its shared prediction: when it has left the course it was on at this sensor's last update, a
share of the difference is added to this sensor's own prediction, and adopted at its next update.

Implements: rdds, section III-B1 (the third state variable) and section VI, the future work (other models, correlation).
Differs:    the paper names these and tries none.
Symbols:    d2x/dt2 -> the third state; delta -> delta.
Checked by: tests/reproduce/test_rdds_models.py
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from firelane.arrays import Flags, Floats, Ints
from firelane.compiled import compiled
from firelane.sense import Fire, Trace, fire_trace, read_trace, replay
from firelane.sense.filter import (
    FIRST_SLOPE_VARIANCE,
    FIRST_WANDER,
    LEAST_PULL,
    LEAST_WANDER,
    MOST_PULL,
    MOST_WANDER,
    NOISE_OF_DELTA,
)

DELTAS = (0.25, 0.5, 1.0, 2.0)
NOISES = (0.0, 0.1, 0.3)
FIRES = 42  # of 24 thermometers: 1008 traces
FIRST_BEND_VARIANCE = 1e-2  # of the third state, in terms of a reading's, as others in `filter`
FOREVER_S = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A filter: how many states, how fast slope and acceleration fade by themselves, what it takes from neighbours."""

    name: str
    states: int = 2
    slope_s: float = FOREVER_S
    bend_s: float = FOREVER_S
    first_wander: float = FIRST_WANDER
    least_wander: float = LEAST_WANDER
    share: float = 0.0


IN_USE = Model(name="kalman")
MODELS = (
    IN_USE,
    Model(name="three states", states=3, first_wander=4e-6, least_wander=1e-9),
    Model(name="three, fading in 4 s", states=3, bend_s=4.0),
    Model(name="three, fading in 16 s", states=3, bend_s=16.0),
    Model(name="damped in 20 s", slope_s=20.0),
    Model(name="damped in 200 s", slope_s=200.0),
    Model(name="neighbours, a fifth", share=0.2),
    Model(name="neighbours, a third", share=0.3),
    Model(name="three, fading in 4 s, neighbours", states=3, bend_s=4.0, share=0.2),
)


def sent_with(trace: Trace, model: Model, delta: float) -> tuple[Flags, Floats]:
    """Which readings have to be sent, and what a subscriber believes at each; times x sensors."""
    sent, believed = np.zeros(trace.values.shape, np.bool_), np.empty(trace.values.shape)
    noise = NOISE_OF_DELTA * (delta * delta)
    _send(
        trace.times_s,
        trace.values,
        neighbours(trace.names),
        delta,
        noise,
        model.first_wander,
        model.least_wander,
        model.states,
        model.slope_s,
        model.bend_s,
        model.share,
        sent,
        believed,
    )
    return sent, believed


def neighbours(names: Sequence[str]) -> Floats:
    """The weight of each sensor for each: of TCA_4 these are TCA_3 and TCA_5, of T2_1 only T2_2."""
    places = {name: place for place, name in enumerate(names)}
    weights = np.zeros((len(names), len(names)))
    for name, place in places.items():
        if found := re.fullmatch(r"(.*_)(\d+)", name):
            for beside in (int(found[2]) - 1, int(found[2]) + 1):
                if (other := places.get(f"{found[1]}{beside}")) is not None:
                    weights[place, other] = 1.0
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    return weights


@compiled
def _transition(dt: float, states: int, slope_s: float, bend_s: float) -> Floats:
    """How the states are after dt, where slope and acceleration fade exponentially if at all."""
    step = np.eye(3)
    step[0, 1] = dt if slope_s == np.inf else slope_s * (1.0 - np.exp(-dt / slope_s))
    step[1, 1] = np.exp(-dt / slope_s)
    if states == 3:
        faded = dt if bend_s == np.inf else bend_s * (1.0 - np.exp(-dt / bend_s))
        step[0, 2] = dt * dt / 2.0 if bend_s == np.inf else bend_s * (dt - faded)
        step[1, 2] = faded
        step[2, 2] = np.exp(-dt / bend_s)
    return step


@compiled
def _pushed(dt: float, states: int) -> Floats:
    """What a unit of the derivative that the states leave out does to them in dt, if it is constant."""
    return np.array([dt * dt / 2.0, dt, 0.0]) if states == 2 else np.array([dt**3 / 6.0, dt * dt / 2.0, dt])


@compiled
def _widened(spread: Floats, step: Floats, pushed: Floats, wander: float) -> Floats:
    """F P F^T + Q."""
    wide = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            wide[i, j] = wander * pushed[i] * pushed[j]
            for k in range(3):
                for m in range(3):
                    wide[i, j] += step[i, k] * spread[k, m] * step[j, m]
    return wide


@compiled
def _wandering(wander: float, same: float, power: float, noise: float, least: float) -> float:
    """The wander after an update, by whether it was to the same side as the one before, as `filter` has it."""
    factor = 2.0 if same > 0.0 else (0.125 if same < 0.0 else 1.0)
    least, most = min(least, LEAST_PULL / power), max(MOST_WANDER, MOST_PULL / power)
    return max(least * noise, min(wander * factor, most * noise))


@compiled
def _of_neighbours(weights: Floats, course: Floats) -> tuple[float, float]:
    """Their mean course: its value at time 0, and its slope."""
    return (weights * course[:, 0]).sum(), (weights * course[:, 1]).sum()


@compiled
def _send(
    times_s: Floats,
    readings: Floats,
    weights: Floats,
    delta: float,
    noise: float,
    first_wander: float,
    least_wander: float,
    states: int,
    slope_s: float,
    bend_s: float,
    share: float,
    sent: Flags,
    believed: Floats,
) -> None:
    sensors = readings.shape[1]
    state, spread = np.zeros((sensors, 3)), np.zeros((sensors, 3, 3))
    updated_s, side, wander = np.full(sensors, times_s[0]), np.zeros(sensors), np.full(sensors, first_wander * noise)
    course, since = np.zeros((sensors, 2)), np.zeros((sensors, 2))  # as straight lines; of neighbours, at one's update
    state[:, 0] = course[:, 0] = believed[0] = readings[0]
    spread[:, 0, 0] = noise
    spread[:, 1, 1] = FIRST_SLOPE_VARIANCE * noise
    spread[:, 2, 2] = FIRST_BEND_VARIANCE * noise if states == 3 else 0.0
    sent[0] = True
    for one in range(sensors):
        since[one] = _of_neighbours(weights[one], course)
    for row in range(1, len(times_s)):
        for one in range(sensors):
            dt = times_s[row] - updated_s[one]
            step = _transition(dt, states, slope_s, bend_s)
            ahead = (step * state[one]).sum(axis=1)
            if share > 0.0:
                level, slope = _of_neighbours(weights[one], course)
                ahead[0] += share * ((level - since[one, 0]) + (slope - since[one, 1]) * times_s[row])
                ahead[1] += share * (slope - since[one, 1])
            off = readings[row, one] - ahead[0]
            believed[row, one] = ahead[0]
            if abs(off) < delta:
                continue
            sent[row, one] = True
            believed[row, one] = readings[row, one]
            same = 1.0 if off > 0.0 else -1.0
            wander[one] = _wandering(wander[one], same * side[one], dt ** (2 * states), noise, least_wander)
            wide = _widened(spread[one], step, _pushed(dt, states), wander[one])
            gain = wide[:, 0] / (wide[0, 0] + noise)
            state[one] = ahead + gain * off
            spread[one] = wide - np.outer(gain, wide[0])
            updated_s[one], side[one] = times_s[row], same
            course[one, 0], course[one, 1] = state[one, 0] - state[one, 1] * times_s[row], state[one, 1]
            since[one] = _of_neighbours(weights[one], course)


def compare(
    traces: Mapping[str, Sequence[Trace]], deltas: Iterable[float] = DELTAS, models: Iterable[Model] = MODELS
) -> list[dict[str, Any]]:
    """A row per set of traces, delta and model: the share that need not be sent, and how many fewer updates there are.

    `chosen` is the share if every sensor had whichever of `last-value`, `kalman` and this model sends least, known
    beforehand, and `chosen_fewer` what that saves against the better of the first two: what `auto` could gain at most.
    """
    rows = []
    for name, some in traces.items():
        readings = sum(trace.values.size for trace in some)
        for delta in deltas:
            cached = np.concatenate([replay(trace, delta=delta, model="last-value").sent_of for trace in some])
            in_use = _sent_of(some, IN_USE, delta)
            without = np.minimum(cached, in_use)
            for model in models:
                sent = _sent_of(some, model, delta)
                chosen = np.minimum(without, sent)
                rows.append(
                    {
                        "traces": name,
                        "delta": delta,
                        "model": model.name,
                        "suppressed": 1 - sent.sum() / readings,
                        "fewer": 1 - sent.sum() / in_use.sum(),
                        "chosen": 1 - chosen.sum() / readings,
                        "chosen_fewer": 1 - chosen.sum() / without.sum(),
                    }
                )
    return rows


def _sent_of(traces: Sequence[Trace], model: Model, delta: float) -> Ints:
    return np.concatenate([sent_with(trace, model, delta)[0].sum(axis=0) for trace in traces])


def fires(count: int = FIRES, noises: Sequence[float] = NOISES) -> dict[str, list[Trace]]:
    """Generated fires, a set for each noise."""
    return {
        f"generated, noise {noise:g}": [fire_trace(Fire(seed=seed, noise=noise)) for seed in range(count)]
        for noise in noises
    }


def show(rows: Iterable[Mapping[str, Any]], console: Console) -> None:
    """The rows as a table for people."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("traces", "delta", "model", "suppressed", "fewer", "chosen", "chosen_fewer"):
        table.add_column(heading)
    for row in rows:
        table.add_row(*(f"{one:.1%}" if place > 2 else str(one) for place, one in enumerate(row.values())))
    console.print(table)


if __name__ == "__main__":
    measured = {Path(path).stem: [read_trace(path, sensors="TC*")] for path in sys.argv[1:]}
    show(compare({**measured, **fires()}), Console(width=120))
