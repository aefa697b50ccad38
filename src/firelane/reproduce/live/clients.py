"""The clients of a live run: a connection for every publisher and subscriber, one thread and one clock for all."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter

import numpy as np

from firelane.arrays import Floats
from firelane.errors import FirelaneError
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connack, Connect, Disconnect, Packet, Suback, Subscribe, Subscription
from firelane.reproduce.live.schedule import Schedule
from firelane.served import HOST

PATIENCE_S = 10.0
MOST_BYTES = 10_000_000
READ_BYTES = 1 << 18
LOOK_EVERY_S = 0.01
READ_AFTER = 16  # publications: who is late with sending must not be late with reading too


class Client:
    """A connection that has been let in; `received` counts what has come since."""

    def __init__(self, port: int, client_id: str) -> None:
        self.client_id = client_id
        self.received = 0
        self.socket = socket.create_connection((HOST, port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        try:
            self._ask(Connect(client_id=client_id), Connack)
        except BaseException:
            self.socket.close()
            raise

    def subscribe(self, filters: list[str]) -> None:
        """Ask for these."""
        self._ask(Subscribe(packet_id=1, subscriptions=[Subscription(filter=one) for one in filters]), Suback)

    def read(self) -> None:
        """Count the messages that are there."""
        self._fill()
        buffer, at = self._buffer, 0
        while (place := frame(buffer, at, MOST_BYTES)) is not None and place[1] <= len(buffer):
            self.received += 1
            at = place[1]
        del buffer[:at]

    def leave(self) -> None:
        """Say goodbye and hang up."""
        with suppress(OSError):  # it may have hung up already
            self.socket.sendall(encode(Disconnect(), V5))
        self.socket.close()

    def _ask(self, packet: Packet, answer: type[Connack | Suback]) -> None:
        """Send a packet and wait for its answer, which must be consent."""
        self.socket.sendall(encode(packet, V5))
        while (place := frame(self._buffer, 0, MOST_BYTES)) is None or place[1] > len(self._buffer):
            self._fill()
        got = decode(self._buffer[0], bytes(self._buffer[place[0] : place[1]]), V5)
        del self._buffer[: place[1]]
        reasons = got.reasons if isinstance(got, Suback) else [getattr(got, "reason", 0)]
        if not isinstance(got, answer) or max(reasons) >= 0x80:
            raise FirelaneError(f"the exchange of a live run refused {self.client_id}: {got}")

    def _fill(self) -> None:
        arrived = self.socket.recv(READ_BYTES)
        if not arrived:
            raise FirelaneError(f"the exchange of a live run hung up on {self.client_id}; run it again")
        self._buffer += arrived


class Clients:
    """Everybody in a schedule's scenario."""

    def __init__(
        self,
        plan: Schedule,
        packets: list[bytes],
        publishers: list[Client],
        subscribers: list[Client],
        progress: Callable[[int], None],
    ) -> None:
        self._packets, self._progress = packets, progress
        self._senders = [publishers[number] for number in plan.publisher.tolist()]
        self._readers = {one.socket: one for one in (*publishers, *subscribers)}
        self._due_s = plan.at_s.tolist()
        self._next = 0
        self._started = 0.0
        self.late_s: Floats = np.zeros(len(packets))
        self.silence_s = 0.0  # the longest time without any delivery while publications were sent
        self._heard = 0.0

    @property
    def received(self) -> int:
        """Messages that subscribers got."""
        return sum(one.received for one in self._readers.values())

    def start(self) -> None:
        """The clock of the schedule runs from now on."""
        self._started = self._heard = perf_counter()

    def send(self, until_s: float) -> None:
        """Publish what the schedule has until then, each in its time, and read meanwhile."""
        while self._next < len(self._due_s) and self._due_s[self._next] < until_s:
            number = self._next
            moment = self._started + self._due_s[number]
            while (left := moment - perf_counter()) > 0:
                self._read(left)
            self.late_s[number] = -left
            self._senders[number].socket.sendall(self._packets[number])
            self._next += 1
            if self._next % READ_AFTER == 0:
                self._read(0)
                self._progress(READ_AFTER)
        while (left := self._started + until_s - perf_counter()) > 0:
            self._read(left)

    def read_until(self, done: Callable[[], bool]) -> None:
        """Go on reading until that is so, or for long."""
        give_up = perf_counter() + PATIENCE_S
        while not done() and perf_counter() < give_up:
            self._read(LOOK_EVERY_S)

    def _read(self, most_s: float) -> None:
        ready = select.select(self._readers, (), (), most_s)[0]
        for one in ready:
            self._readers[one].read()
        now = perf_counter()
        if ready and self._next < len(self._due_s):
            self.silence_s = max(self.silence_s, now - self._heard)
        self._heard = now if ready else self._heard


@contextmanager
def connected(plan: Schedule, packets: list[bytes], port: int, progress: Callable[[int], None]) -> Iterator[Clients]:
    """Everybody connected to the exchange at this port, with their subscriptions, until the block ends."""
    scenario = plan.routes.scenario
    there: list[Client] = []
    try:
        for name, one in scenario.subscribers.items():
            there.append(Client(port, name))
            there[-1].subscribe(list(one.subscribes))
        for name in scenario.publishers:
            there.append(Client(port, f"publisher {name}"))  # noqa: PERF401 (those who are in must leave)
        many = len(scenario.subscribers)
        yield Clients(plan, packets, there[many:], there[:many], progress)
    finally:
        for client in there:
            client.leave()
