"""What others keep for an edge that was stopped in order: what clients want whose sessions last, and nothing else."""

from __future__ import annotations

import asyncio

from sites import until

from firelane.exchange.run import running
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Subscribe, Subscription
from firelane.overlay.joining import Joining, joining
from firelane.overlay.registry import Registry, parse_registry
from firelane.scenario.load import from_data

REGISTRY = "memory://stopped"


async def subscribed(port, client_id, filters, expiry_s):
    """A connection whose session outlives it by so much."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    hello = Connect(client_id=client_id, version=V5, properties={"session_expiry_interval": expiry_s})
    wishes = [Subscription(filter=one, qos=1) for one in filters]
    writer.write(encode(hello, V5) + encode(Subscribe(packet_id=1, subscriptions=wishes), V5))
    while b"\x90" not in await reader.read(1000):  # SUBACK
        pass
    return writer


async def left_by(folder, clients):
    """The filters that the registry has of an edge after it was stopped; None if it knows no such edge."""
    scenario = from_data({"name": "x", "exchange": {"anonymous": "always"}})
    async with Registry(parse_registry(REGISTRY)) as looker:
        known = {}
        looker.on_edges(known.update)
        async with (
            running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=folder, tell=print) as exchange,
            joining(
                exchange,
                Joining(role="edge", registry=REGISTRY, name="x"),
                scenario.exchange.overlay,
                lambda line: None,
            ),
        ):
            port = int(exchange.addresses["mqtt"].rpartition(":")[2])
            lines = [await subscribed(port, name, filters, expiry_s) for name, filters, expiry_s in clients]
            every = {one for _, filters, _ in clients for one in filters}
            await until(lambda: known.get("x") is not None and every <= known["x"].filters.keys())
        for line in lines:
            line.close()
        await until(lambda: known["x"] is None or not known["x"].here)
        await asyncio.sleep(0.2)
        return None if known["x"] is None else set(known["x"].filters)


def test_of_clients_whose_sessions_last_it_is_kept_what_they_want(tmp_path):
    clients = [("lasting", ["orders", "news"], 3600), ("passing", ["weather", "news"], 0)]
    assert asyncio.run(left_by(tmp_path, clients)) == {"orders", "news"}


def test_without_such_clients_nobody_keeps_anything_for_it(tmp_path):
    assert asyncio.run(left_by(tmp_path, [("passing", ["weather"], 0)])) is None
