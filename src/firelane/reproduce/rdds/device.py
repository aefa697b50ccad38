"""The measured device: a process that publishes its sensors, follows all streams, and says what that cost it.

Implements: rdds, sections IV-D and IV-E, as far as they happen on the N810.
Differs:    a process with a share of a core instead of a tablet; so kernel, models and all the rest are told apart
            instead of its drivers and its process.
Symbols:    U -> load, U_ref -> target, delta -> delta.
Checked by: tests/reproduce/test_rdds.py
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from firelane.client import Client
from firelane.reproduce.rdds.fires import load_fires
from firelane.reproduce.rdds.play import DEVICE, TOPICS, Firefighter, Setting, clock_of
from firelane.reproduce.rdds.worker import Results, serve
from firelane.sense.bank import ModelBank, SendingBank
from firelane.sense.load import ProcessorLoad
from firelane.sense.occupancy import OccupancyPredictor
from firelane.sense.precision import PrecisionController
from firelane.sense.publisher import SensorPublisher
from firelane.sense.subscriber import SensorSubscriber

LOOKS = 8  # of the publisher, from sample to sample
DRAIN_S = 0.2


class Spent:
    """Processor time spent in some functions, which are wrapped for that."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, kind: type[Any], name: str) -> None:
        """Count a method."""
        plain: Callable[..., Any] = getattr(kind, name)

        def timed(*arguments: Any, **more: Any) -> Any:
            started = time.thread_time()
            try:
                return plain(*arguments, **more)
            finally:
                self.seconds += time.thread_time() - started

        setattr(kind, name, timed)


MODELS = Spent()


