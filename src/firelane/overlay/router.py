"""A routing broker: an exchange whose clients are edges. One of the routers leads, and gives topics to all of them.

A router keeps nothing: edges subscribe anew when they come back, and send again what it may have lost.

Implements: pubsubcoord, section 2.6.1 and Algorithm 1.
Differs:    edges subscribe at routers by themselves, so a router need not watch endpoints of its topics; the leader
            assigns by load as well, and again when a router dies.
Symbols:    topic_set -> assignments, eb_peer_list -> the clients.
Checked by: tests/overlay/test_sites.py
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any

from firelane.exchange.run import Exchange
from firelane.overlay.assignment import warm
from firelane.overlay.interest import Interest, edge_of
from firelane.overlay.leader_events import (
    Action,
    Assign,
    Deposed,
    Elected,
    Event,
    LoadsReported,
    NotAssigned,
    Router,
    RoutersChanged,
    Tick,
    Topic,
    TopicsChanged,
    WakeAt,
)
from firelane.overlay.leading import Leader, Leading
from firelane.overlay.registry import KnownEdge, KnownRouter, Load, Registry, RegistryError, TopicState
from firelane.overlay.registry.feed import Changes
from firelane.scenario.plan import Plan

REPORT_EVERY_S = 2.0
NOTABLE = 0.1  # change of load, to be told
LARGEST_BOOT = 2**63 - 1


class RoutingBroker:
    """Announces a running exchange as a router for as long as `run` runs, and leads when it is its turn."""

    def __init__(
        self,
        exchange: Exchange,
        registry: Registry,
        name: str,
        *,
        locator: str,
        leading: Leading | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.name, self.locator = name, locator
        self.registry = registry
        self._exchange, self._tell = exchange, tell
        self._boot = exchange.broker.boot & LARGEST_BOOT
        leading = leading or Leading()
        self._leader, self._strategy = Leader(leading), leading.strategy
        self._routers: dict[str, Router] = {}
        self._topics: dict[str, TopicState] = {}
        self._interest = Interest()
        self._wake_at = math.inf
        self._woken = asyncio.Event()
        self._due: list[Assign] = []
        self._load = Load()
        self._elected_in = 0

    async def run(self) -> None:
        """Until cancelled."""
        self.registry.announce_router(self.name, self._boot, self.locator)
        self.registry.on_routers(self._routers_listener)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._campaign())
            group.create_task(self._report())
            group.create_task(self._lead())

    @property
    def keeps(self) -> bool:
        """A router keeps nothing."""
        return False

    def statistics(self) -> dict[str, Any]:
        """What it is and has done."""
        return {"router": self.name, "leads": self._leader.elected, **self._leader.statistics()}

    def plan(self) -> Plan:
        """What the leader would move next, and why."""
        return self._leader.plan()

    async def _campaign(self) -> None:
        """Who leads must be able to decide at once: making machine code for it would hold up messages for seconds."""
        await asyncio.to_thread(warm, self._strategy)
        self.registry.campaign(self._elected)

    # ---- what is told by the registry

    def _elected(self, elected: bool, epoch: int) -> None:
        now = monotonic()
        if elected:
            self._tell(f"this router leads, epoch {epoch}")
            self._elected_in = epoch
            self.registry.on_edges(self._edges_listener)
            self.registry.on_topics(self._topics_listener)
            self._handle(Elected(now_s=now, epoch=epoch))
        elif self._leader.elected:
            self._tell("this router leads no more")
            self._handle(Deposed(now_s=now))

    def _routers_listener(self, changes: Changes[KnownRouter]) -> None:
        for name, known in changes.items():
            if known is None:
                self._routers.pop(name, None)
            else:
                self._routers[name] = Router(boot=f"{known.boot:x}", load=known.load.messages_hz)
        self._handle(RoutersChanged(now_s=monotonic(), routers=dict(self._routers)))

    def _topics_listener(self, changes: Changes[TopicState]) -> None:
        now = monotonic()
        for name, state in changes.items():
            if state is None:
                self._topics.pop(name, None)
            else:
                self._topics[name] = state
        topics = {name: None if state is None else self._topic(name, state) for name, state in changes.items()}
        self._handle(TopicsChanged(now_s=now, topics=topics))
        self._handle(LoadsReported(now_s=now, loads=loads_of(changes)))

    def _edges_listener(self, changes: Changes[KnownEdge]) -> None:
        """Filters with wildcards are not among a topic's own subscribers, but with their edges."""
        for name, known in changes.items():
            self._interest.change(name, None if known is None else edge_of(known))
        self._handle(
            TopicsChanged(
                now_s=monotonic(), topics={name: self._topic(name, one) for name, one in self._topics.items()}
            )
        )

    def _topic(self, name: str, state: TopicState) -> Topic:
        return topic_of(name, state, self._interest)

    def _handle(self, event: Event) -> None:
        self._do(self._leader.handle(event))

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case WakeAt():
                    self._wake_at = action.at_s
                case Assign():
                    self._due.append(action)
        self._woken.set()

    # ---- time

    async def _lead(self) -> None:
        while True:
            self._woken.clear()
            while self._due:
                await self._assign(self._due.pop(0))
            try:
                async with asyncio.timeout(min(max(0.0, self._wake_at - monotonic()), 3600.0)):
                    await self._woken.wait()
            except TimeoutError:
                self._wake_at = math.inf
                self._handle(Tick(now_s=monotonic()))

    async def _assign(self, action: Assign) -> None:
        try:
            # Each batch takes an epoch of its own; an action is of the one in which the leader was elected.
            epoch = self.registry.epoch if action.epoch == self._elected_in else action.epoch
            await self.registry.assign(action.homes, epoch)
        except RegistryError as problem:
            self._tell(f"topics were not given to routers: {problem}")
            self._handle(NotAssigned(now_s=monotonic(), topics=frozenset(action.homes)))

    async def _report(self) -> None:
        counts = self._exchange.broker.counts
        messages, size_bytes, then = counts.publish_received, counts.publish_bytes_received, monotonic()
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            now = monotonic()
            load = Load(
                messages_hz=round((counts.publish_received - messages) / (now - then), 1),
                bytes_hz=round((counts.publish_bytes_received - size_bytes) / (now - then)),
            )
            messages, size_bytes, then = counts.publish_received, counts.publish_bytes_received, now
            if abs(load.messages_hz - self._load.messages_hz) > NOTABLE * max(1.0, self._load.messages_hz):
                self._load = load
                self.registry.report(load, len(self._exchange.broker.routes.known))


def loads_of(topics: Mapping[str, TopicState | None]) -> dict[str, float | None]:
    """Topics' loads; None of one that no edge has measured."""
    return {name: one.rate_hz for name, one in topics.items() if one is not None}


def topic_of(name: str, state: TopicState, interest: Interest) -> Topic:
    """A topic as leaders know it: those subscribe to it who have a filter that matches."""
    wanted = {*state.sub, *interest.of(name)}
    return Topic(publishers=frozenset(state.pub), subscribers=frozenset(wanted), assignment=state.assignment)
