"""A device that publishes streams of sensors: it offers them, keeps what was granted, and sends what must be sent.

With a controller its delta is what was granted times gamma / gamma_max: load that is to spare buys precision, and with
too much of it precision is given back, as far as was granted.

Implements: rdds, sections II-A, III-A and III-C (the publisher's half of Fig. 3 and 4).
Differs:    the broker is any MQTT broker; one that grants nothing is taken at what is offered.
Symbols:    stream_i -> PublishedStream, T_i -> topic, U_ref -> the controller's target.
Checked by: tests/live/sense/test_sense_live.py
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.errors import plainly
from firelane.mqtt import topic_problem
from firelane.sense.bank import AUTO
from firelane.sense.load import LinkLoad, Load, MessageLoad
from firelane.sense.offer import (
    GRANT,
    OFFER,
    RESYNC,
    Grant,
    Offer,
    OfferError,
    Resync,
    SensorType,
    checked,
    delta_in_force,
    from_json,
    to_json,
)
from firelane.sense.precision import LEAST_TARGET, Control
from firelane.sense.sending import MOST_BYTES, SendingStream
from firelane.sense.transport import Carrier, Messenger
from firelane.sense.wire import CONTENT_TYPE, WRAP

HEARTBEAT_S = 10.0
PACKET_BYTES = 100  # on the wire beside a message's payload: its topic and headers, near enough
LEAVE_S = 1.0  # that a goodbye may take
ANSWER_EVERY_S = 1.0  # who lacks the state is told no more often, all together
FEW, FEW_EVERY_S = 64, 0.25  # unless it is of so many sensors


Send = Callable[[str, bytes], Awaitable[None]]


class PublishedStream:
    """One stream of this device. `observe` takes readings; everything else happens by itself."""

    def __init__(self, topic: str, sending: SendingStream, send: Send, clock: Callable[[], float]) -> None:
        self.topic = topic
        self.sending = sending
        self.grant: Grant | None = None
        self.gamma_share = 1.0  # gamma / gamma_max, by which a controller tightens
        self._send = send
        self._clock = clock
        self._lacking: set[int] | None = set()  # whose state is to be told again; None: all
        self._answered_at = -np.inf
        self._one_at_a_time = asyncio.Lock()  # messages go out in the order of their numbers

    @property
    def delta(self) -> float:
        """The precision in force."""
        return self.sending.delta

    async def observe(
        self, readings: Floats | Sequence[float], sensors: Ints | None = None, *, time_s: float | None = None,
        apart: bool = False,
    ) -> int:  # fmt: skip
        """Take a reading of each of some sensors (all by default); returns how many messages had to be sent."""
        async with self._one_at_a_time:
            when = self._clock() if time_s is None else time_s
            made = self.sending.observe(when, np.asarray(readings, np.float64), sensors, apart=apart)
            for message in made:
                await self._send(self.topic, message)
        return len(made)

    async def tend(self, now: float) -> None:
        """What is to be done now and then: heartbeats, another precision, states for those who lack them."""
        async with self._one_at_a_time:
            for message in self._tended(now):
                await self._send(self.topic, message)

    def _tended(self, now: float) -> list[bytes]:
        made: list[bytes] = []
        if not self.sending.offer.discrete:
            made += self.sending.set_delta(now, self.gamma_share * delta_in_force(self.sending.offer, self.grant))
        self.sending.trail(self.grant is not None and self.grant.lossy)
        if self.is_asked and now >= self._answered_at + self._pause_s:
            wanted = None if self._lacking is None else np.array(sorted(self._lacking), np.int64)
            made += self.sending.whole(now, wanted)
            self._lacking, self._answered_at = set(), now
        return made + self.sending.beat(now)

    @property
    def is_asked(self) -> bool:
        """Whether somebody lacks states and is to be told them."""
        return self._lacking != set()

    @property
    def _pause_s(self) -> float:
        few = self._lacking is not None and len(self._lacking) <= FEW
        return FEW_EVERY_S if few else ANSWER_EVERY_S

    def lacks(self, asked: Resync) -> None:
        """Somebody lacks states."""
        wanted = self.sending.wanted(asked)
        if wanted is None or self._lacking is None:
            self._lacking = None
        else:
            self._lacking |= set(wanted.tolist())


class SensorPublisher:
    """The streams of a device, over one connection; with a `carrier` their messages go past the broker."""

    def __init__(
        self,
        messenger: Messenger,
        *,
        carrier: Carrier | None = None,
        control: Control | None = None,
        load: Load | None = None,
        look_every_s: float = ANSWER_EVERY_S,
        clock: Callable[[], float] = time.time,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.streams: dict[str, PublishedStream] = {}
        self.dropped = 0  # messages that the carrier had no room for
        self._messenger = messenger
        self._carrier = carrier
        self.control = control
        self._load = load
        self._own_target = control.target if control is not None else None
        self._way = carrier or messenger  # of updates
        self._look_every_s = look_every_s  # at the latest, for what is to be done now and then
        self._clock = clock
        self._tell = tell
        self._wake = asyncio.Event()
        self._stack = AsyncExitStack()
        self._anew = False
        messenger.on_connected.append(self._connected)

    async def __aenter__(self) -> Self:
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._task = group.create_task(self._tend())
        return self

    async def __aexit__(self, *problem: object) -> None:
        self._task.cancel()
        for topic in self.streams:
            await self._unsubscribe(topic)
        with plainly():
            await self._stack.aclose()
        self._messenger.on_connected.remove(self._connected)

    async def offer(
        self,
        topic: str,
        sensors: Sequence[str],
        *,
        precision: float | None = None,
        discrete: bool = False,
        type: SensorType = SensorType(),  # noqa: B008 - frozen
        model: str = AUTO,
        heartbeat_s: float = HEARTBEAT_S,
        **more: Any,
    ) -> PublishedStream:
        """Offer a stream of sensors with a precision, or of discrete ones; subscribers find it by its topic."""
        problem = topic_problem(topic)
        if problem or topic.startswith("$"):
            raise OfferError(f'"{topic}" cannot be the topic of a stream: {problem or "it starts with $"}')
        if topic in self.streams:
            raise OfferError(f'"{topic}" is offered already; give other sensors a stream of their own')
        if self._carrier is not None:
            more = {"transport": self._carrier.transport} | more
        if self.control is not None:
            more = {"gamma_max": max(1.0, self.control.gamma_max), "load": self._own_target} | more
        offer = _offer(sensors, precision, discrete, type, heartbeat_s, more)
        most_bytes = min(MOST_BYTES, self._way.most_bytes)
        sending = SendingStream(offer, model=model, most_bytes=most_bytes, heal=not self._way.reliable)
        send = self._publish if self._carrier is None else self._carry
        stream = self.streams[topic] = PublishedStream(topic, sending, send, self._clock)
        try:
            await self._messenger.subscribe(GRANT + topic, self._granted, qos=1)
            await self._messenger.subscribe(RESYNC + topic, self._asked)
            await self._messenger.publish(OFFER + topic, to_json(offer), qos=1, retain=True)
        except BaseException:
            del self.streams[topic]
            await self._unsubscribe(topic)
            raise
        return stream

    async def _unsubscribe(self, topic: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._messenger.unsubscribe(GRANT + topic, self._granted)
                await self._messenger.unsubscribe(RESYNC + topic, self._asked)

    async def withdraw(self, topic: str) -> None:
        """End a stream: its offer is taken back."""
        del self.streams[topic]
        await self._messenger.publish(OFFER + topic, b"", qos=1, retain=True)
        await self._unsubscribe(topic)

    async def _publish(self, topic: str, payload: bytes) -> None:
        await self._messenger.publish(topic, payload, content_type=CONTENT_TYPE)
        self._count(payload)

    async def _carry(self, topic: str, payload: bytes) -> None:
        assert self._carrier is not None
        self.dropped += not self._carrier.send(topic, payload)
        self._count(payload)

    def _count(self, payload: bytes) -> None:
        if isinstance(self._load, LinkLoad):
            self._load.count(len(payload) + PACKET_BYTES)
        elif isinstance(self._load, MessageLoad):
            self._load.count()

    def _keep_load(self, now: float) -> None:
        """Table I: now and then, see what the load is, and tighten or widen all precisions alike."""
        control = self.control
        if control is None or self._load is None or self._own_target is None or not control.due(now):
            return
        asked = [
            one.grant.load for one in self.streams.values() if one.grant is not None and one.grant.load is not None
        ]
        control.target = max(LEAST_TARGET, min([self._own_target, *asked]))
        share = control.sample(now, self._load.measure(now)) / control.gamma_max
        for stream in self.streams.values():
            stream.gamma_share = share

    async def _tend(self) -> None:
        while True:
            self._keep_load(self._clock())
            for stream in list(self.streams.values()):
                if self._anew:
                    await self._messenger.publish(
                        OFFER + stream.topic, to_json(stream.sending.offer), qos=1, retain=True
                    )
                    stream.lacks(Resync())
                await stream.tend(self._clock())
            self._anew = False
            pause_s = min((one.sending.offer.heartbeat_s / 4 for one in self.streams.values()), default=ANSWER_EVERY_S)
            if self.control is not None:
                pause_s = min(pause_s, self.control.period_s / 20)
            if any(one.is_asked for one in self.streams.values()):
                pause_s = min(pause_s, FEW_EVERY_S)
            self._wake.clear()
            try:
                async with asyncio.timeout(min(pause_s, self._look_every_s)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _connected(self) -> None:
        """There is a new connection: a broker that was restarted may know nothing."""
        self._anew = True
        self._wake.set()

    def _granted(self, topic: str, payload: bytes) -> None:
        stream = self.streams.get(topic.removeprefix(GRANT))
        try:
            if stream is not None:
                stream.grant = from_json(Grant, payload) if payload else None
                self._wake.set()
        except OfferError as problem:
            self._tell(f"{topic}: {problem}")

    def _asked(self, topic: str, payload: bytes) -> None:
        stream = self.streams.get(topic.removeprefix(RESYNC))
        try:
            if stream is not None:
                stream.lacks(from_json(Resync, payload))
                self._wake.set()
        except OfferError as problem:
            self._tell(f"{topic}: {problem}")


def _offer(
    sensors: Sequence[str],
    precision: float | None,
    discrete: bool,
    kind: SensorType,
    heartbeat_s: float,
    more: dict[str, Any],
) -> Offer:
    """An offer, checked as those of others are."""
    said = {
        "boot": secrets.randbelow(WRAP),
        "sensors": tuple(sensors),
        "kind": "discrete" if discrete else "continuous",
        "type": kind,
        "precision": precision,
        "heartbeat_s": heartbeat_s,
    }
    return checked(Offer, said | more)
