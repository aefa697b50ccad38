"""Two sites joined by two routers, in one process: nobody configures who gets what, and a router may fail.

The registry is in memory here; brokers in different processes share a ZooKeeper (`--registry zookeeper://HOST:PORT`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from firelane.client import Client
from firelane.exchange.run import running
from firelane.overlay.joining import ROUTER, Joining, Role, joining
from firelane.scenario.overrides import load_exchange

REGISTRY = "memory://two-sites"
KNOWN_S = 1.0  # after which other sites know of a new subscription


@asynccontextmanager
async def broker(role: Role, name: str, folder: Path) -> AsyncIterator[str]:
    """An edge or a router, until the block ends; where clients reach it."""
    scenario = load_exchange(None, ["exchange.anonymous=always"], defaults=ROUTER if role == "router" else {})
    joins = Joining(role=role, registry=REGISTRY, name=name)
    async with (
        running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=folder / name, tell=print) as exchange,
        joining(exchange, joins, scenario.exchange.overlay, lambda line: print(f"  [{name}] {line}")),
    ):
        yield exchange.addresses["mqtt"]


async def main() -> None:
    """What Berlin publishes arrives in Paris, through one router and then through the other."""
    arrived: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
    with TemporaryDirectory() as folder:
        async with (
            broker("router", "r1", Path(folder)),
            broker("edge", "berlin", Path(folder)) as berlin,
            broker("edge", "paris", Path(folder)) as paris,
            Client(berlin) as sensor,
            Client(paris) as commander,
        ):
            await commander.subscribe("+/smoke", lambda topic, payload: arrived.put_nowait((topic, payload)), qos=1)
            async with broker("router", "r2", Path(folder)):
                await asyncio.sleep(KNOWN_S)
                await sensor.publish("berlin/smoke", b"0.1 % a metre", qos=1)
                print("Paris got", *await arrived.get())
            await sensor.publish("berlin/smoke", b"4.0 % a metre, and r2 is gone", qos=1)
            print("Paris got", *await arrived.get())


if __name__ == "__main__":
    asyncio.run(main())