class Application(OccupancyPredictor):
    """What is done with messages once they are taken in: one after the other, `each_s` seconds for each.

    It takes no processor time, so the device's load stays as it is while messages wait for it. Those that find `buffer`
    of them waiting are lost to it, though not to the models.
    """

    def __init__(self, *, buffer: int, each_s: float, clock: Callable[[], float], **more: Any) -> None:
        super().__init__(buffer=buffer, **more)
        self.each_s = each_s
        self.overflowed = 0
        self._buffer = buffer
        self._clock = clock
        self._ends: deque[tuple[float, float]] = deque()  # when each that waits is done, and how long it took by then

    @property
    def waits(self) -> int:
        """Messages that are not done."""
        self._work(self._clock())
        return len(self._ends)

    def processed(self, delay_s: float, number: int = 1) -> None:
        """A message was taken in; it will be done when all before it are."""
        now = self._clock()
        self._work(now)
        if len(self._ends) >= self._buffer:
            self.overflowed += 1
            return
        end = (self._ends[-1][0] if self._ends else now) + self.each_s
        self._ends.append((end, delay_s + end - now))

    def predict(self, now_s: float, *, in_force: float | None = None) -> float:
        """With what is done by now."""
        self._work(now_s)
        return super().predict(now_s, in_force=in_force)

    def _work(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            super().processed(self._ends.popleft()[1])


class Follower(SensorSubscriber):
    """A subscriber that counts what comes."""

    received = 0

    def arrived(self, topic: str, payload: bytes) -> None:
        """A message came."""
        self.received += 1
        super().arrived(topic, payload)


class Device:
    """A publisher and a subscriber on one connection, and samples of what they do."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.fires = load_fires(setting.fires)
        self.clock = clock_of(setting, self.fires)
        self.speed = self.fires.step_s / setting.interval_s
        self.firefighter = Firefighter(setting, self.fires, DEVICE)
        self.application = None if setting.target is None else self._application()
        self.samples: list[Results] = []

    async def play(self) -> Results:
        """A whole run."""
        setting = self.setting
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(setting.broker, client_id=self.firefighter.topic))
            publisher = await stack.enter_async_context(self._publisher(client))
            await self.firefighter.offer(publisher)
            stack.push_async_callback(self.firefighter.withdraw, publisher)
            follower = await stack.enter_async_context(self._follower(client))
            async with asyncio.TaskGroup() as group:
                group.create_task(self.firefighter.play())
                group.create_task(self.firefighter.join())
                known = await self._settled(follower)
                before = self._totals(follower)
                await self._sample(follower, publisher)
            await asyncio.sleep(DRAIN_S)
            after = self._totals(follower)
            return {"known": known, "samples": self.samples, "streams": len(follower.streams)} | {
                name: after[name] - before[name] for name in after
            }

    def _publisher(self, client: Client) -> SensorPublisher:
        setting = self.setting
        look_every_s = setting.period_s / LOOKS
        if setting.target is None:
            return SensorPublisher(client, look_every_s=look_every_s, clock=self.clock)
        control = PrecisionController(target=setting.target, gamma_max=1.0, period_s=setting.period_s * self.speed)
        load = ProcessorLoad(now_s=self.clock(), cores=setting.cores / self.speed)
        return SensorPublisher(client, control=control, load=load, look_every_s=look_every_s, clock=self.clock)

    def _application(self) -> Application:
        setting = self.setting
        window_s = setting.window_samples * setting.period_s * self.speed
        return Application(
            buffer=setting.buffer,
            each_s=setting.each_s * self.speed,
            clock=self.clock,
            now_s=setting.begin_at * self.speed - window_s,
            most=setting.target,
            window_s=window_s,
        )

    def _follower(self, client: Client) -> Follower:
        return Follower(client, TOPICS, occupancy=self.application, clock=self.clock)

    async def _settled(self, follower: Follower) -> bool:
        """Wait for the beginning; whether all sensors of all streams are known by then."""
        await asyncio.sleep(max(0.0, self.setting.begin_at - time.monotonic()))
        streams = follower.streams.values()
        known = sum(int((one.bank.sequence > 0).sum()) for one in streams)
        return known == self.setting.participants * self.setting.sensors

    async def _sample(self, follower: Follower, publisher: SensorPublisher) -> None:
        """What happens from sample to sample."""
        setting, control = self.setting, publisher.control
        before = self._counts(follower)
        for sample in range(1, setting.samples + 1):
            await asyncio.sleep(max(0.0, setting.sample_at(sample) - time.monotonic()))
            now = self._counts(follower)
            passed = {name: now[name] - before[name] for name in now}
            before = now
            self.samples.append(
                passed
                | {
                    "load": (passed["user_s"] + passed["system_s"]) / passed["at"] / setting.cores,
                    "delta": self.firefighter.parts[0].stream.delta,
                    "target": control.target if control is not None else None,
                    "waits": 0 if self.application is None else self.application.waits,
                }
            )
            if sample == setting.slow_sample and self.application is not None:
                self.application.each_s *= 2

    def _counts(self, follower: Follower) -> dict[str, float]:
        used, total = resource.getrusage(resource.RUSAGE_SELF), self.firefighter.total
        return {
            "at": time.monotonic(),
            "readings": total("readings"),
            "updates": total("sent"),
            "sent": total("messages"),
            "received": follower.received,
            "taken": sum(one.messages for one in follower.streams.values()),
            "user_s": used.ru_utime,
            "system_s": used.ru_stime,
            "models_s": MODELS.seconds,
        }

    def _totals(self, follower: Follower) -> dict[str, int]:
        """What must agree at the end: a message of its own that was sent came back, and none of others was missed."""
        streams, own = follower.streams.values(), follower.streams.get(self.firefighter.topic)
        return {
            "skipped": self.firefighter.skipped,
            "overflowed": follower.overflowed,
            "application_overflowed": 0 if self.application is None else self.application.overflowed,
            "missed": sum(one.missed for one in streams),
            "refused": sum(one.refused for one in streams),
            "own_sent": self.firefighter.parts[0].stream.sending.messages,
            "own_received": 0 if own is None else own.messages,
        }


async def play(setting: Setting) -> Results:
    """Play the measured firefighter."""
    return await Device(setting).play()


def main() -> None:
    """What the process does."""
    MODELS.watch(ModelBank, "apply")
    MODELS.watch(ModelBank, "predict")
    MODELS.watch(SendingBank, "observe")
    serve(Setting, play)
