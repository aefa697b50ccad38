"""The arithmetic that both ends of a sensor's model share, sensor by sensor, to the last bit.

A two-state Kalman filter (value and slope) that is corrected only by readings that were sent, so that both ends have
seen the same. Between updates the acceleration is taken for constant and unknown; its variance (the wander) follows
from updates alone too. It doubles when two of them running correct to the same side, as the filter then lags behind,
and falls to an eighth when they correct to different sides, as that is noise. Its limits are wider for updates that are
milliseconds or hours apart, so that there, too, it can grow and fall as far as makes a difference.

Every line is one IEEE 754 operation in double precision after the other, without fused multiply-add and without
reordering; docs/sense.md has them in order for other languages.

Implements: rdds, section III-B, Eq. 1 and Algorithms 1 and 2 (the models' part of them).
Differs:    the paper leaves the filter's noise open. Here that of readings is tied to delta, that of the slope adapts.
Symbols:    x, dx/dt -> LEVEL, SLOPE; P -> VARIANCE, COVARIANCE, SLOPE_VARIANCE; delta-t -> dt; m_i -> model.
Checked by: tests/sense/test_filter.py, tests/sense/test_both_ends.py
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.compiled import compiled
from firelane.sense.state import (
    COVARIANCE,
    KEPT,
    LAST_VALUE,
    LEVEL,
    NOISE,
    SENT,
    SENT_WHOLE,
    SIDE,
    SLOPE,
    SLOPE_VARIANCE,
    TIME,
    VALUE,
    VARIANCE,
    WANDER,
)

NOISE_OF_DELTA = 0.5  # the variance of a reading in terms of delta^2
FIRST_SLOPE_VARIANCE = 8.0  # this and those of the wander in terms of that variance
FIRST_WANDER = 4e-4
LEAST_WANDER, MOST_WANDER = 2e-6, 2e6
LEAST_PULL, LONG_FOURTH = 0.1, 5e4  # over more than this of dt^4 the least wander is less, and this over dt^4
MOST_PULL, SHORT_FOURTH = 1e6, 0.5  # over less than this of dt^4 the most wander is more, and this over dt^4
LEAST_FOURTH = 1e-40  # of dt^4, which could be 0
KEEP = 0.93  # of a model's score from reading to reading


@compiled
def predicted(state: Floats, model: int, sensor: int, dt: float) -> float:
    """What a model says dt after the sensor's last update."""
    if model == LAST_VALUE:
        return state[sensor, VALUE]  # type: ignore[no-any-return]
    return state[sensor, LEVEL] + state[sensor, SLOPE] * dt  # type: ignore[no-any-return]


@compiled
def begin(state: Floats, sensor: int, time_s: float, reading: float, noise: float) -> None:
    """The state after a sensor's first reading."""
    state[sensor, TIME] = time_s
    state[sensor, VALUE] = reading
    state[sensor, LEVEL] = reading
    state[sensor, SLOPE] = 0.0
    state[sensor, VARIANCE] = noise
    state[sensor, COVARIANCE] = 0.0
    state[sensor, SLOPE_VARIANCE] = FIRST_SLOPE_VARIANCE * noise
    state[sensor, WANDER] = FIRST_WANDER * noise
    state[sensor, NOISE] = noise
    state[sensor, SIDE] = 0.0


@compiled
def adapted(wander: float, last_side: float, side: float, dt: float, noise: float) -> float:
    """The wander after a correction to this side."""
    factor = 2.0 if side == last_side else (0.125 if last_side != 0.0 else 1.0)
    fourth = max(((dt * dt) * dt) * dt, LEAST_FOURTH)
    least = LEAST_WANDER * noise if fourth <= LONG_FOURTH else (LEAST_PULL * noise) / fourth
    most = MOST_WANDER * noise if fourth >= SHORT_FOURTH else (MOST_PULL * noise) / fourth
    return max(least, min(wander * factor, most))


