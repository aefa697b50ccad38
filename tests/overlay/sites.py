"""Edges and routers in one process, joined by a registry in memory and real connections on loopback."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import paho.mqtt.client as paho

from firelane.client import Client
from firelane.exchange.run import running
from firelane.overlay.edge import EdgeBroker
from firelane.overlay.registry import Registry, parse_registry
from firelane.overlay.router import RoutingBroker
from firelane.scenario.load import from_data

HOST = "127.0.0.1"


class Sites:
    """What was started, by name."""

    def __init__(self, folder, registry):
        self.folder, self.registry = folder, registry
        self.exchanges, self.brokers, self.scenarios, self.lines = {}, {}, {}, []
        self._stacks = {}

    async def start(self, kind, name, *, scenario=None, seen_at=lambda locator: locator, **settings):
        """A router or an edge; settings are its exchange's, `scenario` all else; others reach it at `seen_at`."""
        stack = self._stacks[name] = AsyncExitStack()
        exchange = {"anonymous": "always", "system_interval": 0, **settings}
        if kind == "router":
            exchange = {"durability": "memory", **exchange}
        scenario = from_data({"name": name, "exchange": exchange, **(scenario or {})})
        served = await stack.enter_async_context(
            running(scenario, host=HOST, mqtt_port=0, data_dir=self.folder / name, tell=self.lines.append)
        )
        registry = await stack.enter_async_context(Registry(parse_registry(self.registry)))
        locator = seen_at(served.addresses["mqtt"].removeprefix("mqtt://"))
        make = RoutingBroker if kind == "router" else EdgeBroker
        broker = make(served, registry, name, locator=locator, tell=lambda line: self.lines.append(f"{name}: {line}"))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        task = group.create_task(broker.run())
        stack.callback(task.cancel)
        self.exchanges[name], self.brokers[name], self.scenarios[name] = served, broker, scenario

    async def stop(self, name):
        await self._stacks.pop(name).aclose()
        self.exchanges.pop(name, None)
        self.brokers.pop(name, None)

    async def close(self):
        for name in list(self._stacks):
            await self.stop(name)

    def client(self, edge, **options):
        return Client(self.exchanges[edge].addresses["mqtt"], **options)

    async def joined(self):
        """Wait until every edge is connected to every router and knows all others."""
        routers = [name for name, one in self.brokers.items() if isinstance(one, RoutingBroker)]
        edges = [name for name in self.brokers if name not in routers]

        def known():
            for name in edges:
                said = self.brokers[name].statistics()
                if sorted(said["routers"]) != sorted(routers) or not all(said["routers"].values()):
                    return False
                if sorted(said["edges"]) != sorted(set(edges) - {name}):
                    return False
            return True

        await until(known)


async def until(true, within_s=10.0):
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def sites(folder, *, edges=("a", "b"), routers=("r1", "r2"), registry=None):
    one = Sites(folder, registry or f"memory://{folder.name}")
    try:
        for name in routers:
            await one.start("router", name)
        for name in edges:
            await one.start("edge", name)
        await one.joined()
        yield one
    finally:
        await one.close()


@contextmanager
def stock(here, edge, client_id, *, got=None, wants=None, qos=0, keep=False):
    """A stock client at an edge; `keep` has its session outlive it."""
    host, port = here.exchanges[edge].addresses["mqtt"].removeprefix("mqtt://").split(":")
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=not keep)
    if got is not None:
        client.on_message = lambda client, data, message: got.append((message.topic, message.payload))
    if wants is not None:
        client.on_connect = lambda client, *_: client.subscribe(wants, qos)
    client.connect(host, int(port))
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


@contextmanager
def stock5(here, edge, client_id):
    """A stock client of MQTT 5 at an edge."""
    host, port = here.exchanges[edge].addresses["mqtt"].removeprefix("mqtt://").split(":")
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    client.connect(host, int(port))
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()
