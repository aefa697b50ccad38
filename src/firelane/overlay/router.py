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
from contextlib import suppress
from functools import partial
from threading import Thread
from time import monotonic, time
from typing import Any

from firelane.exchange.run import Exchange
from firelane.mqtt.tree import TopicTree
from firelane.overlay.interest import Interest, edge_of
from firelane.overlay.leader.assignment import warm
from firelane.overlay.leader.events import (
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
from firelane.overlay.leader.leading import Leader, Leading
from firelane.overlay.leader.moved import Moved, moves_as_data
from firelane.overlay.registry import KnownEdge, KnownRouter, Load, Move, Registry, RegistryError, TopicState
from firelane.overlay.registry.documents import LARGEST
from firelane.overlay.registry.feed import Changes
from firelane.overlay.registry.last_moves import batch_of
from firelane.scenario.plan import Plan

REPORT_EVERY_S = 2.0
LOOK_EVERY_S = 0.1  # at topics that have changed, at most: what comes meanwhile is looked at together
NOTABLE = 0.1  # change of load, to be told
FEW = 4  # filters with wildcards


class RoutingBroker:
    """Announces a running exchange as a router for as long as `run` runs, and leads when it is its turn."""

    def __init__(
        self,
        exchange: Exchange,
        registry: Registry,
        name: str,
        *,
        locator: str,
        capacity: float = 1.0,
        leading: Leading | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.name, self.locator = name, locator
        self.registry = registry
        self._exchange, self._capacity, self._tell = exchange, capacity, tell
        self._boot = exchange.broker.boot & LARGEST
        self.leading = leading or Leading()
        self._leader = Leader(self.leading)
        self._routers: dict[str, Router] = {}
        self._topics: dict[str, TopicState] = {}
        self._names: TopicTree[str] = TopicTree()  # of the same
        self._interest = Interest()
        self._unseen: set[str] = set()  # topics of which something has changed since the last look
        self._look_at = -math.inf  # not before
        self._wake_at = math.inf
        self._woken = asyncio.Event()
        self._due: list[Assign] = []
        self._moved = Moved(registry)
        self._load = Load()
        self._elected_in = 0  # 0 while another leads
        self._in_office = 0  # the last epoch that the leader was told
        self._following = self._outdated = False
        self._awaited: set[str] = set()  # kinds of things of which not all is known yet

    async def run(self) -> None:
        """Until cancelled."""
        self.registry.announce_router(self.name, self._boot, self.locator, self._capacity)
        self.registry.on_routers(self._routers_listener)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._campaign())
            group.create_task(self._report())
            group.create_task(self._lead())
            group.create_task(self._moved.run())

    @property
    def leads(self) -> bool:
        """Does it lead, and know enough to?"""
        return self._leader.elected

    def statistics(self) -> dict[str, Any]:
        """What it is and has done."""
        return {
            "router": self.name,
            "leads": self.leads,
            **self._leader.statistics(),
            "last_moves": moves_as_data(self._moved.batches),
        }

    def plan(self) -> Plan:
        """What it would move next, and why; only who leads knows the topics."""
        return self._leader.plan()

    async def _campaign(self) -> None:
        """Who leads must be able to decide at once: making machine code for it would hold up messages for seconds."""
        await _beside(partial(warm, self.leading.strategy))
        self.registry.campaign(self._elected)

    # ---- what is told by the registry

    def _elected(self, elected: bool, epoch: int) -> None:
        self._due.clear()
        if elected:
            self._tell(f"this router leads, epoch {epoch}")
            self._elected_in = epoch
        elif self._elected_in:
            self._tell("this router leads no more")
            self._elected_in, self._outdated = 0, True
            self._handle(Deposed(now_s=monotonic()))
        self._woken.set()

    def _routers_listener(self, changes: Changes[KnownRouter]) -> None:
        for name, known in changes.items():
            if known is None:
                self._routers.pop(name, None)
            else:
                self._routers[name] = router_of(known)
        self._handle(RoutersChanged(now_s=monotonic(), routers=dict(self._routers)))

    def _topics_listener(self, changes: Changes[TopicState]) -> None:
        for name, state in changes.items():
            if state is None:
                if self._topics.pop(name, None) is not None:
                    self._names.remove(name)
            else:
                if name not in self._topics:
                    self._names.add(name, name)
                self._topics[name] = state
        self._look_soon("topics", changes)

    def _edges_listener(self, changes: Changes[KnownEdge]) -> None:
        """Filters with wildcards are not among a topic's own subscribers, but with their edges."""
        changed: set[str] = set()
        for name, known in changes.items():
            change = self._interest.change(name, None if known is None else edge_of(known))
            changed |= change.new | change.gone
        wild = [one for one in changed if "+" in one or "#" in one]
        if len(wild) > FEW:  # each may be a walk; one of all is right as well
            self._look_soon("edges", self._topics)
        else:
            found = {name for one in wild for name in self._names.matching(one)}
            self._look_soon("edges", found | (changed & self._topics.keys()))

    def _look_soon(self, kind: str, topics: Iterable[str]) -> None:
        self._awaited.discard(kind)  # what is told first is everything
        self._unseen.update(topics)
        self._woken.set()

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
            await self._follow()
            self._look()
            self._take_office()
            while self._due:
                await self._assign(self._due.pop(0))
            due_at = min(self._wake_at, self._look_at if self._unseen else math.inf)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(0.0, due_at - monotonic()), 3600.0)):
                    await self._woken.wait()
            if (now := monotonic()) >= self._wake_at:
                self._wake_at = math.inf
                self._handle(Tick(now_s=now))

    async def _follow(self) -> None:
        """Topics and edges are followed only by who leads, and anew each time: what was known may be long past."""
        if self._outdated:
            self._outdated = self._following = False
            await self.registry.stop_edges()
            await self.registry.stop_topics()
            self._forget()
        if self._elected_in and not self._following:
            self._following, self._awaited = True, {"edges", "topics"}
            self.registry.on_edges(self._edges_listener)
            self.registry.on_topics(self._topics_listener)

    def _forget(self) -> None:
        gone: dict[str, Topic | None] = dict.fromkeys(self._topics)
        self._topics.clear()
        self._names = TopicTree()
        self._unseen.clear()
        self._interest = Interest()
        self._handle(TopicsChanged(now_s=monotonic(), topics=gone))

    def _look(self) -> None:
        """At all that has changed since the last look."""
        now = monotonic()
        if not self._unseen or now < self._look_at:
            return
        states = {name: self._topics.get(name) for name in self._unseen}
        self._unseen = set()
        topics = {name: None if state is None else self._topic(name, state) for name, state in states.items()}
        self._handle(TopicsChanged(now_s=now, topics=topics))
        self._handle(LoadsReported(now_s=now, loads=loads_of(states)))
        self._look_at = monotonic() + LOOK_EVERY_S

    def _take_office(self) -> None:
        """Act as leader once all is known: what is not may have a router."""
        if self._elected_in > self._in_office and not (self._awaited or self._unseen):
            self._in_office = self._elected_in
            self._handle(Elected(now_s=monotonic(), epoch=self._in_office))

    async def _assign(self, action: Assign) -> None:
        try:
            # Each batch takes an epoch of its own; an action is of the one in which the leader was elected.
            epoch = self.registry.epoch if action.epoch == self._elected_in else action.epoch
            assigned = await self.registry.assign(action.homes, epoch)
        except RegistryError as problem:
            self._tell(f"topics were not given to routers: {problem}")
            self._handle(NotAssigned(now_s=monotonic(), topics=frozenset(action.homes)))
        else:
            self._remember(action, assigned.missing)

    def _remember(self, action: Assign, missing: frozenset[str]) -> None:
        """What was moved is told, and kept; where new topics went, is not."""
        left = {topic: router for topic, router in action.left.items() if topic not in missing}
        if not left:
            return
        count = f"{len(left)} topic{'s' * (len(left) != 1)}"
        self._tell(f"{count} moved to other routers: {'; '.join(action.why)}")
        moves = [Move(topic=topic, left=router, to=action.homes[topic]) for topic, router in left.items()]
        self._moved.add(batch_of(moves, action.why, leader=self.name, at_s=time()))

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


async def _beside(work: Callable[[], None]) -> None:
    """Work in a thread of its own that nobody waits for when all else ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(problem: Exception | None) -> None:
        if done.done():
            return
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)

    def call() -> None:
        problem = None
        try:
            work()
        except Exception as raised:
            problem = raised
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, problem)

    Thread(target=call, name="firelane-warming", daemon=True).start()
    await done


def loads_of(topics: Mapping[str, TopicState | None]) -> dict[str, float | None]:
    """Topics' loads; None of one that no edge has measured."""
    return {name: one.rate_hz for name, one in topics.items() if one is not None}


def router_of(known: KnownRouter) -> Router:
    """A router as leaders know it."""
    return Router(boot=f"{known.boot:x}", load=known.load.messages_hz, capacity=known.capacity)


def topic_of(name: str, state: TopicState, interest: Interest) -> Topic:
    """A topic as leaders know it: those subscribe to it who have a filter that matches."""
    wanted = {*state.sub, *interest.of(name)}
    return Topic(publishers=frozenset(state.pub), subscribers=frozenset(wanted), assignment=state.assignment)