@compiled
def correct(state: Floats, sensor: int, time_s: float, reading: float) -> None:
    """The state after a reading that was sent: a Kalman filter's prediction and its correction."""
    dt, noise = time_s - state[sensor, TIME], state[sensor, NOISE]
    a, b, c = state[sensor, VARIANCE], state[sensor, COVARIANCE], state[sensor, SLOPE_VARIANCE]
    ahead = state[sensor, LEVEL] + state[sensor, SLOPE] * dt
    off = reading - ahead
    side = 1.0 if off > 0.0 else -1.0
    wander = adapted(state[sensor, WANDER], state[sensor, SIDE], side, dt, noise)
    # P' = F P F^T + Q
    q_slope = (wander * dt) * dt
    q_both = (q_slope * dt) / 2.0
    q_level = (q_both * dt) / 2.0
    crossed = b + dt * c
    variance = (a + dt * (b + crossed)) + q_level
    covariance = crossed + q_both
    slope_variance = c + q_slope
    # |P'| is |P| and what Q adds to it, a sum that loses no digits and is never negative
    determinant = max(a * c - b * b, 0.0) + q_slope * (a + dt * (b + (dt * c) / 4.0))
    # K = P' H^T / (H P' H^T + R)
    total = variance + noise
    gain = variance / total
    slope_gain = covariance / total
    state[sensor, TIME] = time_s
    state[sensor, VALUE] = reading
    state[sensor, LEVEL] = ahead + gain * off
    state[sensor, SLOPE] = state[sensor, SLOPE] + slope_gain * off
    # (I - K H) P' for one measurement; after a long time P'22 - K2 P'12 would be left without a digit
    state[sensor, VARIANCE] = gain * noise
    state[sensor, COVARIANCE] = slope_gain * noise
    state[sensor, SLOPE_VARIANCE] = (noise * slope_variance + determinant) / total
    state[sensor, WANDER] = wander
    state[sensor, SIDE] = side


@compiled
def believe(state: Floats, model: Ints, sequence: Ints, sensors: Ints, times_s: Floats) -> Floats:
    """What one end takes sensors to read: what was received at an update, predictions after it."""
    believed = np.empty(len(sensors))
    for row in range(len(sensors)):
        sensor = sensors[row]
        dt = times_s[row] - state[sensor, TIME]
        if sequence[sensor] == 0:
            believed[row] = np.nan
        elif dt <= 0.0:
            believed[row] = state[sensor, VALUE]
        else:
            believed[row] = predicted(state, model[sensor], sensor, dt)
    return believed


@compiled
def watch(
    state: Floats,
    model: Ints,
    sequence: Ints,
    score: Floats,
    delta: Floats,
    choosing: bool,
    sensors: Ints,
    times_s: Floats,
    readings: Floats,
) -> Ints:
    """Algorithm 1 for one reading after the other: which of them have to be sent, and which with the whole state."""
    result = np.empty(len(sensors), np.int64)
    for row in range(len(sensors)):
        sensor, reading = sensors[row], readings[row]
        if sequence[sensor] == 0:
            begin(state, sensor, times_s[row], reading, NOISE_OF_DELTA * (delta[sensor] * delta[sensor]))
            sequence[sensor] = 1
            result[row] = SENT_WHOLE
            continue
        dt = times_s[row] - state[sensor, TIME]
        now = model[sensor]
        if choosing:
            judge(state, score, sensor, dt, reading, delta[sensor])
        if abs(predicted(state, now, sensor, dt) - reading) < delta[sensor]:
            result[row] = KEPT
            continue
        correct(state, sensor, times_s[row], reading)
        sequence[sensor] += 1
        result[row] = SENT
        if choosing and score[1 - now, sensor] < score[now, sensor]:
            model[sensor] = 1 - now
            result[row] = SENT_WHOLE
    return result


@compiled
def judge(state: Floats, score: Floats, sensor: int, dt: float, reading: float, delta: float) -> None:
    """Score both models by a soft count of what they would have had to send lately."""
    for model in range(2):
        off = min(abs(predicted(state, model, sensor, dt) - reading) / delta, 1e30)
        sixth = (off * off) ** 3
        score[model, sensor] = KEEP * score[model, sensor] + sixth / (0.5 + sixth)


@compiled
def follow(
    state: Floats,
    model: Ints,
    sequence: Ints,
    delta: Floats,
    in_step: Flags,
    sensors: Ints,
    sequences: Ints,
    times_s: Floats,
    values: Floats,
    deltas: Floats,
    models: Ints,
    whole: Flags,
    states: Floats,
) -> int:
    """Algorithm 2 for one update after the other; ends early before one whose time does not fit, and says where."""
    place = -1
    for row in range(len(sensors)):
        sensor = sensors[row]
        place += whole[row]
        heals = whole[row] and not in_step[sensor] and sequences[row] == sequence[sensor]
        if sequences[row] <= sequence[sensor] and not heals:
            continue
        if whole[row]:
            state[sensor] = states[place]
            in_step[sensor] = True
        elif sequence[sensor] == 0 or not times_s[row] > state[sensor, TIME]:
            return row
        else:
            correct(state, sensor, times_s[row], values[row])
            in_step[sensor] = in_step[sensor] and sequences[row] == sequence[sensor] + 1
        sequence[sensor] = sequences[row]
        model[sensor] = models[row]
        delta[sensor] = deltas[row]
    return len(sensors)
