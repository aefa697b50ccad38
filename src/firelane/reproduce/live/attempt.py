"""Runs a schedule through an exchange of its own and asks it what came of it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from firelane.errors import FirelaneError
from firelane.reproduce.live.clients import Clients, connected
from firelane.reproduce.live.schedule import Schedule
from firelane.scenario.plan import Plan
from firelane.served import Counts, Exchange, served

WARM_UP = 0.1  # share of the run that is not counted, as in simulations
LATE_S = 0.002  # if one in a hundred is sent later than this, the machine held up the clients
SILENCE_S = 0.1  # if nobody gets anything for longer, though there is always something, it held up the exchange
ATTEMPTS = 3
SWITCH_S = 0.0002  # how long a thread that draws a progress bar may keep clients waiting

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Live:
    """A run: the exchange's Metrics of what came after the warm-up, its totals, and how it went."""

    metrics: dict[str, Any]
    counts: Counts  # when nothing waited any more
    received: int  # by all clients, the warm-up included
    processor_share: float | None  # of one core, by the exchange
    late_p99_s: float
    silence_s: float
    records: Path | None = None  # where what became of every delivery is, if that was asked for
    attempts: int = 1

    @property
    def disturbed(self) -> bool:
        """Whether the machine was too busy for delays to mean anything."""
        return self.late_p99_s > LATE_S or self.silence_s > SILENCE_S


def run(
    schedule: Schedule,
    plan: Plan,
    *,
    records: Path | None = None,
    attempts: int = ATTEMPTS,
    progress: Callable[[int], None] = lambda _: None,
) -> Live:
    """The run. It is repeated when the machine was busy with something else; the least disturbed one counts.

    With a folder for `records`, each attempt leaves there what became of every delivery. `progress` is called with the
    number of publications sent since the last call. Where that is allowed, clients and exchange go before all other
    processes of the machine meanwhile.
    """
    packets = schedule.packets()
    found: list[Live] = []
    while not found or (found[-1].disturbed and len(found) < attempts):
        if found:
            progress(-len(packets))
        folder = None if records is None else records / str(len(found))
        found.append(_attempt(schedule, packets, plan, folder, progress))
    best = min(found, key=lambda one: max(one.late_p99_s / LATE_S, one.silence_s / SILENCE_S))
    return replace(best, attempts=len(found))


def _attempt(
    schedule: Schedule, packets: list[bytes], plan: Plan, records: Path | None, progress: Callable[[int], None]
) -> Live:
    with (
        served(schedule.routes.scenario, plan, data_dir=records) as exchange,
        connected(schedule, packets, exchange.mqtt_port, progress) as clients,
        ThreadPoolExecutor(1) as asking,
    ):
        exchange.apply(plan)  # once before anybody is in a hurry: it has to load what it needs for that
        with _undisturbed(exchange.pid):
            metrics, share = _through(schedule, plan, exchange, clients, asking)
        counts = _emptied(exchange, clients, asking)
        _check(counts, clients.received)
        return Live(
            metrics=metrics,
            counts=counts,
            received=clients.received,
            processor_share=share,
            late_p99_s=float(np.quantile(clients.late_s, 0.99)),
            silence_s=clients.silence_s,
            records=records,
        )


def _through(
    schedule: Schedule, plan: Plan, exchange: Exchange, clients: Clients, asking: ThreadPoolExecutor
) -> tuple[dict[str, Any], float | None]:
    """Send everything; the Metrics since the warm-up, and the exchange's share of a core."""
    before_s = exchange.processor_s()
    clients.start()
    clients.send(WARM_UP * schedule.seconds)
    applied = asking.submit(exchange.apply, plan)
    clients.send(schedule.seconds)
    after_s = exchange.processor_s()
    metrics = _answer(asking.submit(exchange.metrics), clients)
    applied.result()
    used = None if before_s is None or after_s is None else (after_s - before_s) / schedule.seconds
    return metrics, used


def _emptied(exchange: Exchange, clients: Clients, asking: ThreadPoolExecutor) -> Counts:
    """The totals when nothing waits any more."""
    while (counts := _answer(asking.submit(exchange.counts), clients)).queued:
        pass
    clients.read_until(lambda: clients.received >= counts.delivered)
    return counts


def _check(counts: Counts, received: int) -> None:
    """Every delivery must be accounted for, or nothing else can be believed."""
    if counts.due != counts.delivered + counts.dropped_total + counts.queued or counts.delivered != received:
        raise FirelaneError(f"the exchange of a live run lost count: {counts}, and its clients received {received}")


def _answer(coming: Future[T], clients: Clients) -> T:
    """An answer of the exchange, while clients go on reading."""
    clients.read_until(coming.done)
    return coming.result()


@contextmanager
def _undisturbed(pid: int) -> Iterator[None]:
    """Without pauses for the collection of garbage, of which there is none, or for what others do."""
    switch_s = sys.getswitchinterval()
    gc.collect()
    gc.disable()
    sys.setswitchinterval(SWITCH_S)
    try:
        _go_first(pid, True)
        yield
    finally:
        _go_first(pid, False)
        sys.setswitchinterval(switch_s)
        gc.enable()


def _go_first(pid: int, first: bool) -> None:
    """Put this thread and that process before all others, or back among them; where it is not allowed, do nothing."""
    if sys.platform != "linux":
        return
    policy, priority = (os.SCHED_RR, 1) if first else (os.SCHED_OTHER, 0)
    tasks = Path(f"/proc/{pid}/task")
    for task in ("0", *(one.name for one in tasks.glob("*"))):  # none if it has ended
        with suppress(PermissionError, ProcessLookupError):
            os.sched_setscheduler(int(task), policy, os.sched_param(priority))
