"""The emulated network of an experiment: relays in front of brokers, and the cluster behind them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from firelane.reproduce.pubsubcoord.members import Cluster, Member, Planned, cluster, wait_joined
from firelane.reproduce.relay import HOST, Relay, Wan

LAN = Wan(delay_s=0.010)  # 20 ms there and back
WIDE = Wan(delay_s=0.040)  # 80 ms there and back


class Network:
    """A cluster whose brokers talk to each other, and clients to them, over emulated links."""

    def __init__(self, whole: Cluster, between: dict[str, Relay], local: dict[str, Relay]) -> None:
        self.cluster, self.between, self.local = whole, between, local

    def url(self, edge: str) -> str:
        """Where clients of an edge connect to."""
        if edge in self.local:
            return f"mqtt://{HOST}:{self.local[edge].port}"
        return self.cluster[edge].url

    def processor_s(self) -> dict[str, float]:
        """Processor time of each broker so far."""
        return {one.name: one.processor_s() or 0.0 for one in self.cluster.members.values()}

    async def received(self) -> dict[str, int]:
        """Messages published at each router so far."""
        routers = self.cluster.routers
        counts = await asyncio.gather(*(asyncio.to_thread(one.received) for one in routers))
        return {one.name: count for one, count in zip(routers, counts, strict=True)}


@asynccontextmanager
async def network(
    planned: Sequence[Planned], *, wan: Wan = WIDE, lan: Wan | None = None, direct: bool = False, seed: int = 1
) -> AsyncIterator[Network]:
    """Brokers that reach routers over `wan`, and each other too if `direct`; clients reach edges over `lan`."""
    async with AsyncExitStack() as stack:
        relayed = [one.name for one in planned if one.role == "router" or direct]
        between = {
            name: await stack.enter_async_context(Relay(other=wan, seed=seed + n)) for n, name in enumerate(relayed)
        }
        edges = [one.name for one in planned if one.role == "edge"] if lan is not None else []
        local = {name: await stack.enter_async_context(Relay(other=lan)) for name in edges}
        told = [replace(one, locator=between[one.name].locator) if one.name in between else one for one in planned]

        def started(member: Member) -> None:
            for relays in (between, local):
                if member.name in relays:
                    relays[member.name].target = member.mqtt_port

        context = cluster(told, started=started)
        whole = await asyncio.to_thread(context.__enter__)
        try:
            await asyncio.to_thread(wait_joined, whole)
            yield Network(whole, between, local)
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)


class Busy:
    """While the block lasts: how busy brokers are, as shares of a core, and how many messages routers get."""

    def __init__(self, net: Network) -> None:
        self._net = net
        self.share: dict[str, float] = {}
        self.received: dict[str, int] = {}

    async def __aenter__(self) -> Busy:
        self._received = await self._net.received()
        self._began_s, self._before = time.monotonic(), self._net.processor_s()
        return self

    async def __aexit__(self, *problem: object) -> None:
        after, passed_s = self._net.processor_s(), time.monotonic() - self._began_s
        self.share = {name: (after[name] - self._before[name]) / passed_s for name in after}
        received = await self._net.received()
        self.received = {name: received[name] - self._received[name] for name in received}
