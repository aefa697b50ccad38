"""Sensors' updates from publisher to subscriber over DDS, with no broker in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

from firelane.dds.inbox import MOST_WAITING, Inbox, Intake
from firelane.dds.network import LOOPBACK, DdsError, Network
from firelane.dds.participant import Participant
from firelane.dds.partitions import partition_of, partitions_for
from firelane.dds.reader import Gone, Reader, Received
from firelane.dds.samples import SensorUpdates
from firelane.dds.writer import Sent, Writer
from firelane.mqtt.topics import matches, topic_problem

TOPIC = "firelane_sensor_updates"
ONE_PACKET = 1200  # bytes that fit a packet of Ethernet beside the headers and a name of up to 120
RELIABLE_BYTES = 60_000
MOST_STREAMS = 1000
LOOK_S = 0.02

Got = Callable[[str, bytes], None]
WhenGone = Callable[[str], None]


class Subscription:
    """What a transport was asked to deliver, and what became of it."""

    def __init__(self, pattern: str, reader: Reader, intake: Intake) -> None:
        self.pattern = pattern
        self.reader = reader
        self.intake = intake

    @property
    def dropped(self) -> int:
        """Messages that arrived and were not handed over, because the application did not keep up."""
        return self.intake.dropped

    @property
    def unwanted(self) -> int:
        """Messages of streams that were not asked for: a filter is narrower than what DDS selects by, or a name bad."""
        return self.intake.unwanted

    def statistics(self) -> Received:
        """The counts of its reader."""
        return self.reader.statistics()


class DdsTransport:
    """Sends updates of streams to whoever subscribed to them; an async context manager.

    Best effort by default, as updates heal by themselves: a message that fits `most_bytes` is one packet, which arrives
    or not. With `reliable`, packets that were lost are sent again.
    """

    def __init__(
        self,
        domain: int = 0,
        network: Network = LOOPBACK,
        *,
        reliable: bool = False,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.transport = {"dds": {"domain": domain}}  # as an offer says it
        self.reliable = reliable
        self.most_bytes = RELIABLE_BYTES if reliable else ONE_PACKET
        self._participant = Participant(domain, network)
        self._inbox = Inbox(self._participant, most=most_waiting)
        self._writers: dict[str, Writer] = {}
        self.subscriptions: list[Subscription] = []
        self._stack = ExitStack()

    async def __aenter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._participant)
            stack.enter_context(self._inbox)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        for subscription in [*self.subscriptions]:
            self.unsubscribe(subscription)
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        self._stack.close()

    def offer(self, stream: str) -> None:
        """Let subscribers find the stream before its first update: those that come sooner than they miss it."""
        self._writer(stream)

    def send(self, stream: str, payload: bytes) -> bool:
        """Send a stream's message to its subscribers; False, and counted, if there is no room for it."""
        if len(payload) > self.most_bytes:
            raise DdsError(f"{len(payload)} bytes are too many for a message; this transport takes {self.most_bytes}")
        return self._writer(stream).send(SensorUpdates(stream=stream, payload=payload))

    def subscribe(self, pattern: str, got: Got, gone: WhenGone | None = None) -> Subscription:
        """Call `got` in the event loop with stream and payload of every message of streams that an MQTT filter matches.

        `gone` is called with a stream that nobody writes any more: its publisher has ended or was not heard of.
        """
        reader = Reader(self._participant, TOPIC, reliable=self.reliable, partitions=partitions_for(pattern))
        intake = self._inbox.add(reader, partial(_sort, pattern, got, gone))
        self.subscriptions.append(Subscription(pattern, reader, intake))
        return self.subscriptions[-1]

    def unsubscribe(self, subscription: Subscription) -> None:
        """Deliver no more of it than what already waits."""
        self.subscriptions.remove(subscription)
        self._inbox.remove(subscription.intake)
        subscription.reader.close()

    def sent(self, stream: str) -> Sent:
        """What became of a stream's messages, and how many subscribers it has."""
        return self._writer(stream).statistics()

    async def matched(self, stream: str, subscribers: int = 1, *, within_s: float) -> bool:
        """Wait until a stream has that many subscribers; False if it has not in that time."""
        deadline = asyncio.get_running_loop().time() + within_s
        while self.sent(stream).matched < subscribers:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    def _writer(self, stream: str) -> Writer:
        writer = self._writers.get(stream)
        if writer is None:
            if len(self._writers) >= MOST_STREAMS:
                raise DdsError(f"a transport has at most {MOST_STREAMS} streams; use another one for {stream}")
            place = (partition_of(stream),)
            writer = self._writers[stream] = Writer(self._participant, TOPIC, reliable=self.reliable, partitions=place)
        return writer


def _sort(pattern: str, got: Got, gone: WhenGone | None, sample: Any) -> tuple[Callable[[], None], int] | None:
    """What is to be called for a sample; None for a stream that was not asked for, or that cannot be one."""
    stream = sample.key.stream if isinstance(sample, Gone) else sample.stream
    if topic_problem(stream) or not matches(pattern, stream):
        return None
    if isinstance(sample, Gone):
        return None if gone is None else (partial(gone, stream), 0)
    return partial(got, stream, sample.payload), len(sample.payload)
