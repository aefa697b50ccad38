"""Drives a scenario live: a connection for each of its publishers and subscribers, in one process with one clock.

The moments of sending are fixed beforehand (an open loop), whatever the broker does. Both ends of every message are
noted by this process, so their difference needs no other clock; sockets may lie in different network namespaces.
"""

from __future__ import annotations

import fcntl
import gc
import os
import secrets
import select
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from live.lanes.clients import Place, Receiving, Sending
from live.lanes.deliveries import Deliveries
from live.lanes.schedule import Packets, Schedule

QUIET_S = 1.0  # without any delivery after the last publication: nothing more will come
LOCK = Path(tempfile.gettempdir()) / "firelane-load.lock"
LEAD_S = 0.05  # between the last connection and the first publication

Act = tuple[float, Callable[["Stage"], None]]  # seconds after the first publication, and what happens then


def drive(
    plan: Schedule,
    publishers: Place,
    subscribers: Place | None = None,
    *,
    broker_pid: int | None = None,
    quiet_s: float = QUIET_S,
    before_leaving: Callable[[], object] = lambda: None,
    absent: Iterable[str] = (),
    acts: Sequence[Act] = (),
) -> Deliveries:
    """Connect everybody but subscribers who are absent, send everything in its time, and read until nothing more comes.

    `acts` happen meanwhile, in this thread, so they must be short. `before_leaving` is called in the end, while all are
    still connected. Where that is allowed, this thread and the broker's
    process run ahead of all others on the machine meanwhile.
    """
    packets = Packets(plan, secrets.randbits(32))
    scenario = plan.routes.scenario
    with _alone(), ExitStack() as stack:
        place, names = subscribers or publishers, [one for one in scenario.subscribers if one not in set(absent)]
        receiving = [
            stack.enter_context(Receiving(place, name, list(scenario.subscribers[name].subscribes), packets))
            for name in names
        ]
        sending = [stack.enter_context(Sending(publishers, f"publisher {name}")) for name in scenario.publishers]
        with _undisturbed(broker_pid), select.epoll() as poll:
            stage = Stage(plan, packets, sending, receiving, poll, place)
            stack.callback(stage.end)
            got = stage.through(quiet_s, acts)
        before_leaving()
        return got


@contextmanager
def _alone():
    """One load at a time on this machine, whoever drives it."""
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _undisturbed(broker_pid: int | None):
    """Without pauses for the collection of garbage, of which there is none, or for what else the machine has to do."""
    gc.collect()
    gc.disable()
    try:
        _schedule(broker_pid, os.SCHED_RR, 1)
        yield
    finally:
        _schedule(broker_pid, os.SCHED_OTHER, 0)
        gc.enable()


def _schedule(broker_pid: int | None, policy: int, priority: int) -> None:
    tasks = ["0"]  # this thread
    if broker_pid is not None:
        with suppress(FileNotFoundError):  # it has ended
            tasks += os.listdir(f"/proc/{broker_pid}/task")
    for one in tasks:
        with suppress(PermissionError, ProcessLookupError):
            os.sched_setscheduler(int(one), policy, os.sched_param(priority))


class Stage:
    """The loop: send what is due, read what has come, sleep until either; and who is there."""

    def __init__(
        self,
        plan: Schedule,
        packets: Packets,
        sending: list[Sending],
        receiving: list[Receiving],
        poll: select.epoll,
        subscribers: Place,
    ) -> None:
        self._plan, self._packets, self._receiving, self._poll = plan, packets, receiving, poll
        self._senders = [sending[number] for number in plan.publisher.tolist()]
        self._clients = {one.link.fileno(): one for one in (*sending, *receiving)}
        for handle, one in self._clients.items():
            one.ready()
            poll.register(handle, select.EPOLLIN)
        self._held_back = 0
        self._heard_ns = 0
        self._place = subscribers
        self._came: list[Receiving] = []  # later than the others

    def enter(self, name: str) -> None:
        """A subscriber comes, or comes back. This may be called in any thread; it returns when all is subscribed."""
        wanted = self._plan.routes.scenario.subscribers[name].subscribes
        one = Receiving(self._place, name, list(wanted), self._packets)
        one.ready()
        self._came.append(one)
        self._receiving.append(one)
        self._clients[one.link.fileno()] = one
        self._poll.register(one.link, select.EPOLLIN)

    def leave(self, name: str) -> None:
        """A subscriber goes; what it has got so far counts."""
        handle, one = next((h, c) for h, c in self._clients.items() if isinstance(c, Receiving) and c.name == name)
        one.read()
        self._poll.unregister(one.link)
        del self._clients[handle]
        one.leave()

    def end(self) -> None:
        """Those who came later leave."""
        for one in self._came:
            one.leave()

    def through(self, quiet_s: float, acts: Sequence[Act]) -> Deliveries:
        plan = self._plan
        started = perf_counter_ns() + round(LEAD_S * 1e9)
        self._acts = deque((started + round(at_s * 1e9), act) for at_s, act in acts)
        planned = (started + plan.at_s * 1e9).astype(np.int64).tolist()
        sent = np.zeros(len(planned), np.int64)
        self._send_all(planned, sent)
        self._drain(round(quiet_s * 1e9))
        counts = [len(one.publication) for one in self._receiving]
        number = {name: n for n, name in enumerate(plan.routes.subscribers)}
        return Deliveries(
            schedule=plan,
            started_ns=started,
            sent_ns=sent,
            held_back=self._held_back,
            publication=np.concatenate([np.array(one.publication, np.int64) for one in self._receiving]),
            subscriber=np.repeat([number[one.name] for one in self._receiving], counts),
            received_ns=np.concatenate([np.array(one.received_ns, np.int64) for one in self._receiving]),
        )

    def _send_all(self, planned: list[int], sent: np.ndarray) -> None:
        for number, moment in enumerate(planned):
            while (left := moment - perf_counter_ns()) > 0:
                self._wait(left)
                if self._acts and perf_counter_ns() >= self._acts[0][0]:
                    self._acts.popleft()[1](self)
            sender = self._senders[number]
            packet = self._packets[number]
            sent[number] = perf_counter_ns()
            sender.send(packet)
            if sender.unsent:
                self._held_back += 1
                self._poll.modify(sender.link, select.EPOLLIN | select.EPOLLOUT)
            elif number % 16 == 0:
                self._wait(0)  # who is late with sending must not be late with reading too

    def _drain(self, quiet_ns: int) -> None:
        self._heard_ns = perf_counter_ns()
        while (left := self._heard_ns + quiet_ns - perf_counter_ns()) > 0:
            self._wait(left)

    def _wait(self, most_ns: int) -> None:
        """Until something can be read or written; unlike epoll, select counts in microseconds."""
        if most_ns and not select.select([self._poll], [], [], most_ns / 1e9)[0]:
            return
        for handle, events in self._poll.poll(0):
            client = self._clients.get(handle)
            if client is None:  # it has just left
                continue
            if events & select.EPOLLOUT and isinstance(client, Sending):
                client.resume()
                if not client.unsent:
                    self._poll.modify(handle, select.EPOLLIN)
            if events & ~select.EPOLLOUT:
                client.read()
                self._heard_ns = perf_counter_ns()
