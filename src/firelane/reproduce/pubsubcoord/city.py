"""A city's topics played through an overlay: published at one site, wanted at another, every message looked for."""

from __future__ import annotations

import asyncio
import heapq
import json
import time
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import numpy as np

from firelane.arrays import Floats
from firelane.balance import Loads
from firelane.balance.cases import day
from firelane.client import Client
from firelane.overlay.registry import Registry, TopicState
from firelane.reproduce.pubsubcoord.members import Cluster

FIRST_MINUTE = 360  # six o'clock
DRAIN_S = 10.0
SPARE = 20  # topics drawn beyond twice as many, of which a fifth come and go
SOURCE, TARGET = "west", "east"


def rates(*, topics: int, steps: int, minutes: int, rate_hz: float, tail: str, seed: int) -> Loads:
    """Messages a second of each topic, so many minutes of the city a step, all together with this rate at first.

    Topics that come and go are left out: it takes a minute until one that has fallen silent is forgotten.
    """
    whole = day(topics=2 * topics + SPARE, tail=tail, seed=seed, steps=FIRST_MINUTE + steps * minutes)
    load = whole.load[FIRST_MINUTE::minutes][:steps]
    load = load[:, (load > 0).all(axis=0)][:, :topics]
    names = tuple(f"zone/{number:04}" for number in range(load.shape[1]))  # in the order in which leaders sort them
    scaled = load * (rate_hz / load[0].sum())
    return Loads(topics=names, times_s=np.arange(steps) * 60 * minutes, load=scaled, unit="messages/s")


class Publisher:
    """Publishes every topic evenly at its rate, numbered; rates may change at any time."""

    def __init__(self, client: Client, topics: tuple[str, ...]) -> None:
        self._client, self._topics = client, topics
        self._every_s = np.full(len(topics), np.inf)
        self.sent: Counter[str] = Counter()

    def set(self, rates_hz: Floats) -> None:
        """From now on so often."""
        self._every_s = 1.0 / rates_hz

    async def run(self) -> None:
        """Until cancelled."""
        now = time.monotonic()
        due = [
            (now + (number + 1) / len(self._topics) * self._every_s[number], number)
            for number in range(len(self._topics))
        ]
        heapq.heapify(due)
        async with asyncio.TaskGroup() as group:
            try:
                while True:
                    at_s, number = due[0]
                    await asyncio.sleep(max(0.0, at_s - time.monotonic()))
                    heapq.heapreplace(due, (at_s + self._every_s[number], number))
                    topic = self._topics[number]
                    self.sent[topic] += 1
                    payload = str(self.sent[topic]).encode()
                    group.create_task(self._client.publish(topic, payload, qos=1))
            except asyncio.CancelledError:
                pass  # what was begun is finished


class Subscriber:
    """What arrived of each topic, in order."""

    def __init__(self) -> None:
        self.arrived: dict[str, list[int]] = defaultdict(list)

    def got(self, topic: str, payload: bytes) -> None:
        """One message."""
        self.arrived[topic].append(int(payload))

    def verdict(self, sent: Counter[str], begun: dict[str, int]) -> dict[str, int]:
        """How many were lost, came twice or in the wrong order, of those after the number where each topic begins."""
        found: Counter[str] = Counter(lost=0, again=0, disordered=0)
        for topic, last in sent.items():
            numbers = [one for one in self.arrived[topic] if one > begun.get(topic, 0)]
            firsts = list(dict.fromkeys(numbers))
            found["lost"] += last - begun.get(topic, 0) - len(firsts)
            found["again"] += len(numbers) - len(firsts)
            found["disordered"] += sum(after < before for before, after in pairwise(firsts))
        return dict(found)


class Watcher:
    """What the registry says: topics' routers and rates, since when, and every move when it was seen."""

    def __init__(self, registry: Registry) -> None:
        self.placement: dict[str, str] = {}
        self.rates_hz: dict[str, float] = {}
        self.batches: list[dict[str, Any]] = []
        self.said: list[tuple[float, dict[str, float]]] = []  # times, and the rates that were told then
        registry.on_topics(self._changed)

    def _changed(self, changes: Any) -> None:
        topics: dict[str, TopicState | None] = changes
        now_s = time.monotonic()
        known = {name: one for name, one in topics.items() if one is not None}
        self.said.append((now_s, {name: one.rate_hz for name, one in known.items() if one.rate_hz is not None}))
        before, rates_hz = dict(self.placement), dict(self.rates_hz)
        for name, state in known.items():
            if state.assignment is not None and state.assignment.router is not None:
                self.placement[name] = state.assignment.router
            self.rates_hz[name] = state.rate_hz or 0.0
        moved = {name: self.placement[name] for name in before if self.placement[name] != before[name]}
        if moved:
            self.batches.append({"at_s": now_s, "moved": moved, "before": before, "rates_hz": rates_hz})

    def rates_at(self, at_s: float) -> dict[str, float]:
        """What was known at a time."""
        found: dict[str, float] = {}
        for then_s, rates_hz in self.said:
            if then_s > at_s:
                break
            found |= rates_hz
        return found


async def delivered(whole: Cluster) -> dict[str, int]:
    """How many messages each router has passed on to the site that wants them, so far."""

    def ask(name: str) -> int:
        said = json.loads(whole[name].ask("GET", f"/api/v1/clients?client_id=edge:{TARGET}"))
        return sum(int(one["delivered"]) for one in said["items"])

    names = [one.name for one in whole.routers]
    counts = await asyncio.gather(*(asyncio.to_thread(ask, name) for name in names))
    return dict(zip(names, counts, strict=True))


async def drained(publisher: Publisher, subscriber: Subscriber) -> None:
    """Until everything has arrived, or should have."""
    give_up = time.monotonic() + DRAIN_S
    while time.monotonic() < give_up:
        if all(subscriber.arrived[topic][-1:] == [last] for topic, last in publisher.sent.items()):
            return
        await asyncio.sleep(0.05)
