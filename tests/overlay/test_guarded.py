"""Brokers that encrypt and ask who is there: a node without good credentials is refused."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import trustme
from sites import until

from firelane.client import Client
from firelane.exchange.clients.access import hashed
from firelane.exchange.run import running
from firelane.overlay.joining import Joining, joining
from firelane.scenario.load import from_data

SECRET = "a long word"


class Guarded:
    """A router that only lets known edges in, over TLS, and edges that are started with other settings each."""

    def __init__(self, folder):
        self.folder, self.lines, self.addresses, self.brokers = folder, [], {}, {}
        authority = trustme.CA()
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "router.pem")
        authority.cert_pem.write_to_path(folder / "ca.pem")
        trustme.CA().cert_pem.write_to_path(folder / "other.pem")
        self._stack = AsyncExitStack()

    async def __aenter__(self):
        pem = str(self.folder / "router.pem")
        users = {name: {"password": hashed(SECRET.encode())} for name in ("a", "b")}
        await self.start("router", "r", anonymous="never", users=users, tls={"port": 0, "certificate": pem, "key": pem})
        return self

    async def __aexit__(self, *problem):
        await self._stack.aclose()

    async def start(self, role, name, **settings):
        data = {"name": name, "exchange": {"anonymous": "always", "system_interval": 0, **settings}}
        scenario = from_data(data)
        served = await self._stack.enter_async_context(
            running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=self.folder / name, tell=self.lines.append)
        )
        how = Joining(role=role, registry=f"memory://{self.folder.name}", name=name)
        self.brokers[name] = await self._stack.enter_async_context(
            joining(served, how, scenario.exchange.overlay, self.lines.append)
        )
        self.addresses[name] = served.addresses["mqtt"]

    def shown(self, name, **changed):
        return {"user": name, "password": SECRET, "tls": True, "ca": str(self.folder / "ca.pem")} | changed


def run(folder, main):
    async def limited():
        async with asyncio.timeout(40), Guarded(folder) as here:
            await main(here)

    asyncio.run(limited())


def test_edges_with_good_credentials_exchange_messages_over_tls(tmp_path):
    async def main(here):
        heard = []
        for name in ("a", "b"):
            await here.start("edge", name, overlay=here.shown(name))
        async with Client(here.addresses["b"]) as ben, Client(here.addresses["a"]) as ann:
            await ben.subscribe("t", lambda topic, payload: heard.append(payload), qos=1)
            await until(lambda: here.brokers["a"]._interest.of("t"))
            for n in range(20):
                await ann.publish("t", b"%d" % n, qos=1)
            await until(lambda: len(heard) == 20)
        assert heard == [b"%d" % n for n in range(20)]

    run(tmp_path, main)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"password": "another"}, "refuses this edge"),
        ({"user": "mallory"}, "refuses this edge"),
        ({"ca": "other.pem"}, "certificate"),
        ({"tls": False, "ca": None}, "trying again"),
    ],
    ids=["password", "user", "authority", "plain"],
)
def test_an_edge_that_cannot_show_who_it_is_stays_outside(tmp_path, wrong, said):
    async def main(here):
        overlay = here.shown("a", **wrong)
        if wrong.get("ca"):
            overlay["ca"] = str(tmp_path / wrong["ca"])
        await here.start("edge", "a", overlay={name: value for name, value in overlay.items() if value is not None})
        await until(lambda: any("router r" in line and said in line for line in here.lines))
        assert here.brokers["a"].statistics()["routers"] == {"r": False}
        assert not any("connected" in line for line in here.lines)

    run(tmp_path, main)
