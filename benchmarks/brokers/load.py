"""The load that all brokers get: a flow in a closed loop, single messages at a given rate, and connections.

It runs in the benchmark's own process, never in a broker's, and is the same for every broker. The flow keeps at
most a window of messages between publishers and subscribers: no queue overflows, and what was sent must arrive.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from time import perf_counter, perf_counter_ns, sleep
from typing import Any

import numpy as np
import numpy.typing as npt

from . import clients, wire
from .clients import DeliveryError, Publisher, Subscriber, connected, expect

RING = 4000  # messages after which the numbers of a publisher begin again: more than are ever under way
WARM_UP_S = 0.2
SETTLE_S = 0.05
AT_ONCE = 50  # less than mosquitto's backlog of 100


def wait_s() -> float:
    """How long to sleep while nothing comes: not at all, unless broker and load share the one core there is."""
    return 0.0 if (os.cpu_count() or 1) > 1 else 0.001


def flow(publishers: Sequence[Publisher], subscribers: Sequence[Subscriber], *, window: int, seconds: float) -> float:
    """Deliveries per second, with at most `window` messages under way from each publisher."""
    with select.epoll() as poll:
        loop = _Flow(poll, publishers, subscribers, window)
        loop.run_until(perf_counter() + WARM_UP_S)
        started, before = perf_counter(), loop.received
        loop.run_until(started + seconds)
        rate = (loop.received - before) / (perf_counter() - started)
        loop.drain()
    return rate


class _Flow:
    """Reads whatever is ready, then sends what the windows allow."""

    def __init__(
        self, poll: select.epoll, publishers: Sequence[Publisher], subscribers: Sequence[Subscriber], window: int
    ) -> None:
        self._publishers = publishers
        self._subscribers = subscribers
        self._window = window
        self._poll = poll
        self._wait_s = wait_s()
        self._clients: dict[int, Publisher | Subscriber] = {}
        for publisher in publishers:
            self._clients[publisher.link.fileno()] = publisher
        for subscriber in subscribers:
            self._clients[subscriber.link.fileno()] = subscriber
        for handle in self._clients:
            self._poll.register(handle, select.EPOLLIN)

    @property
    def received(self) -> int:
        return sum(one.received for one in self._subscribers)

    def run_until(self, end: float) -> None:
        self._refill()
        while perf_counter() < end:
            self._read()
            self._refill()

    def drain(self) -> None:
        """Wait for all that is under way, then a moment for what should not be."""
        while self._under_way():
            self._read()
            self._send([0] * len(self._publishers))
        sleep(SETTLE_S)
        for handle, _ in self._poll.poll(0):
            self._clients[handle].read()
        if self._under_way() or self.received != len(self._subscribers) * sum(one.sent for one in self._publishers):
            raise DeliveryError("the broker delivered or acknowledged more than was sent")
        for subscriber in self._subscribers:
            subscriber.finish()

    def _read(self) -> None:
        deadline = perf_counter() + clients.PATIENCE_S
        while not (ready := self._poll.poll(self._wait_s)):
            if perf_counter() > deadline:
                raise DeliveryError(f"nothing more came, {self._under_way()} messages still under way")
        for handle, _ in ready:
            self._clients[handle].read()

    def _refill(self) -> None:
        """Send when a quarter of the window is free: larger blocks, fewer calls."""
        self._send([room if room >= self._window // 4 else 0 for room in self._rooms()])

    def _send(self, counts: list[int]) -> None:
        for subscriber in self._subscribers:
            subscriber.send()
        for publisher, count in zip(self._publishers, counts, strict=True):
            publisher.send(count)

    def _rooms(self) -> list[int]:
        delivered = np.min([one.received_from for one in self._subscribers], axis=0).tolist()
        return [
            self._window - one.sent + min(delivered[one.number], one.acknowledged if one.qos else one.sent)
            for one in self._publishers
        ]

    def _under_way(self) -> int:
        return sum(self._window - room for room in self._rooms())


class _Stopwatch(Subscriber):
    """A subscriber that notes how old every message is."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.delays_ns: list[npt.NDArray[np.int64]] = []

    def take(self, records: npt.NDArray[Any]) -> None:
        self.delays_ns.append(self.read_ns - records["sent_ns"])
        super().take(records)


def delays_s(
    port: int,
    *,
    publishers: int,
    rate_hz: float,
    seconds: float,
    seed: int = 1,
    to_port: int | None = None,
    name: str = "subscriber",
    settle_s: float = 0.0,
) -> npt.NDArray[np.float64]:
    """The delays of messages sent one by one at a given rate by publishers in turn, whatever becomes of them. They are
    taken where they are sent, or at another broker, which needs a moment to learn of it.

    Each is sent at a random moment of its own slot of 1 / rate. The age of a message counts from just before it
    is sent, as its payload says, to just after the subscriber has it; meanwhile this process does not sleep.
    """
    slots = int(rate_hz * (WARM_UP_S + seconds))
    slot_of = np.arange(slots) + np.random.default_rng(seed).uniform(0, 1, slots)
    with ExitStack() as links:
        subscriber = _Stopwatch(to_port or port, name, "#", publishers=publishers, ring=RING)
        senders = [_Sender(port, number) for number in range(publishers)]
        for link in (subscriber.link, *(one.link for one in senders)):
            links.enter_context(link)
        sleep(settle_s)
        _send_at((perf_counter() + slot_of / rate_hz).tolist(), senders, subscriber)
        subscriber.finish()
    return np.concatenate(subscriber.delays_ns)[int(rate_hz * WARM_UP_S) :] / 1e9


def _send_at(moments: list[float], senders: Sequence[_Sender], subscriber: Subscriber) -> None:
    """A message at each moment, and wait for the last."""
    with select.epoll() as poll:
        poll.register(subscriber.link, select.EPOLLIN)
        pause_s = wait_s()
        for turn, moment in enumerate(moments):
            while perf_counter() < moment:
                if poll.poll(pause_s):
                    subscriber.read()
            senders[turn % len(senders)].send()
        while subscriber.received < len(moments):
            if not poll.poll(clients.PATIENCE_S):
                raise DeliveryError(f"{len(moments) - subscriber.received} of {len(moments)} messages did not come")
            subscriber.read()


class _Sender:
    """A publisher of single messages, each stamped with its time."""

    def __init__(self, port: int, number: int) -> None:
        self._publisher = number
        self._sequence = 0
        self._packet = bytearray(wire.publish(f"site/room-{number:03}", 0))
        self.link = connected(port, wire.connect(f"publisher-{number}"))

    def send(self) -> None:
        at = len(self._packet) - wire.PAYLOAD_BYTES
        struct.pack_into("<HHq", self._packet, at, self._publisher, self._sequence, perf_counter_ns())
        self.link.sendall(self._packet)
        self._sequence = (self._sequence + 1) % RING


def connect(port: int, links: Sequence[socket.socket], *, first: int = 0) -> float:
    """Clients per second when these sockets connect, of whom a few at once wait to be let in."""
    packets = [wire.connect(f"client-{number}") for number in range(first, first + len(links))]
    started = perf_counter()
    for number, link in enumerate(links):
        link.connect((clients.HOST, port))
        link.sendall(packets[number])
        if number >= AT_ONCE:
            expect(links[number - AT_ONCE], wire.CONNACK)
    for link in links[-AT_ONCE:]:
        expect(link, wire.CONNACK)
    return len(links) / (perf_counter() - started)
