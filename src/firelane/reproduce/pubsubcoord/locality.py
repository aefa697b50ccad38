"""Figure 6: the more topics stay local, the lower the latency.

Implements: pubsubcoord, section 3.2, Figure 6.
Differs:    a tenth of the topics, and fewer routers; clients and brokers are joined by relays that delay.
Symbols:    data locality -> locality, the share of a network's topics that nobody elsewhere wants.
Checked by: tests/reproduce/test_pubsubcoord.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from firelane.reproduce.pubsubcoord.members import Planned
from firelane.reproduce.pubsubcoord.traffic import Stream, Traffic
from firelane.reproduce.pubsubcoord.wan import LAN, WIDE, Busy, Network, network

Results = dict[str, Any]
LOCAL_S = 2 * LAN.delay_s  # publisher, edge, subscriber
GLOBAL_S = LOCAL_S + 2 * WIDE.delay_s  # publisher, edge, router, edge, subscriber


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalityEffort:
    """How many networks and routers, topics in each network, which localities, and how long."""

    networks: int
    routers: int
    topics: Sequence[int]
    localities: Sequence[float]
    warm_s: float
    run_s: float

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.topics) * len(self.localities)


def streams(net: Network, edges: Sequence[str], topics: int, locality: float, name: str) -> list[Stream]:
    """So many topics of each network, of which this share has its subscriber there and the rest in the next one."""
    local = round(locality * topics)
    found = []
    for number, edge in enumerate(edges):
        other = edges[(number + 1) % len(edges)]
        for topic in range(topics):
            target = edge if topic < local else other
            found.append(Stream(topic=f"{name}/{edge}/{topic}", source=net.url(edge), targets=[net.url(target)]))
    return found


def expected_s(topics: int, locality: float) -> float:
    """What the emulated links alone add up to, on average."""
    local = round(locality * topics) / topics
    return local * LOCAL_S + (1 - local) * GLOBAL_S


async def figure_6(effort: LocalityEffort, *, seed: int, progress: Callable[[int], None]) -> list[Results]:
    """Latency for every number of topics and locality."""
    edges = [f"network-{number}" for number in range(1, effort.networks + 1)]
    planned = [Planned(role="router", name=f"router-{number}") for number in range(1, effort.routers + 1)]
    planned += [Planned(role="edge", name=name) for name in edges]
    found = []
    async with network(planned, lan=LAN, wan=WIDE, seed=seed) as net:
        for topics, locality in product(effort.topics, effort.localities):
            found.append(await _point(net, edges, topics, locality, effort, seed))
            progress(1)
    return found


async def _point(
    net: Network, edges: Sequence[str], topics: int, locality: float, effort: LocalityEffort, seed: int
) -> Results:
    name = f"f6-{topics}-{round(100 * locality)}"
    async with Traffic(streams(net, edges, topics, locality, name), seed=seed) as traffic:
        busy = Busy(net)
        measured = await traffic.run(warm_s=effort.warm_s, run_s=effort.run_s, during=busy)
    return {
        "topics": topics,
        "locality": locality,
        "expected_s": expected_s(topics, locality),
        "through_routers_hz": sum(busy.received.values()) / effort.run_s,
        "edge_load": sum(busy.share[edge] for edge in edges) / len(edges),
        **measured.summary(),
    }
