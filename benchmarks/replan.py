"""How long a served exchange takes to plan again while it carries traffic: to decide and apply, as it says itself.

A thousand clients with ten subscriptions each on two links, a thousand topics, 1000 publications a second, over real
connections; the exchange is a process of its own. Before every second plan a client subscribes to something more.
Beside it the same decision made afresh, in this process and without any traffic: what remembering is worth.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

import httpx
import numpy as np

from firelane.bench import OURS, Measure, Target, main
from firelane.control import decide
from firelane.control.warm import warm_up
from firelane.exchange.measuring.observed import Observed, SeenSubscription, SeenTopic
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Publish, Subscribe, Subscription
from firelane.scenario.model import Link, Need, Scenario, Subscriber
from firelane.scenario.save import save

CLIENTS, EACH, TOPICS = 1000, 10, 1000
PUBLISHED_HZ = 1000
PLANS = 20
PAUSE_S = 1.2  # between plans
MOST_S = 0.1
NAMES = [f"city/{n % 30}/sensor/{n}" for n in range(TOPICS)]


def measures(quick: bool = False) -> list[Measure]:
    """The slowest and the median of several plans."""
    clients, plans = (100, 4) if quick else (CLIENTS, PLANS)
    links = {name: Link(bandwidth_bps=3e6) for name in ("near", "far")}
    people = {f"s{n}": Subscriber(link=list(links)[n % 2], subscribes={}) for n in range(clients)}
    scenario = Scenario(name="bench", links=links, subscribers=people)
    with tempfile.TemporaryDirectory() as folder, served(scenario, Path(folder)) as (port, http):
        ours = asyncio.run(planned(port, http, clients, plans))
    afresh = decided(scenario, clients, plans)
    label = f"replan, {clients * EACH:,} live subscriptions"
    return [
        Measure(name=f"{label}: median", ours=median(ours), peers={"afresh, idle": median(afresh)}, unit="s"),
        Measure(
            name=f"{label}: slowest",
            ours=max(ours),
            peers={"afresh, idle": max(afresh)},
            unit="s",
            targets={OURS: Target(words=f"below {MOST_S:g} s", met=max(ours) < MOST_S)},
        ),
    ]


@contextmanager
def served(scenario: Scenario, folder: Path) -> Iterator[tuple[int, str]]:
    """A served exchange: its port, and where to ask it."""
    save(scenario, folder / "scenario.yaml")
    options = ["--mqtt-port", "0", "--http-port", "0", "--data-dir", str(folder / "data")]
    command = [sys.executable, "-m", "firelane.cli", "serve", str(folder / "scenario.yaml"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(one for one in process.stdout if "ready" in one)
            mqtt, http = (re.search(rf"{scheme}://[^:]*:(\d+)", line) for scheme in ("mqtt", "http"))
            assert mqtt is not None
            assert http is not None
            yield int(mqtt[1]), f"http://127.0.0.1:{http[1]}/api/v1"
        finally:
            process.terminate()


async def planned(port: int, http: str, clients: int, plans: int) -> list[float]:
    """Seconds that the exchange took for every plan that it was asked for."""
    async with busy(port, clients) as writers, httpx.AsyncClient(timeout=60) as client:
        while not (await client.get(f"{http}/decisions")).json()["items"]:
            await asyncio.sleep(0.5)  # the loop has yet to make its first
        for number in range(plans):
            if number % 2:
                writers[number].write(subscribe([f"more/{number}"]))
            await asyncio.sleep(PAUSE_S)
            (await client.post(f"{http}/plan")).raise_for_status()
        asked = await client.get(f"{http}/decisions", params={"kind": "operator", "limit": plans})
        return [one["seconds"] for one in asked.json()["items"]]


def decided(scenario: Scenario, clients: int, plans: int) -> list[float]:
    """Seconds to decide the like without knowing anything, and without any traffic."""
    warm_up()
    chance = np.random.default_rng(0)
    wants = tuple(
        SeenSubscription(
            subscriber=f"s{n}", filter=NAMES[one], need=Need(), best_class=0, link=("near", "far")[n % 2], qos=0
        )
        for n in range(clients)
        for one in chance.choice(TOPICS, EACH, replace=False).tolist()
    )
    topics = tuple(SeenTopic(name, 1.0, 160.0, 6500.0, 1.0) for name in NAMES)
    scene = Observed(topics=topics, subscriptions=wants, links=scenario.links, changed=1)
    taken = []
    for _ in range(plans):
        began = perf_counter()
        decide(scene, scenario)
        taken.append(perf_counter() - began)
    return taken


@asynccontextmanager
async def busy(port: int, clients: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """Clients that subscribe and read, and one that publishes all the while."""
    chance = np.random.default_rng(0)
    writers, tasks = [], []
    for number in range(clients + 1):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode(Connect(client_id=f"s{number}", version=V5), V5))
        if number < clients:
            writer.write(subscribe([NAMES[n] for n in chance.choice(TOPICS, EACH, replace=False)]))
        writers.append(writer)
        tasks.append(asyncio.create_task(drained(reader)))
    tasks.append(asyncio.create_task(publishing(writers[-1], chance)))
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


async def publishing(writer: asyncio.StreamWriter, chance: np.random.Generator) -> None:
    share = chance.uniform(0.2, 2.0, TOPICS)
    while True:
        for number in chance.choice(TOPICS, 5, p=share / share.sum()):
            writer.write(encode(Publish(topic=NAMES[number], payload=bytes(int(chance.integers(20, 300)))), V5))
        await asyncio.sleep(5 / PUBLISHED_HZ)


if __name__ == "__main__":
    main(measures)
