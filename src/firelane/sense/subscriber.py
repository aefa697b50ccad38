"""An application that follows streams of sensors: at any time it knows what every sensor reads, without asking.

Implements: rdds, sections II-A, III-A and III-C4 (the subscriber's half of Fig. 3 and 4).
Differs:    what was lost is asked for, where somebody can be asked.
Symbols:    the buffer of Fig. 3 -> waiting.
Checked by: tests/live/sense/test_sense_live.py
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from firelane.arrays import Floats
from firelane.errors import plainly
from firelane.mqtt import plain_topics
from firelane.sense.asking import Asker
from firelane.sense.occupancy import OccupancyPredictor
from firelane.sense.offer import (
    LOAD,
    OFFER,
    RESYNC,
    SENSOR_TYPE,
    TOLERANCE,
    LoadSignal,
    Offer,
    OfferError,
    Resync,
    from_json,
    to_json,
)
from firelane.sense.receiving import Readings, ReceivingStream
from firelane.sense.transport import Carrier, Messenger
from firelane.sense.updates import UpdateError, Updates
from firelane.sense.wire import MAGIC

BUFFER = 10_000  # messages that wait to be taken in
MOST_STREAMS = 10_000
MOST_SENSORS = 1_000_000  # of all streams together
LEAVE_S = 1.0  # that a goodbye may take
LOOK_EVERY_S = 0.1
AT_ONCE = 100  # messages, before others have their turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one sensor reads now."""

    value: float
    age_s: float  # of the last update
    bound: float  # |value - reading| is less than this
    predicted: bool
    valid_s: float
    stale: bool
    lost: bool


class FollowedStream(ReceivingStream):
    """A stream that is followed, by name; `stream["T1_1"]` is what that sensor reads now."""

    def __init__(self, topic: str, clock: Callable[[], float], room: Callable[[], int] = lambda: MOST_SENSORS) -> None:
        self._room = room
        super().__init__()
        self.topic = topic
        self._now = clock
        self._numbers: dict[str, int] = {}
        self.incompatible = ""  # why the offer does not meet what was asked for, if so
        self._asker = Asker()

    def _admit(self, sensors: int) -> None:
        if sensors - len(self) > self._room():
            raise UpdateError(f"there is no room for {sensors} sensors more; at most {MOST_SENSORS} are followed")

    def offered(self, offer: Offer) -> None:
        """The publisher says what it offers; a broker may tell the stream anew under another boot than the offer's."""
        before = self.offer
        anew = before is not None and (before.boot, before.sensors) != (offer.boot, offer.sensors)
        if self.boot is None or anew or len(offer.sensors) != len(self):
            self.expect(offer)
        self.offer = offer
        self._numbers = {name: number for number, name in enumerate(offer.sensors)}

    @property
    def names(self) -> tuple[str, ...]:
        """Of its sensors; numbers, until they are known."""
        return self.offer.sensors if self.offer is not None else tuple(str(one) for one in range(len(self)))

    def number(self, sensor: str | int) -> int:
        """Which sensor this is."""
        number = self._numbers.get(sensor, -1) if isinstance(sensor, str) else sensor
        if not 0 <= number < len(self):
            raise KeyError(f"{self.topic} has no sensor {sensor}")
        return number

    def __getitem__(self, sensor: str | int) -> Reading:
        row = self.read(self._now(), np.array([self.number(sensor)]))
        return Reading(
            value=float(row.value[0]),
            age_s=float(row.age_s[0]),
            bound=float(row.bound[0]),
            predicted=bool(row.predicted[0]),
            valid_s=float(row.valid_s[0]),
            stale=bool(row.stale[0]),
            lost=bool(row.lost[0]),
        )

    def history_of(self, sensor: str | int) -> tuple[Floats, Floats]:
        """Times (the publisher's) and values of the last updates, oldest first."""
        return self.history(self.number(sensor))

    def to_ask(self, now: float) -> Resync | None:
        """What to ask for now, if anything is missing and it has been for a while."""
        return self._asker.to_ask(self.ledger, self.bank, now)


