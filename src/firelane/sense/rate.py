"""How often a model of two states has to be corrected while what it follows accelerates.

Implements: rdds, section III-B3, Eq. 2-5.
Differs:    the paper takes the slope to be right after every update; ours is learnt from the updates alone. On a steady
            acceleration it keeps the bound all the same, once it has settled: its gains are then 1 and 2/dt, an error s
            of the slope becomes -s, and two intervals last 2 sqrt(s^2 + 2 alpha delta) / alpha. Where acceleration
            varies within +-alpha, a slope as old as an interval makes it sqrt(3) times as many; docs/sense.md has more.
Symbols:    alpha -> acceleration, r -> the rate, delta -> delta.
Checked by: tests/sense/test_rate.py
"""

from __future__ import annotations

import math


def most_updates_hz(acceleration: float, delta: float) -> float:
    """The most updates a second that a sensor with this d2x/dt2, or less, needs."""
    return math.sqrt(abs(acceleration) / (2 * delta))
