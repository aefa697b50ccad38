"""Readings of all kinds: by hypothesis, and a filter written down from the documentation alone."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

SENSORS = 3

steps_s = st.floats(1e-3, 1e4)
values = st.floats(-1e9, 1e9) | st.floats(-3.0, 3.0)
deltas = st.floats(1e-3, 1e3)
models = st.sampled_from(["last-value", "kalman", "auto"])


@st.composite
def traces(draw):
    """Times that rise in any steps, and readings that wander, jump or rest."""
    count = draw(st.integers(1, 60))
    times_s = np.cumsum(draw(arrays(np.float64, count, elements=steps_s)))
    jumps = draw(arrays(np.float64, (count, SENSORS), elements=values))
    return times_s, jumps if draw(st.booleans()) else np.clip(np.cumsum(jumps, axis=0), -1e12, 1e12)


class Filter:
    """docs/sense.md in plain Python: every line is one or two operations of IEEE 754, in that order."""

    def __init__(self, time, reading, delta):
        r = 0.5 * (delta * delta)
        self.time, self.value, self.level, self.slope = time, reading, reading, 0.0
        self.a, self.b, self.c, self.q, self.r, self.side = r, 0.0, 8.0 * r, 4e-4 * r, r, 0.0

    def correct(self, time, reading):
        dt = time - self.time
        p = self.level + self.slope * dt
        y = reading - p
        side = 1.0 if y > 0.0 else -1.0
        u = max(((dt * dt) * dt) * dt, 1e-40)
        f = 2.0 if side == self.side else (0.125 if self.side != 0.0 else 1.0)
        lo = 2e-6 * self.r if u <= 5e4 else (0.1 * self.r) / u
        hi = 2e6 * self.r if u >= 0.5 else (1e6 * self.r) / u
        self.q = max(lo, min(self.q * f, hi))
        q_c = (self.q * dt) * dt
        q_b = (q_c * dt) / 2.0
        q_a = (q_b * dt) / 2.0
        w = self.b + dt * self.c
        a = (self.a + dt * (self.b + w)) + q_a
        b = w + q_b
        c = self.c + q_c
        d = max(self.a * self.c - self.b * self.b, 0.0) + q_c * (self.a + dt * (self.b + (dt * self.c) / 4.0))
        s = a + self.r
        g, h = a / s, b / s
        self.time, self.value, self.side = time, reading, side
        self.level = p + g * y
        self.slope = self.slope + h * y
        self.a, self.b, self.c = g * self.r, h * self.r, (self.r * c + d) / s

    def state(self):
        return [
            self.time, self.value, self.level, self.slope, self.a, self.b, self.c, self.q, self.r, self.side,
        ]  # fmt: skip