class SensorSubscriber:
    """All streams that a filter matches. `tolerance`, the error that can be borne, may not be stricter than offers.

    Messages come through the broker, or by a `carrier` where publishers send them past it.
    """

    def __init__(
        self,
        messenger: Messenger,
        topic_filter: str,
        *,
        tolerance: float | None = None,
        sensor_type: str | None = None,
        carrier: Carrier | None = None,
        buffer: int = BUFFER,
        occupancy: OccupancyPredictor | None = None,
        on_update: Callable[[FollowedStream, Updates], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.streams: dict[str, FollowedStream] = {}
        self.overflowed = 0  # messages for which the buffer had no room
        self.others = 0  # messages on topics that are no streams
        self._messenger = messenger
        self._filter, self._tolerance, self._type = topic_filter, tolerance, sensor_type
        self._carrier = carrier
        self._waiting: deque[tuple[str, bytes, float]] = deque(maxlen=buffer)
        self._occupancy = occupancy
        self._on_update = on_update
        self._clock = clock
        self._tell = tell
        self._wake = asyncio.Event()
        self._refreshed = asyncio.Event()
        self._full = False
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        properties = []
        if self._tolerance is not None:
            properties.append((TOLERANCE, f"{self._tolerance!r}"))
        if self._type is not None:
            properties.append((SENSOR_TYPE, self._type))
        async with AsyncExitStack() as stack:
            await self._subscribe(stack, OFFER + plain_topics(self._filter), self._offered, qos=1)
            # what a broker has kept of a stream's messages is old, and its sender may not say so
            await self._subscribe(stack, self._filter, self.arrived, properties=tuple(properties), retained=False)
            if self._carrier is not None:
                carried = self._carrier.subscribe(plain_topics(self._filter), self.arrived)
                stack.callback(self._carrier.unsubscribe, carried)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            self._tasks = [group.create_task(self._take()), group.create_task(self._ask())]
            self._stack = stack.pop_all()
        return self

    async def _subscribe(
        self, stack: AsyncExitStack, topic_filter: str, got: Callable[[str, bytes], None], **how: Any
    ) -> None:
        """Subscribe for as long as this is used."""
        await self._messenger.subscribe(topic_filter, got, **how)
        stack.push_async_callback(self._unsubscribe, topic_filter, got)

    async def _unsubscribe(self, topic_filter: str, got: Callable[[str, bytes], None]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._messenger.unsubscribe(topic_filter, got)

    async def __aexit__(self, *problem: object) -> None:
        for task in self._tasks:
            task.cancel()
        with plainly():
            await self._stack.aclose()

    def __getitem__(self, place: tuple[str, str | int]) -> Reading:
        topic, sensor = place
        return self.streams[topic][sensor]

    def arrived(self, topic: str, payload: bytes) -> None:
        """A message of a stream: it waits in the buffer, of which the oldest gives way."""
        if len(self._waiting) == self._waiting.maxlen:
            self.overflowed += 1
        if self._occupancy is not None:
            self._occupancy.arrived()
        self._waiting.append((topic, payload, self._clock()))
        self._wake.set()

    async def refreshed(self) -> AsyncIterator[tuple[FollowedStream, Readings]]:
        """Algorithm 3: values as they become due to be brought up to date, for as long as somebody listens."""
        while True:
            now = self._clock()
            for stream in list(self.streams.values()):
                readings = stream.refresh(now)
                if readings is not None:
                    yield stream, readings
            due = min((one.next_refresh() for one in self.streams.values()), default=math.inf)
            self._refreshed.clear()
            try:
                async with asyncio.timeout(min(max(due - self._clock(), 0.0), 1.0)):
                    await self._refreshed.wait()
            except TimeoutError:
                pass

    async def _take(self) -> None:
        """Take in what waits."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                for _ in range(min(AT_ONCE, len(self._waiting))):
                    self._take_one(*self._waiting.popleft())
                self._refreshed.set()
                await asyncio.sleep(0)

    def _take_one(self, topic: str, payload: bytes, arrived_s: float) -> None:
        if topic not in self.streams and not payload.startswith(MAGIC):
            self.others += 1
            if self.others == 1:  # the first tells enough
                self._tell(f"{topic}: this is no message of a stream of sensors; what is no stream is left out")
            return
        stream = self._stream(topic)
        if stream is None:
            return
        try:
            updates = stream.take(payload, arrived_s)
        except UpdateError as problem:
            if stream.refused == 1:  # the first tells enough
                self._tell(f"{topic}: {problem}")
            return
        if self._on_update is not None:
            self._on_update(stream, updates)
        if self._occupancy is not None:
            self._occupancy.processed(self._clock() - arrived_s)

    def _take_last(self, topic: str) -> None:
        """Take in what waits of a stream that is over, so that it does not begin anew with that."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._waiting.extend(one for one in waiting if one[0] != topic)
        for one in waiting:
            if one[0] == topic:
                self._take_one(*one)

    def _stream(self, topic: str) -> FollowedStream | None:
        stream = self.streams.get(topic)
        if stream is None:
            if len(self.streams) >= MOST_STREAMS:
                if not self._full:  # once tells enough
                    self._tell(f"{topic}: there are {MOST_STREAMS} streams already; this one is left out")
                self._full = True
                return None
            stream = self.streams[topic] = FollowedStream(topic, self._clock, self._room)
        return stream

    def _room(self) -> int:
        """How many sensors more can be followed."""
        return MOST_SENSORS - sum(map(len, self.streams.values()))

    def _offered(self, topic: str, payload: bytes) -> None:
        name = topic.removeprefix(OFFER)
        if not payload:
            self._take_last(name)
            self.streams.pop(name, None)
            return
        try:
            offer = from_json(Offer, payload)
            stream = self._stream(name)
            if stream is None:
                return
            stream.offered(offer)
            offer.meets(self._tolerance, self._type)
            stream.incompatible = ""
        except (OfferError, UpdateError) as problem:
            if name in self.streams:
                self.streams[name].incompatible = str(problem)
            self._tell(f"{name}: {problem}")

    def _asked(self, wanted: Resync) -> bytes:
        """How something is asked for; where a list does not fit a message, for all."""
        said = to_json(wanted)
        return said if len(said) <= self._messenger.most_bytes else to_json(Resync())

    async def _ask(self) -> None:
        """Ask for states that are missing and, now and then, for the load that can be borne (Eq. 9)."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now = self._clock()
            for stream in list(self.streams.values()):
                wanted = stream.to_ask(now)
                if wanted is not None:
                    await self._messenger.publish(RESYNC + stream.topic, self._asked(wanted))
            if self._occupancy is not None and self._occupancy.due(now):
                signal = to_json(LoadSignal(load=self._occupancy.predict(now)))
                for topic in list(self.streams):
                    await self._messenger.publish(LOAD + topic, signal)
