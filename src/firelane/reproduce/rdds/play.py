"""One run of the paper's scenario, as all its processes are told it, and a firefighter that plays its part.

All read their sensors once an interval, each at its own moment of it. Time is that of the fires: where the clock is
scaled, a second of theirs takes less than one of ours.

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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from firelane.reproduce.rdds.fires import Fires, Sensors, names_of, sensors
from firelane.sense.bank import AUTO, EVERY
from firelane.sense.offer import Resync
from firelane.sense.publisher import PublishedStream, SensorPublisher

TOPICS = "fire/#"
HEARTBEAT_S = 10.0  # on our clock
WARM_ROWS = 60  # readings that models have seen before a run
SAMPLE_ROWS = 5  # Table I
WITHDRAWN_S = 5.0
MOST_BEHIND = 2.0  # intervals; then readings are skipped
PLAIN, CACHING, KALMAN = EVERY, "last-value", "kalman"
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
    sample_rows: int = SAMPLE_ROWS  # readings from one sample of the load to the next
    cores: float = 1.0  # that the measured device has
    target: float | None = None  # of its load, if that is controlled
    more_sensors: int = 0  # of each, that come later
    more_sample: int | None = None  # when they come
    each_s: float = 1e-6  # what its application takes for a message, where the load is controlled
    slow_sample: int | None = None  # from here on it takes twice as long
    window_samples: int = 24  # between signals of a subscriber to its publishers
    buffer: int = 10_000  # messages that may wait for the application

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


def clock_of(setting: Setting, fires: Fires) -> Callable[[], float]:
    """The time of the fires."""
    speed = fires.step_s / setting.interval_s
    return lambda: time.monotonic() * speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stream and its sensors, which are read from a row on."""

    stream: PublishedStream
    sensors: Sensors
    first_row: int


class Firefighter:
    """One of them: its sensors and the streams that they are in."""

    def __init__(self, setting: Setting, fires: Fires, number: int) -> None:
        self.topic = f"fire/{number}"
        self.setting = setting
        self.speed = fires.step_s / setting.interval_s
        self.phase_s = setting.interval_s * number / setting.participants
        self.skipped = 0  # readings that there was no time for
        self.parts: list[Part] = []
        self._waiting: PublishedStream | None = None
        self._first = sensors(fires, setting.sensors, setting.seed, number)
        self._more = sensors(fires, setting.more_sensors, setting.seed, number, 1)

    async def offer(self, publisher: SensorPublisher) -> None:
        """Offer its streams; the sensors of the first are there at once."""
        first = await self._offered(publisher, self.topic, len(self._first))
        self._begin(first, self._first)
        if self.setting.more_sample is not None:
            self._waiting = await self._offered(publisher, f"{self.topic}/more", len(self._more))

    async def join(self) -> None:
        """Wait until it is time for more sensors, and begin to read them."""
        if self.setting.more_sample is not None and self._waiting is not None:
            await asyncio.sleep(self.setting.sample_at(self.setting.more_sample) - time.monotonic())
            self._begin(self._waiting, self._more)

    async def _offered(self, publisher: SensorPublisher, topic: str, count: int) -> PublishedStream:
        setting, plain = self.setting, self.setting.model == PLAIN
        return await publisher.offer(
            topic,
            names_of(count),
            precision=None if plain else setting.delta,
            discrete=plain,
            model=AUTO if plain else setting.model,
            heartbeat_s=HEARTBEAT_S * max(1.0, self.speed),
        )

    def _begin(self, stream: PublishedStream, chosen: Sensors) -> None:
        """Have models that have already seen some readings, and tell everybody their states."""
        row = self._next_row()
        for before in range(row - (1 if self.setting.model == PLAIN else WARM_ROWS), row):
            stream.sending.observe(self._at(before) * self.speed, chosen.read(before))
        stream.lacks(Resync())
        self.parts.append(Part(stream=stream, sensors=chosen, first_row=row))

    async def withdraw(self, publisher: SensorPublisher) -> None:
        """Take back what was offered; not for long, as a device that is full may not hear the answers."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WITHDRAWN_S):
                for topic in list(publisher.streams):
                    await publisher.withdraw(topic)

    async def play(self) -> None:
        """Read all sensors every interval until the run ends."""
        row, setting = self._next_row(), self.setting
        while (at := self._at(row)) < setting.end_at:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            if time.monotonic() > at + MOST_BEHIND * setting.interval_s:
                row, before = self._next_row(), row
                self.skipped += (row - before) * sum(len(part.sensors) for part in self.parts)
                continue
            for part in self.parts:
                if row >= part.first_row:
                    readings = part.sensors.read(row)
                    await part.stream.observe(readings, time_s=at * self.speed, apart=setting.apart)
            row += 1

    def total(self, name: str) -> int:
        """A count of its streams, all together."""
        return sum(getattr(part.stream.sending, name) for part in self.parts)

    def _at(self, row: int) -> float:
        return self.phase_s + row * self.setting.interval_s

    def _next_row(self) -> int:
        return math.ceil((time.monotonic() - self.phase_s) / self.setting.interval_s)
