"""Figures 7a, 7b, 7d and 7e: more topics at an edge, and more routers for the same topics.

Implements: pubsubcoord, section 3.3.1, Figures 7a, 7b, 7d, 7e.
Differs:    a few networks instead of 120; routers have a share of a core by the kernel's quota where the paper's have
            a virtual machine each, so that one of them is nearly full, as five are in the paper.
Symbols:    none of the paper's.
Checked by: tests/reproduce/test_pubsubcoord.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from firelane.reproduce.pubsubcoord.members import Planned
from firelane.reproduce.pubsubcoord.traffic import Stream, Traffic
from firelane.reproduce.pubsubcoord.wan import WIDE, Busy, Network, network
from firelane.reproduce.rdds.quota import Quota, quota

Results = dict[str, Any]
NEARLY_FULL = 0.9  # of its share, a single router


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleEffort:
    """Networks that subscribe, topics of each (Figure 7a), routers that share the most of them (7b), and how long."""

    networks: int
    topics: Sequence[int]
    routers: Sequence[int]
    warm_s: float
    run_s: float

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.topics) + len(self.routers)


def _planned(routers: int, networks: int) -> list[Planned]:
    return [
        *(Planned(role="router", name=f"router-{number}") for number in range(1, routers + 1)),
        Planned(role="edge", name="source"),
        *(Planned(role="edge", name=f"network-{number}") for number in range(1, networks + 1)),
    ]


def _streams(net: Network, networks: int, topics: int, name: str) -> list[Stream]:
    """Topics of one network that all others want, with a subscriber each."""
    targets = [net.url(f"network-{number}") for number in range(1, networks + 1)]
    return [Stream(topic=f"{name}/{number}", source=net.url("source"), targets=targets) for number in range(topics)]


async def more_topics(effort: ScaleEffort, *, seed: int, progress: Callable[[int], None]) -> list[Results]:
    """Figures 7a and 7d: latency, and how busy the edges are that subscribe."""
    found = []
    async with network(_planned(1, effort.networks), wan=WIDE, seed=seed) as net:
        for topics in effort.topics:
            one = await _run(net, effort, topics, f"f7a-{topics}", seed)
            loads = [one["load"][f"network-{number}"] for number in range(1, effort.networks + 1)]
            found.append({"topics": topics, "edge_load": sum(loads) / len(loads), **one})
            progress(1)
    return found


async def more_routers(effort: ScaleEffort, needed: float, *, seed: int, progress: Callable[[int], None]) -> Results:
    """Figures 7b and 7e: latency, and how much of its share of a core each router uses.

    `needed` is how much of one a single router needs for all topics.
    """
    cores = needed / NEARLY_FULL
    points, limited = [], True
    for routers in effort.routers:
        with ExitStack() as stack:
            point = await _limited(stack, effort, routers, cores, seed)
        limited = limited and point.pop("limited")
        points.append(point)
        progress(1)
    return {"cores": cores, "limited": limited, "points": points}


async def _limited(stack: ExitStack, effort: ScaleEffort, routers: int, cores: float, seed: int) -> Results:
    """A run whose routers have that much of a core each, if the system lets us."""
    async with network(_planned(routers, effort.networks), wan=WIDE, seed=seed) as net:
        groups = [_under(stack, one.pid, cores) for one in net.cluster.routers]
        one = await _run(net, effort, max(effort.topics), f"f7b-{routers}", seed)
        for group in groups:
            if group is not None:
                group.set(None)  # or they would take long to end
    shares = [one["load"][f"router-{number}"] / cores for number in range(1, routers + 1)]
    return {"routers": routers, "router_loads": shares, "limited": all(group is not None for group in groups), **one}


def _under(stack: ExitStack, pid: int, cores: float) -> Quota | None:
    group = stack.enter_context(quota())
    if group is not None:
        group.set(cores)
        group.add(pid)
    return group


async def _run(net: Network, effort: ScaleEffort, topics: int, name: str, seed: int) -> Results:
    async with Traffic(_streams(net, effort.networks, topics, name), seed=seed) as traffic:
        busy = Busy(net)
        measured = await traffic.run(warm_s=effort.warm_s, run_s=effort.run_s, during=busy)
    return {"load": busy.share, "passed": busy.received, **measured.summary()}
