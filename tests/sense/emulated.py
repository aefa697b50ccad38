"""A publisher without a network: real models on generated fires, and a load that follows what they send."""

from __future__ import annotations

from functools import cache

import numpy as np

from firelane.sense import Fire, SendingBank, fire_trace

PERIOD_S = 5
SPREAD_S = 900  # fires began up to this long ago


@cache
def readings(sensors: int, seconds: int, seed: int, noise: float = 0.1):
    """Thermometers of many small fires that began at different times, so that together they ask for a steady rate."""
    draw = np.random.default_rng(seed)
    parts = []
    while 4 * len(parts) < sensors:
        fire = Fire(rooms=2, sensors=2, seconds=seconds + SPREAD_S, noise=noise, seed=10_000 * seed + len(parts))
        begin = int(draw.integers(SPREAD_S))
        parts.append(fire_trace(fire).values[begin : begin + seconds])
    return np.concatenate(parts, axis=1)[:, :sensors]


class Emulated:
    """Load = c0 + c1 x updates a second, and never more than 1."""

    def __init__(self, read, *, sensors: int, delta: float, idle: float = 0.05) -> None:
        self.read, self.sensors, self.idle = read, sensors, idle
        self.bank = SendingBank(read.shape[1], delta=delta)
        self.second = 0
        self.sent_hz = 0.0
        self.cost_s = 0.0  # of an update

    def rate(self, load: float, *, samples: int) -> None:
        """Let it run, and say that what it did then was a load."""
        sent = [self._period() for _ in range(samples)]
        self.cost_s = (load - self.idle) / np.mean(sent[samples // 2 :])

    def period(self) -> float:
        """The load of the next period."""
        self._period()
        return min(self.demand, 1.0)

    @property
    def demand(self) -> float:
        return self.idle + self.cost_s * self.sent_hz

    def _period(self) -> float:
        chosen, sent = np.arange(self.sensors), 0
        for _ in range(PERIOD_S):
            sent += len(self.bank.observe(float(self.second), self.read[self.second, : self.sensors], chosen))
            self.second += 1
        self.sent_hz = sent / PERIOD_S
        return self.sent_hz
