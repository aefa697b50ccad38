"""Balancing, live: a city's topics through a cluster of routers whose leader moves them, beside what was predicted.

Implements: broker-cluster, sections V and VI, on routers as pubsubcoord, section 2.4.1, has them.
Differs:    load is messages a second, as leaders measure it; the city's minutes are played in seconds.
Symbols:    L -> difference.
Checked by: tests/live/overlay/test_balancing_live.py
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firelane.arrays import Floats
from firelane.balance import Loads, balance
from firelane.client import Client
from firelane.overlay.owner import owner
from firelane.overlay.registry import Registry, parse_registry
from firelane.reproduce.pubsubcoord.city import (
    SOURCE,
    TARGET,
    Publisher,
    Subscriber,
    Watcher,
    delivered,
    drained,
    rates,
)
from firelane.reproduce.pubsubcoord.foreseen import PERIOD_STEPS, THRESHOLD, Played, foreseen
from firelane.reproduce.pubsubcoord.members import Planned
from firelane.reproduce.pubsubcoord.wan import Network, network
from firelane.reproduce.relay import Wan

Results = dict[str, Any]
BOUNDED, LONG_TERM = "bounded-moves", "long-term"
ASSIGNED_S = 30.0
TOGETHER_S = 0.3  # between parts of the news of one step
NEWS_S = 0.1  # from a decision until it is known


@dataclass(frozen=True, slots=True, kw_only=True)
class CityEffort:
    """How large the city is, how it is played, and which strategies lead."""

    topics: int
    routers: int
    steps: int  # of the city
    minutes: int  # of the city in each of them
    leader_steps: int  # while one lasts
    step_s: float  # of the leader
    rate_hz: float
    moves: int
    tail: str = "light"
    strategies: Sequence[str] = (BOUNDED, LONG_TERM)

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.strategies)

    @property
    def hold_s(self) -> float:
        """How long a step of the city lasts."""
        return self.leader_steps * self.step_s


async def balancing(effort: CityEffort, *, seed: int, progress: Callable[[int], None]) -> list[Results]:
    """Every strategy."""
    found = []
    for strategy in effort.strategies:
        found.append(await _led(effort, strategy, seed))
        progress(1)
    return found


async def _led(effort: CityEffort, strategy: str, seed: int) -> Results:
    moves = effort.moves if strategy == BOUNDED else effort.topics  # a period's placement at once, as in the paper
    settings = (f"overlay.strategy={strategy}", f"overlay.moves={moves}", f"overlay.step={effort.step_s:g}s")
    planned = [Planned(role="router", name=name, settings=settings) for name in _names(effort.routers)]
    planned += [Planned(role="edge", name=name) for name in (SOURCE, TARGET)]
    loads = rates(
        topics=effort.topics,
        steps=1 + effort.steps,
        minutes=effort.minutes,
        rate_hz=effort.rate_hz,
        tail=effort.tail,
        seed=seed,
    )
    async with (
        network(planned, wan=Wan(), seed=seed) as net,
        Registry(parse_registry(net.cluster.zookeeper.address)) as registry,
        Client(net.url(SOURCE)) as source,
        Client(net.url(TARGET)) as target,
    ):
        return {"strategy": strategy} | await _played(net, registry, source, target, loads, effort, strategy)


def _names(routers: int) -> list[str]:
    return [f"router-{number}" for number in range(1, routers + 1)]


async def _played(
    net: Network,
    registry: Registry,
    source: Client,
    target: Client,
    loads: Loads,
    effort: CityEffort,
    strategy: str,
) -> Results:
    watcher, subscriber, publisher = Watcher(registry), Subscriber(), Publisher(source, loads.topics)
    await target.subscribe("zone/#", subscriber.got, qos=1)
    publisher.set(loads.load[0])  # until everybody knows it; then the city is played
    city = replace(loads, times_s=loads.times_s[1:], load=loads.load[1:])
    async with asyncio.TaskGroup() as group:
        task, began_s = group.create_task(publisher.run()), time.monotonic()
        await _assigned(watcher, loads.topics)
        assigned_s = time.monotonic()
        await asyncio.sleep(effort.hold_s)
        begun, watcher.batches[:] = dict(publisher.sent), []
        start, steps = _numbers(watcher.placement, loads.topics, effort.routers), []
        played = Played(
            loads=loads,
            warm_s=time.monotonic() - began_s,
            led_s=time.monotonic() - assigned_s,
            hold_s=effort.hold_s,
            step_s=effort.step_s,
            routers=effort.routers,
            start=np.array(start),
            settings=_settings(effort, strategy),
        )
        for row in city.load:
            publisher.set(row)
            steps.append(await _step(net, watcher, effort))
        task.cancel()
    await drained(publisher, subscriber)
    return {
        "messages": sum(publisher.sent.values()) - sum(begun.values()),
        **subscriber.verdict(publisher.sent, begun),
        **_outcome(city, start, steps, effort),
        **_moved(loads.topics, watcher, effort, strategy),
        **await asyncio.to_thread(foreseen, played),
    }


async def _step(net: Network, watcher: Watcher, effort: CityEffort) -> Results:
    """A step of the city: what routers passed on in its second half, and where topics were in the end."""
    await asyncio.sleep(effort.hold_s / 2)
    before, began_s = await delivered(net.cluster), time.monotonic()
    await asyncio.sleep(effort.hold_s / 2)
    after, passed_s = await delivered(net.cluster), time.monotonic() - began_s
    carried = [(after[name] - before[name]) / passed_s for name in sorted(after)]
    return {"carried_hz": carried, "placement": dict(watcher.placement)}


async def _assigned(watcher: Watcher, topics: tuple[str, ...]) -> None:
    """Until every topic is measured and has been given a router."""
    async with asyncio.timeout(ASSIGNED_S):
        while set(topics) - watcher.placement.keys() or not all(watcher.rates_hz.get(one) for one in topics):
            await asyncio.sleep(0.05)


def _numbers(placement: dict[str, str], topics: tuple[str, ...], routers: int) -> list[int]:
    number = {name: j for j, name in enumerate(_names(routers))}
    return [number[placement[topic]] for topic in topics]


def difference_hz(load: Floats, place: Sequence[int], routers: int) -> float:
    """The fullest router's load minus the emptiest's (Eq. 2)."""
    carried = np.bincount(place, load, minlength=routers)
    return float(carried.max() - carried.min())


def _outcome(loads: Loads, start: list[int], steps: list[Results], effort: CityEffort) -> Results:
    """Load differences of every step: by what was published, as routers counted it, and had nothing ever been moved or
    assigned."""
    routers, topics = effort.routers, loads.topics
    hashed = [_names(routers).index(owner(topic, None, set(_names(routers))) or "") for topic in topics]
    pairs = list(zip(loads.load, steps, strict=True))
    return {
        "topics": len(topics),
        "routers": routers,
        "steps": len(steps),
        "step_s": effort.step_s,
        "hold_s": effort.hold_s,
        "minutes": effort.minutes,
        "mean_router_hz": float(loads.load.sum(axis=1).mean()) / routers,
        "difference_hz": [
            difference_hz(row, _numbers(one["placement"], topics, routers), routers) for row, one in pairs
        ],
        "counted_difference_hz": [max(one["carried_hz"]) - min(one["carried_hz"]) for one in steps],
        "counted_hz": [sum(one["carried_hz"]) for one in steps],
        "published_hz": loads.load.sum(axis=1).tolist(),
        "hashed_difference_hz": [difference_hz(row, hashed, routers) for row in loads.load],
        "still_difference_hz": [difference_hz(row, start, routers) for row in loads.load],
    }


def _settings(effort: CityEffort, strategy: str) -> Results:
    """The strategy, as `firelane balance` calls it."""
    if strategy == BOUNDED:
        return {"method": BOUNDED, "threshold": THRESHOLD, "max_moves": effort.moves}
    return {"method": "long-term-causal"}


def _moved(topics: tuple[str, ...], watcher: Watcher, effort: CityEffort, strategy: str) -> Results:
    """What was moved, and how often that is what `firelane balance` says at that moment."""
    again = _again if strategy == BOUNDED else _anew
    batches = _together(watcher.batches)
    return {
        "moves": sum(len(batch["moved"]) for batch in batches),
        "batches": [len(batch["moved"]) for batch in batches],
        "as_balance_says": sum(again(topics, batch, watcher, effort) for batch in batches),
    }


def _together(batches: list[Results]) -> list[Results]:
    """Moves of one step, the news of which may come in parts."""
    found: list[Results] = []
    for batch in batches:
        if found and batch["at_s"] - found[-1]["at_s"] < TOGETHER_S:
            found[-1] = {**found[-1], "moved": found[-1]["moved"] | batch["moved"]}
        else:
            found.append(batch)
    return found


def _again(topics: tuple[str, ...], batch: Results, watcher: Watcher, effort: CityEffort) -> bool:
    """Does `firelane balance` move the same topics to the same routers, told what the registry said at that moment?"""
    load = np.array([[batch["rates_hz"][topic] for topic in topics]])
    one = Loads(topics=topics, times_s=np.zeros(1, np.int64), load=load)
    current = {topic: batch["before"][topic].replace("router-", "broker-") for topic in topics}
    said = balance(one, brokers=effort.routers, current=current, **_settings(effort, BOUNDED))
    moved = {move.topic: move.target.replace("broker-", "router-") for move in said.moves}
    return bool(moved == batch["moved"])


def _anew(topics: tuple[str, ...], batch: Results, watcher: Watcher, effort: CityEffort) -> bool:
    """Does Algorithm 1 place the topics so, told what the registry said at the steps of the period that is over?"""
    decided_s = batch["at_s"] - NEWS_S
    steps = [watcher.rates_at(decided_s - effort.step_s * number) for number in range(PERIOD_STEPS, 0, -1)]
    load = np.array([[rates_hz.get(topic, 0.0) for topic in topics] for rates_hz in steps])
    period = Loads(topics=topics, times_s=np.arange(PERIOD_STEPS), load=load)
    said = balance(period, brokers=effort.routers, method="long-term")
    return bool(said.placed[-1].tolist() == _numbers(batch["before"] | batch["moved"], topics, effort.routers))
