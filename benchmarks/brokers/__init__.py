"""Messages per second, delays and memory of the exchange, beside mosquitto and amqtt under the same load.

All speak MQTT 3.1.1 on the loopback, without passwords or encryption; payloads have 64 bytes. For every number a
broker is started afresh, on a core of its own. The load has another core, where it does not sleep, so that no broker
pays for waking it. Ours and mosquitto take turns; where it comes to delays they run side by side and take turns by the
second, as a shared machine changes from one to the next. amqtt joins the first turn, and so does a relay that forwards
bytes unread, which shows the most that this load can measure (of connecting, little more than mosquitto reaches). A
broker that loses, doubles or disorders a message gets no number. Progress says how long each was kept waiting for its
core by other processes: on a busy machine the numbers are worth little.

mosquitto keeps nothing on disk (`persistence false`) and drops nothing (`max_queued_messages 0`, as 1000 messages
are under way, which is its default limit); it sends at once (`set_tcp_nodelay true`), logs nothing and has no `$SYS`
topics. `max_inflight_messages` stays 20: more does not make it faster. amqtt has only the plugin that lets everybody
in, as the others log every packet. Firelane is as it comes: it acknowledges a message of QoS 1 once the disk has it,
many in one write; under "in memory" it keeps them in memory only, as the peers always do.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import numpy.typing as npt

from firelane.bench import Measure, say, shown

from . import load, processes
from .clients import DeliveryError, Publisher, Subscriber, unconnected
from .processes import Broker, Running

ROUNDS = 5
FILES = 8192
IN_MEMORY = "exchange.durability=memory"
PART = 1000  # messages, of half a second
DELAYS = ("median", "99th percentile", "99th percentile of a typical half second")

Numbers = dict[str, float]  # of one run, by measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long things take."""

    rounds: int
    flow_s: float
    delays_s: float
    clients: int


