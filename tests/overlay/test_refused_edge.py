"""An edge that has registered and that no router lets in: others hear of each other all the same."""

from __future__ import annotations

import asyncio
from functools import partial

from sites import sites, until

from firelane.overlay.local import local
from firelane.overlay.messages import keeping, sending
from firelane.overlay.registry import Registry, Wish, parse_registry

MOST_KEPT, WINDOW, SILENCE_S = 40, 60, 2.0  # 50 000, 65 535 and 30 s: as many as are kept, under way, and how long
RELIABLE, PLAIN = 200, 20


def test_an_edge_that_no_router_lets_in_stops_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "MOST_KEPT", MOST_KEPT)
    monkeypatch.setattr(keeping, "LONGEST_SILENCE_S", SILENCE_S)
    inside = local.Inside
    monkeypatch.setattr(local, "Inside", lambda *given, window, **named: inside(*given, window=WINDOW, **named))

    async def main():
        heard = []
        async with (
            asyncio.timeout(60),
            sites(tmp_path, routers=("r1",)) as here,
            here.client("a") as ann,
            here.client("b") as ben,
            Registry(parse_registry(here.registry)) as registry,
        ):
            a = here.brokers["a"]
            await ben.subscribe("t", lambda topic, payload: heard.append(payload), qos=1)
            registry.announce_edge("c", 77, None)
            registry.want({"t": Wish(qos=1, keeps=True)})
            await until(partial(wanted_by_two, a))
            for n in range(RELIABLE):
                await ann.publish("t", b"%d" % n, qos=1)
            for _ in range(PLAIN):
                await ann.publish("t", b"plain", qos=0)
            await until(lambda: len(heard) == RELIABLE + PLAIN, 20.0)
            await until(lambda: a.statistics()["kept"] == MOST_KEPT)
            assert a.statistics()["dropped"] == {"edge away for too long": RELIABLE - MOST_KEPT}
        assert [one for one in heard if one != b"plain"] == [b"%d" % n for n in range(RELIABLE)]

    asyncio.run(main())


def wanted_by_two(edge):
    return len(edge._interest.of("t")) == 2
