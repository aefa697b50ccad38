"""Sites joined over routers: what one and two hops cost, beside a single broker and beside mosquitto's bridges.

Two hops: edge, router, edge, as between any two sites. One hop: from edge to edge, as topics with a deadline go; those
go through a router as well, so every message is sent twice, and the second copy is thrown away. mosquitto is given the
same shapes by bridges that pass on every topic (`topic site/# out`), with nothing kept on disk; of ours, too, nothing
is (`durability=memory`), but it finds out by itself who wants what, numbers messages, and keeps those of QoS 1 until
the other site has them. All brokers share one core and the load has another, everything on loopback: a hop here costs
processor time and no distance. Load, clients and checks are those of the benchmark `brokers`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from firelane.bench import Measure, load_script, main, say, shown
from firelane.reproduce.pubsubcoord.members import Planned, cluster, wait_joined

load_script("brokers")
load = sys.modules["firelane_benchmark_brokers.load"]
processes = sys.modules["firelane_benchmark_brokers.processes"]
clients = sys.modules["firelane_benchmark_brokers.clients"]

HOPS = ("one broker", "one hop", "two hops")
SETTLE_S = 2.0  # until every broker knows who wants what
WINDOW = 400
RATE_HZ = 500.0
BRIDGE = """
connection next
address 127.0.0.1:{port}
topic site/# out {qos}
notifications false
restart_timeout 1
max_inflight_messages 0
"""

URGENT = "urgent"  # how names of clients begin whose messages come directly, too
DIRECT = (
    "overlay.direct={from: ['*'], rate: 1 MHz}",
    f"profiles={{{URGENT}: {{for: ['{URGENT}*'], need: {{max_delay: 1 s}}}}}}",
)

Ports = tuple[int, int]  # where to publish, and where to subscribe


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long things take."""

    rounds: int
    flow_s: float
    delays_s: float


FULL, QUICK = Length(rounds=5, flow_s=3.0, delays_s=5.0), Length(rounds=1, flow_s=0.3, delays_s=0.5)


@contextmanager
def ours(qos: int = 0) -> Iterator[dict[str, Ports]]:
    """Two edges and a router, with a ZooKeeper of their own; they pass on any QoS."""
    edges = [Planned(role="edge", name=one, settings=DIRECT) for one in "ab"]
    with cluster([Planned(role="router", name="r"), *edges]) as whole:
        wait_joined(whole)
        a, b = (whole[name].mqtt_port for name in "ab")
        yield dict(zip(HOPS, ((a, a), (a, b), (a, b)), strict=True))


@contextmanager
def mosquittos(qos: int = 0) -> Iterator[dict[str, Ports]]:
    """Three of them, each with a bridge to the next; one alone is the last."""
    program = processes.mosquitto()
    cores, _ = processes.cores()
    with ExitStack() as stack:
        ports: list[int] = []
        for _ in HOPS:  # the last first, as the others connect to it
            ports.insert(0, stack.enter_context(_bridged(program, cores, qos, ports[:1])))
        yield dict(zip(HOPS, ((ports[2], ports[2]), (ports[1], ports[2]), (ports[0], ports[2])), strict=True))


@contextmanager
def _bridged(program: Any, cores: set[int], qos: int, beyond: Sequence[int]) -> Iterator[int]:
    def command(port: int, folder: Path) -> list[str]:
        words: list[str] = program.command(port, folder)
        with Path(words[-1]).open("a") as file:
            file.writelines(BRIDGE.format(port=one, qos=qos) for one in beyond)
        return words

    with processes.running(processes.Broker(name=program.name, command=command), cores) as process:
        yield process.port


PLACES: dict[str, Callable[[int], AbstractContextManager[dict[str, Ports]]]] = {
    "mosquitto bridges": mosquittos,
    "ours": ours,
}


def measures(quick: bool = False) -> list[Measure]:
    """Rates and delays, ours and mosquitto's in turns."""
    length = QUICK if quick else FULL
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for turn in range(length.rounds):
        for name, places in PLACES.items():
            for qos in (0, 1):
                with ExitStack() as stack:
                    broker_cores, load_cores = processes.cores()
                    with processes.pinned(broker_cores):  # which children inherit
                        ports = stack.enter_context(places(qos))
                    stack.enter_context(processes.pinned(load_cores))
                    for (what, unit), numbers in _measured(ports, qos, length).items():
                        say(f"  {name}, {what}, turn {turn + 1} of {length.rounds}: {shown(numbers, unit)}")
                        found.setdefault((what, unit), {}).setdefault(name, []).append(numbers)
    return [
        Measure(
            name=f"overlay, {what}",
            ours=median(by_name["ours"]),
            peers={name: median(values) for name, values in by_name.items() if name != "ours"},
            turns={
                name: [mine / one for mine, one in zip(by_name["ours"], values, strict=True)]
                for name, values in by_name.items()
                if name != "ours"
            },
            unit=unit,
        )
        for (what, unit), by_name in found.items()
    ]


def _measured(ports: dict[str, Ports], qos: int, length: Length) -> dict[tuple[str, str], float]:
    numbers: dict[tuple[str, str], float] = {}
    for hops, (at, to) in ports.items():
        name = f"{URGENT if hops == HOPS[1] else 'patient'}-{qos}"
        numbers[f"QoS {qos}, {hops}", "messages/s"] = _rate_hz(name, at, to, qos, length.flow_s)
        if qos == 0:
            delays_s = load.delays_s(
                at, to_port=to, name=name, publishers=10, rate_hz=RATE_HZ, seconds=length.delays_s, settle_s=SETTLE_S
            )
            middle, late = np.percentile(delays_s, (50, 99)).tolist()
            numbers[f"delay of {RATE_HZ:g} messages/s, {hops}, median", "s"] = middle
            numbers[f"delay of {RATE_HZ:g} messages/s, {hops}, 99th percentile", "s"] = late
    return numbers


def _rate_hz(name: str, at: int, to: int, qos: int, seconds: float) -> float:
    """Messages a second from one publisher to one subscriber of that name."""
    taker = clients.Subscriber(to, name, "site/#", qos=qos, publishers=1, ring=load.RING, durable=False)
    giver = clients.Publisher(at, 0, "site/room-000", qos=qos, ring=load.RING)
    with taker.link, giver.link:
        time.sleep(SETTLE_S)
        rate: float = load.flow([giver], [taker], window=WINDOW, seconds=seconds)
    return rate


if __name__ == "__main__":
    main(measures)