FULL = Length(rounds=ROUNDS, flow_s=3.0, delays_s=10.0, clients=2000)
QUICK = Length(rounds=1, flow_s=0.3, delays_s=0.5, clients=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is done to brokers, apart or side by side, the units of what comes out, and settings of ours."""

    units: Mapping[str, str]
    run: Callable[[Sequence[Running], Length], list[Numbers]]
    settings: tuple[str, ...] = ()
    together: bool = False


def measures(quick: bool = False) -> list[Measure]:
    """Every job on every broker."""
    length = QUICK if quick else FULL
    mosquitto, amqtt = processes.mosquitto(), processes.amqtt()
    if amqtt is None:
        say("  amqtt is not on the PATH and is left out; install it apart, for it needs old packages: "
            "python -m venv amqtt && amqtt/bin/pip install amqtt==0.12.1")  # fmt: skip
    beside = [processes.relay()] if amqtt is None else [amqtt, processes.relay()]
    _allow_files()
    found = [_storage()]
    for job in jobs():
        found += in_turns(job, processes.firelane(*job.settings), mosquitto, beside, length)
    for job in scheduling_jobs():
        found += in_turns(job, processes.scheduled(), processes.unscheduled(), [], length)
    return found


def jobs() -> list[Job]:
    """One after the other."""
    one, ten, durable = "QoS 0, 1 to 1", "QoS 0, 1 to 10", "QoS 1, 10 to 1 durable"
    delay, connect, memory = "delay of 2,000 messages/s, 100 to 1", "connecting", "memory of an idle connection"
    rate = "messages/s"
    return [
        Job(units={one: rate}, run=partial(flow, one)),
        Job(units={ten: "deliveries/s"}, run=partial(flow, ten, subscribers=10)),
        Job(units={durable: rate}, run=partial(flow, durable, publishers=10, window=100, qos=1)),
        Job(
            units={f"{durable}, in memory": rate},
            run=partial(flow, f"{durable}, in memory", publishers=10, window=100, qos=1),
            settings=(IN_MEMORY,),
        ),
        Job(units={f"{delay}, {what}": "s" for what in DELAYS}, run=partial(delays, delay), together=True),
        Job(units={connect: "clients/s", memory: "B"}, run=partial(crowd, connect, memory)),
    ]


def scheduling_jobs() -> list[Job]:
    """What scheduling costs: the same exchange with and without lanes on a link."""
    ten, delay = "scheduled, QoS 0, 1 to 10", "scheduled, delay of 2,000 messages/s, 100 to 1"
    return [
        Job(units={ten: "deliveries/s"}, run=partial(flow, ten, subscribers=10)),
        Job(units={f"{delay}, {what}": "s" for what in DELAYS}, run=partial(delays, delay), together=True),
    ]


def in_turns(job: Job, ours: Broker, peer: Broker, beside: list[Broker], length: Length) -> list[Measure]:
    """Ours and the peer alternate; the others once."""
    runs: dict[str, list[Numbers]] = {one.name: [] for one in (ours, peer, *beside)}
    groups = [[peer, ours]] if job.together else [[peer], [ours]]
    for turn in range(length.rounds):
        for group in (*groups, *(() if turn else ([one] for one in beside))):
            for broker, numbers in zip(group, measured(job, group, length), strict=True):
                runs[broker.name].append(numbers)
    mine = runs.pop(ours.name)
    return [
        Measure(
            name=f"brokers, {name}",
            ours=median(one[name] for one in mine),
            peers={peer: median(one[name] for one in theirs) for peer, theirs in runs.items()},
            turns={
                peer: [a[name] / b[name] for a, b in zip(mine, theirs, strict=False)] for peer, theirs in runs.items()
            },
            unit=unit,
        )
        for name, unit in job.units.items()
    ]


def measured(job: Job, brokers: Sequence[Broker], length: Length) -> list[Numbers]:
    """One job on brokers that have done nothing before."""
    broker_cores, load_cores = processes.cores()
    names = " and ".join(one.name for one in brokers)
    with ExitStack() as stack:
        running = [stack.enter_context(processes.running(one, broker_cores)) for one in brokers]
        stack.enter_context(processes.pinned(load_cores))
        started, before = perf_counter(), [one.core_s() for one in running]
        try:
            found = job.run(running, length)
        except (DeliveryError, OSError) as problem:
            raise DeliveryError(f"{names}, {next(iter(job.units))}: {problem}") from None
        taken_s = perf_counter() - started
        spent = [(one.core_s() - early) / taken_s for one, early in zip(running, before, strict=True)]
    for broker, numbers, (ran, waited) in zip(brokers, found, spent, strict=True):
        line = "; ".join(f"{name}: {shown(number, job.units[name])}" for name, number in numbers.items())
        say(f"  {broker.name}, {line}; it ran {ran:.0%} of the time and waited {waited:.0%} for its core")
    return found


def flow(
    name: str,
    brokers: Sequence[Running],
    length: Length,
    *,
    publishers: int = 1,
    subscribers: int = 1,
    window: int = 1000,
    qos: int = 0,
) -> list[Numbers]:
    """Deliveries per second with all subscribers taking all topics; with QoS 1 their sessions are durable."""
    (process,) = brokers
    with ExitStack() as links:
        takers = [
            Subscriber(process.port, f"subscriber-{n}", "site/#", qos=qos, publishers=publishers, ring=load.RING)
            for n in range(subscribers)
        ]
        givers = [Publisher(process.port, n, f"site/room-{n:03}", qos=qos, ring=load.RING) for n in range(publishers)]
        for link in (*(one.link for one in takers), *(one.link for one in givers)):
            links.enter_context(link)
        return [{name: load.flow(givers, takers, window=window, seconds=length.flow_s)}]


def delays(name: str, brokers: Sequence[Running], length: Length) -> list[Numbers]:
    """Of single messages, at a rate that leaves every broker but amqtt mostly idle; they take turns by the second."""
    slices = math.ceil(length.delays_s)
    seconds: list[list[npt.NDArray[np.float64]]] = [[] for _ in brokers]
    for turn in range(slices):
        order = list(zip(brokers, seconds, strict=True))
        for process, found in order[::-1] if turn % 2 else order:
            found.append(
                load.delays_s(process.port, publishers=100, rate_hz=2000, seconds=length.delays_s / slices, seed=turn)
            )
    return [_described(name, np.concatenate(found)) for found in seconds]


def _described(name: str, delays_s: npt.NDArray[np.float64]) -> Numbers:
    middle, late = np.percentile(delays_s, (50, 99)).tolist()
    # A machine that is shared stops everybody for milliseconds now and then, which says nothing about a broker.
    parts = np.array_split(delays_s, max(1, len(delays_s) // PART))
    typical = median(float(np.percentile(part, 99)) for part in parts)
    return {f"{name}, {what}": number for what, number in zip(DELAYS, (middle, late, typical), strict=True)}


def crowd(connect: str, memory: str, brokers: Sequence[Running], length: Length) -> list[Numbers]:
    """Half the clients are timed while they connect; all of them are weighed once they have, against a few before."""
    (process,) = brokers
    few, half = length.clients // 20, length.clients // 2
    with ExitStack() as stack:
        links = [stack.enter_context(unconnected()) for _ in range(few + 2 * half)]
        load.connect(process.port, links[:few])
        before = process.memory_bytes()
        rate = load.connect(process.port, links[few : few + half], first=few)
        load.connect(process.port, links[few + half :], first=few + half)
        return [{connect: rate, memory: max(1, process.memory_bytes() - before) / (2 * half)}]


def _storage() -> Measure:
    """How long the disk under the brokers takes to keep 4 kB: the median of a hundred."""
    seconds = []
    with TemporaryDirectory(prefix="firelane-bench-") as folder, (Path(folder) / "file").open("wb", 0) as file:
        for _ in range(100):
            file.write(bytes(4096))
            started = perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(perf_counter() - started)
    say(f"  fdatasync of 4 kB: {shown(median(seconds), 's')}")
    return Measure(name="brokers, fdatasync of 4 kB on this storage", ours=median(seconds), unit="s")


def _allow_files() -> None:
    """Connections are open files, here and in the brokers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), hard))
