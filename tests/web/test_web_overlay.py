"""What an exchange that has joined others says and does over HTTP."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest

from firelane.overlay.registry import Registry, parse_registry
from firelane.web.app import make_app
from overlay.sites import Sites, until


@asynccontextmanager
async def room(folder, **members):
    """Brokers by name, and a registry beside them; ask with `asked`."""
    here = Sites(folder, f"memory://{folder.name}")
    async with asyncio.timeout(60), Registry(parse_registry(here.registry)) as onlooker:
        try:
            for name, kind in members.items():
                await here.start(kind, name)
            yield here, onlooker
        finally:
            await here.close()


async def asked(here, broker, path, method="GET", **parameters):
    app = make_app(here.exchanges[broker], joined=here.brokers.get(broker))
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://firelane.example") as client:
        return await client.request(method, f"/api/v1/{path}", params=parameters)


def test_the_router_that_leads_says_what_it_does_next_and_another_what_it_would_do(tmp_path):
    """Four of equal load are on r1, as it was alone; r2 has joined, so two are to go there: the plan is even."""

    async def story():
        async with room(tmp_path, r1="router") as (here, west), Registry(parse_registry(here.registry)) as east:
            topics = dict.fromkeys("abcd", 1)
            west.announce_edge("west", 1)
            east.announce_edge("east", 2)
            west.endpoints(topics, {}, dict.fromkeys(topics, 2.0))
            east.endpoints({}, topics)
            await until(lambda: here.brokers["r1"].statistics()["assigned"] == 4)
            await here.start("router", "r2")
            await until(lambda: here.brokers["r1"].statistics()["routers"] == 2)
            assert (here.brokers["r1"].leads, here.brokers["r2"].leads) == (True, False)
            for name in ("r1", "r2"):
                answer = await asked(here, name, "overlay/plan")
                assert answer.status_code == 200, answer.text
                plan = answer.json()
                assert sorted(plan["placement"].values()) == ["r1", "r1", "r2", "r2"]
                assert plan["promised"]["before"] == {"r1": 8.0, "r2": 0.0}
                assert plan["promised"]["after"] == {"r1": 4.0, "r2": 4.0}
                assert [(one["from"], one["to"]) for one in plan["promised"]["moves"]] == 2 * [("r1", "r2")]
                assert plan["why"][0].startswith("2 moves: ")
            assert here.brokers["r1"].statistics()["moves"] == 0

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["edge", None])
def test_who_is_no_router_has_no_plan_of_moves(tmp_path, kind):
    async def story():
        async with room(tmp_path, a="edge") as (here, _):
            if kind is None:
                del here.brokers["a"]
            answer = await asked(here, "a", "overlay/plan")
            assert answer.status_code == 409
            assert answer.headers["content-type"] == "application/problem+json"
            assert "is no router" in answer.json()["detail"]

    asyncio.run(story())


def test_a_router_that_cannot_ask_the_registry_says_so(tmp_path):
    async def story():
        async with room(tmp_path, r1="router") as (here, _):
            await until(lambda: here.brokers["r1"].leads)
            await here.start("router", "r2")
            here.brokers["r2"].registry.tree.suspend()
            answer = await asked(here, "r2", "overlay/plan")
            assert answer.status_code == 503
            assert "suspended" in answer.json()["detail"]
            here.brokers["r2"].registry.tree.resume()

    asyncio.run(story())


def test_an_edge_that_will_not_come_back_is_forgotten_over_rest_and_others_are_not(tmp_path):
    async def story():
        async with room(tmp_path, a="edge") as (here, onlooker):
            async with Registry(parse_registry(here.registry)) as gone:
                gone.announce_edge("b", 1)
                await gone.settled()

            async def forget(name):
                answer = await asked(here, "a", "overlay/edges", "DELETE", name=name)
                return answer.status_code, answer.json()["detail"] if answer.content else None

            assert await forget("b") == (204, None)
            assert set((await onlooker.status()).edges) == {"a"}
            assert await forget("b") == (404, "no edge b is known; `firelane overlay status` shows those that are")
            assert await forget("a") == (
                409,
                "the edge a is connected (or was less than 8 s ago: try again); stop it first",
            )
            assert (await forget(""))[0] == 409
            here.brokers["a"].registry.tree.suspend()
            status, detail = await forget("c")
            assert (status, "suspended" in detail) == (503, True)
            here.brokers["a"].registry.tree.resume()
            here.brokers.pop("a")
            status, detail = await forget("b")
            assert (status, "has not joined" in detail) == (409, True)

    asyncio.run(story())
