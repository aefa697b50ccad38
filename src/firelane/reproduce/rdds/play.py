"""One run of the paper's scenario, as all its processes are told it, and a firefighter that plays its part.

All read their sensors once an interval, each at its own moment of it. Time is that of the fires: where the clock is scaled,
a second of theirs takes less than one of ours.

Implements: rdds, section IV-B (the testbed of Table II).
Differs:    emulated firefighters publish, but follow nobody: what they would receive is not measured.
Symbols:    |C| -> participants, delta -> delta.
Checked by: tests/reproduce/test_rdds.py
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from firelane.arrays import Floats
from firelane.reproduce.rdds.fires import Fires, Sensors, firefighter, names_of
from firelane.sense.bank import AUTO, EVERY
from firelane.sense.publisher import PublishedStream, SensorPublisher

TOPICS = "fire/#"
HEARTBEAT_S = 10.0  # on our clock
WARM_ROWS = 60  # readings that models have seen before a run
MOST_BEHIND = 2.0  # intervals; then readings are skipped
PLAIN, CACHING, KALMAN = EVERY, "last-value", "kalman"
METHODS = {PLAIN: "every reading", CACHING: "last value", KALMAN: "filters", AUTO: "auto"}
DEVICE = 0  # the firefighter that is measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A run: everything that its processes need to know. Times are those of the machine's monotonic clock."""

    broker: str
    fires: Path
    begin_at: float
    samples: int
    participants: int
    sensors: int  # of each firefighter
    seed: int = 1
    model: str = AUTO
    apart: bool = True  # a message for each update, as in the paper
    delta: float = 0.5
    interval_s: float = 1.0  # between readings, on our clock
    sample_rows: int = 5  # readings from one sample of the load to the next
    cores: float = 1.0  # that the measured device has
    target: float | None = None  # of its load, if that is controlled
    asleep: int = 0  # sensors of each that wake up later
    wake_sample: int | None = None
    slow_sample: int | None = None  # from here on it takes in messages slowly
    slow_to: float = 1.0  # the share of those that arrived a second before
    window_samples: int = 24  # between signals of a subscriber to its publishers
    buffer: int = 10_000

    @property
    def period_s(self) -> float:
        """Between samples."""
        return self.interval_s * self.sample_rows

    @property
    def end_at(self) -> float:
        """When the last sample is taken."""
        return self.sample_at(self.samples)

    def sample_at(self, sample: int) -> float:
        """When that is."""
        return self.begin_at + sample * self.period_s

    @property
    def woken_row(self) -> int | None:
        """The reading at which the sleeping sensors wake up."""
        return None if self.wake_sample is None else math.ceil(self.sample_at(self.wake_sample) / self.interval_s)


def clock_of(setting: Setting, fires: Fires) -> Callable[[], float]:
    """The time of the fires."""
    speed = fires.step_s / setting.interval_s
    return lambda: time.monotonic() * speed


class Firefighter:
    """One of them: its sensors, and its stream once it is offered."""

    def __init__(self, setting: Setting, fires: Fires, number: int) -> None:
        self.topic = f"fire/{number}"
        self.setting = setting
        self.sensors: Sensors = firefighter(
            fires, number, setting.sensors, seed=setting.seed, asleep=setting.asleep
        )
        self.speed = fires.step_s / setting.interval_s
        self.phase_s = setting.interval_s * number / setting.participants
        self.skipped = 0  # readings that there was no time for
        self._stream: PublishedStream | None = None

    @property
    def stream(self) -> PublishedStream:
        """What it publishes."""
        assert self._stream is not None, "it is offered first"
        return self._stream

    async def offer(self, publisher: SensorPublisher) -> None:
        """Offer the stream, with models that have already seen some readings."""
        setting, plain = self.setting, self.setting.model == PLAIN
        self._stream = await publisher.offer(
            self.topic,
            names_of(len(self.sensors)),
            precision=None if plain else setting.delta,
            discrete=plain,
            model=AUTO if plain else setting.model,
            heartbeat_s=HEARTBEAT_S * max(1.0, self.speed),
        )
        row = self._next_row()
        for before in range(row - (1 if plain else WARM_ROWS), row):
            self.stream.sending.observe(self._at(before) * self.speed, self.readings(before))

    def readings(self, row: int) -> Floats:
        """What its sensors read."""
        woken = self.setting.woken_row
        return self.sensors.read(row, woken if woken is not None and row >= woken else None)

    async def play(self) -> None:
        """Read all sensors every interval until the run ends."""
        row, setting = self._next_row(), self.setting
        while (at := self._at(row)) < setting.end_at:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            if time.monotonic() > at + MOST_BEHIND * setting.interval_s:
                row, before = self._next_row(), row
                self.skipped += (row - before) * setting.sensors
                continue
            await self.stream.observe(self.readings(row), time_s=at * self.speed, apart=setting.apart)
            row += 1

    def _at(self, row: int) -> float:
        return self.phase_s + row * self.setting.interval_s

    def _next_row(self) -> int:
        return math.ceil((time.monotonic() - self.phase_s) / self.setting.interval_s)
