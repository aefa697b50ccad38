"""When two straight lines that predict a sensor, a fine and a coarse one, will be too far apart.

Compiled code that is kept on disk does not notice when that of another module changes. So nothing here calls the
filter's arithmetic from compiled code, but for the one line that both ends draw between updates (`line`).
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.compiled import compiled
from firelane.sense.state import KALMAN, LEVEL, SLOPE, TIME, VALUE


@compiled
def line(state: Floats, model: Ints, sensor: int, time_s: float) -> tuple[float, float]:
    """What is predicted just after a time, and how fast that moves."""
    if model[sensor] != KALMAN:
        return state[sensor, VALUE], 0.0
    dt = max(time_s - state[sensor, TIME], 0.0)
    return state[sensor, LEVEL] + state[sensor, SLOPE] * dt, state[sensor, SLOPE]


@compiled
def crosses(
    fine: Floats, fine_model: Ints, coarse: Floats, model: Ints, sensor: int, start_s: float, bound: float, room: float
) -> float:
    """When both will be `room` apart, from a time on; -inf if they are then, or a reading that is known is missed."""
    if start_s <= fine[sensor, TIME]:
        told = coarse[sensor, VALUE]
        if fine[sensor, TIME] > coarse[sensor, TIME]:
            told = line(coarse, model, sensor, fine[sensor, TIME])[0]
        if not abs(told - fine[sensor, VALUE]) < bound:
            return -np.inf
    theirs, their_slope = line(fine, fine_model, sensor, start_s)
    mine, my_slope = line(coarse, model, sensor, start_s)
    off, moving = mine - theirs, my_slope - their_slope
    if not abs(off) < room:
        return -np.inf
    if moving == 0.0:
        return np.inf
    return start_s + ((room if moving > 0.0 else -room) - off) / moving


@compiled
def crossings(
    fine: Floats,
    fine_model: Ints,
    fine_sequence: Ints,
    sure: Flags,
    coarse: Floats,
    model: Ints,
    sequence: Ints,
    alike: Flags,
    sensors: Ints,
    starts_s: Floats,
    bound: float,
    room: float,
) -> Floats:
    """When each of some sensors will be too far off; at once where the subscriber knows nothing.

    What is not known for sure here is not passed on.
    """
    result = np.full(len(sensors), np.inf)
    for row in range(len(sensors)):
        sensor = sensors[row]
        if fine_sequence[sensor] == 0 or not sure[sensor] or alike[sensor]:
            continue
        if sequence[sensor] == 0:
            result[row] = -np.inf
        else:
            result[row] = crosses(fine, fine_model, coarse, model, sensor, starts_s[row], bound, room)
    return result
