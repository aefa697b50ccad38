"""Figures 7c and 7f: thousands of subscribers join at once; how long until everybody knows, and what it costs.

Implements: pubsubcoord, section 3.3.2, Figures 7c and 7f.
Differs:    the paper's latency is that of a request to ZooKeeper; beside it is what a user waits for: from SUBSCRIBE
            at one edge until another broker knows, and until the topic has a router. A tenth of the networks, with ten
            times as many topics each, have as many leaves in the tree.
Symbols:    none of the paper's.
Checked by: tests/reproduce/test_pubsubcoord.py
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.client import Client
from firelane.errors import FirelaneError
from firelane.overlay.registry import Registry, TopicState, parse_registry
from firelane.reproduce.pubsubcoord.crowd import Joined, Joining, join
from firelane.reproduce.pubsubcoord.members import Planned
from firelane.reproduce.pubsubcoord.traffic import summary
from firelane.reproduce.pubsubcoord.wan import Network, network
from firelane.reproduce.relay import Wan

Results = dict[str, Any]
PUBLISH_EVERY_S = 4.0  # each topic
PROBE_EVERY_S = 0.02
KNOWN_S = 60.0
SPARE_FILES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdEffort:
    """How many networks have subscribers, how many routers and topics there are, and how many join at once."""

    networks: int
    routers: int
    topics: int
    joining: Sequence[int]

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.joining)


class Onlooker:
    """Another broker's view of the registry: when it first saw a subscriber's leaf, and a topic's router."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.subscribed_s: dict[tuple[str, str], float] = {}
        self.assigned_s: dict[str, float] = {}
        self.published: set[str] = set()
        registry.on_topics(self._changed)

    def _changed(self, changes: Any) -> None:
        now = time.monotonic()
        topics: dict[str, TopicState | None] = changes
        for name, state in topics.items():
            if state is None:
                continue
            if state.pub:
                self.published.add(name)
            for edge in state.sub:
                self.subscribed_s.setdefault((name, edge), now)
            if state.assignment is not None and state.assignment.router is not None:
                self.assigned_s.setdefault(name, now)


async def figure_7c(effort: CrowdEffort, *, seed: int, progress: Callable[[int], None]) -> list[Results]:
    """For every number of subscribers that join at once."""
    _open_files(max(effort.joining))
    edges = [f"network-{number}" for number in range(1, effort.networks + 1)]
    planned = [Planned(role="router", name=name) for name in _routers(effort.routers)]
    planned += [Planned(role="edge", name=name) for name in ("source", *edges)]
    found = []
    for count in effort.joining:
        async with network(planned, wan=Wan(), seed=seed) as net:  # anew, as topics keep the routers they had
            found.append(await _point(net, edges, count, effort.topics))
        progress(1)
    return found


def _routers(count: int) -> list[str]:
    return [f"router-{number}" for number in range(1, count + 1)]


def subscribers(edges: Sequence[Joining], count: int, topics: int) -> list[Joining]:
    """As many at each edge, each of another topic as long as there are some; edges begin with different ones."""
    found = []
    for number in range(count):
        which, place = number % len(edges), number // len(edges)
        topic = (place + which * topics // len(edges)) % topics
        edge = edges[which]
        found.append(Joining(edge=edge.edge, port=edge.port, topic=f"{edge.topic}/{topic}"))
    return found


async def _point(net: Network, edges: Sequence[str], count: int, topics: int) -> Results:
    server, name = net.cluster.zookeeper, "f7c"
    async with Registry(parse_registry(server.address)) as registry, publishing(net, name, topics):
        onlooker = Onlooker(registry)
        await _until(lambda: len(onlooker.published) >= topics)
        bases = [Joining(edge=edge, port=net.cluster[edge].mqtt_port, topic=name) for edge in edges]
        wanted = subscribers(bases, count, topics)
        pairs = {(one.topic, one.edge) for one in wanted}
        before = await asyncio.to_thread(server.monitored)
        await asyncio.to_thread(server.forget)
        async with probing(registry) as probes:
            joined = await join(wanted, name)
            answered_s = time.monotonic()
            await _until(lambda: pairs <= onlooker.subscribed_s.keys())
            await _until(lambda: {topic for topic, _ in pairs} <= onlooker.assigned_s.keys())
        after = await asyncio.to_thread(server.monitored)
        found = _result(joined, onlooker, probes, answered_s)
        for one in joined:
            one.leave()
    return found | {
        "joining": count,
        "leaves": len(pairs),
        "topics": len({topic for topic, _ in pairs}),
        "znodes": after["znode_count"],
        "znodes_before": before["znode_count"],
        "watches": after["watch_count"],
        "watches_before": before["watch_count"],
        "requests": after["packets_received"],
        "zookeeper_mean_s": after["avg_latency"] / 1e3,
        "zookeeper_max_s": after["max_latency"] / 1e3,
    }


def _result(joined: list[Joined], onlooker: Onlooker, probes: list[float], answered_s: float) -> Results:
    asked: dict[tuple[str, str], float] = {}
    topic_asked: dict[str, float] = {}
    for one in joined:
        pair = one.joining.topic, one.joining.edge
        asked[pair] = min(asked.get(pair, one.asked_s), one.asked_s)
        topic_asked[pair[0]] = min(topic_asked.get(pair[0], one.asked_s), one.asked_s)
    known = [onlooker.subscribed_s[pair] - at for pair, at in asked.items()]
    assigned = [onlooker.assigned_s[topic] - at for topic, at in topic_asked.items()]
    began_s = min(one.asked_s for one in joined)
    return {
        "joined_s": answered_s - began_s,
        "all_known_s": max(onlooker.subscribed_s[pair] for pair in asked) - began_s,
        "answered": summary(np.array([one.answered_s - one.asked_s for one in joined])),
        "known": summary(np.array(known)),
        "assigned": summary(np.array(assigned)),
        "probe": summary(np.array(probes)),
    }


@asynccontextmanager
async def publishing(net: Network, name: str, topics: int) -> AsyncIterator[None]:
    """A publisher of all topics, each now and then, while the block lasts."""
    async with Client(net.url("source")) as client, asyncio.TaskGroup() as group:
        task = group.create_task(_publish(client, [f"{name}/{number}" for number in range(topics)]))
        try:
            yield
        finally:
            task.cancel()


async def _publish(client: Client, topics: Sequence[str]) -> None:
    while True:
        for first in range(0, len(topics), 20):
            for topic in topics[first : first + 20]:
                await client.publish(topic, b"." * 64)
            await asyncio.sleep(PUBLISH_EVERY_S * 20 / len(topics))


@asynccontextmanager
async def probing(registry: Registry) -> AsyncIterator[list[float]]:
    """How long ZooKeeper takes to answer, asked again and again while the block lasts."""
    found: list[float] = []

    async def probe() -> None:
        while True:
            began = time.monotonic()
            await registry.tree.children(["/broker"])
            found.append(time.monotonic() - began)
            await asyncio.sleep(PROBE_EVERY_S)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(probe())
        try:
            yield found
        finally:
            task.cancel()


async def _until(true: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(KNOWN_S):
            while not true():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise FirelaneError(f"the registry did not tell of all subscribers within {KNOWN_S:g} s") from None


def _open_files(count: int) -> None:
    """Each subscriber is an open file, here and at its edge."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + SPARE_FILES
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise FirelaneError(
                f"{count} subscribers need {wanted} open files, and {hard} are allowed; raise ulimit -n"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
