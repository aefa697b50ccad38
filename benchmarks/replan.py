"""How long an exchange takes to plan again while it carries traffic: to look, decide and apply; beside deciding afresh.

A thousand clients with ten subscriptions each on two links, a thousand topics, real connections. Ours is what the
control loop does, with what it remembers of subscriptions and needs; afresh is the same decision without that. The
event loop goes on meanwhile and shares the interpreter, so both are times on the clock. Before every second plan a
client subscribes to something more.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import uvloop

from firelane.bench import OURS, Measure, Target, main
from firelane.control import Control, decide
from firelane.control.warm import warm_up
from firelane.exchange.run import Exchange, running
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Publish, Subscribe, Subscription
from firelane.scenario.model import Link, Scenario, Subscriber
from firelane.serve import SWITCH_S

CLIENTS, EACH, TOPICS = 1000, 10, 1000
PUBLISHED_HZ = 1000
PLANS = 20
MOST_S = 0.1


def measures(quick: bool = False) -> list[Measure]:
    """The slowest and the median of several plans."""
    clients, plans = (100, 4) if quick else (CLIENTS, PLANS)
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ours, afresh = runner.run(planned(clients, plans))
    label = f"replan, {clients * EACH:,} live subscriptions"
    return [
        Measure(name=f"{label}: median", ours=median(ours), peers={"afresh": median(afresh)}, unit="s"),
        Measure(
            name=f"{label}: slowest",
            ours=max(ours),
            peers={"afresh": max(afresh)},
            unit="s",
            targets={OURS: Target(words=f"below {MOST_S:g} s", met=max(ours) < MOST_S)},
        ),
    ]


async def planned(clients: int, plans: int) -> tuple[list[float], list[float]]:
    """Seconds of every plan: as the loop makes it, and afresh."""
    links = {name: Link(bandwidth_bps=3e6) for name in ("near", "far")}
    people = {f"s{n}": Subscriber(link=list(links)[n % 2], subscribes={}) for n in range(clients)}
    scenario = Scenario(name="bench", links=links, subscribers=people)
    with tempfile.TemporaryDirectory() as folder:
        async with (
            running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=Path(folder), tell=print) as exchange,
            busy(exchange, clients) as subscribers,
        ):
            await asyncio.to_thread(warm_up)
            control = Control(exchange, scenario)
            for _ in range(4):  # until rates are known
                control.observed()
                await asyncio.sleep(1)
            await control.apply()
            ours, afresh = [], []
            for number in range(plans):
                if number % 2:
                    subscribers[number].write(subscribe([f"more/{number}"]))
                await asyncio.sleep(0.8)
                began = perf_counter()
                decision = await control.decide(control.observed())
                exchange.apply(decision.plan)
                ours.append(perf_counter() - began)
                began, observed = perf_counter(), control.observed()
                await asyncio.to_thread(decide, observed, scenario)
                afresh.append(perf_counter() - began)
            return ours, afresh


@asynccontextmanager
async def busy(exchange: Exchange, clients: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """Clients that subscribe and read, and one that publishes all the while."""
    chance = np.random.default_rng(0)
    port = int(exchange.addresses["mqtt"].rpartition(":")[2])
    names = [f"city/{n % 30}/sensor/{n}" for n in range(TOPICS)]
    writers, tasks = [], []
    for number in range(clients + 1):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode(Connect(client_id=f"s{number}", version=V5), V5))
        if number < clients:
            writer.write(subscribe([names[n] for n in chance.choice(TOPICS, EACH, replace=False)]))
        writers.append(writer)
        tasks.append(asyncio.create_task(drained(reader)))
    tasks.append(asyncio.create_task(publishing(writers[-1], names, chance)))
    try:
        yield writers
    finally:
        for task in tasks:
            task.cancel()
        for writer in writers:
            writer.close()
        await asyncio.gather(*tasks, *(writer.wait_closed() for writer in writers), return_exceptions=True)


def subscribe(filters: list[str]) -> bytes:
    return encode(Subscribe(packet_id=1, subscriptions=[Subscription(filter=one) for one in filters]), V5)


async def drained(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


async def publishing(writer: asyncio.StreamWriter, names: list[str], chance: np.random.Generator) -> None:
    share = chance.uniform(0.2, 2.0, len(names))
    while True:
        for number in chance.choice(len(names), 5, p=share / share.sum()):
            writer.write(encode(Publish(topic=names[number], payload=bytes(int(chance.integers(20, 300)))), V5))
        await asyncio.sleep(5 / PUBLISHED_HZ)


if __name__ == "__main__":
    main(measures)
