"""What an edge keeps for others in memory is bounded by bytes; beyond it messages wait in its exchange, and its log."""

from __future__ import annotations

import asyncio

from sites import sites, until

from firelane.overlay.messages import sending
from firelane.overlay.registry import Registry, Wish, parse_registry

MOST_BYTES, SIZE_BYTES = 100_000, 10_000  # 256 MB; what has come to the overlay before it says that it is full is small
MESSAGES, PLAIN = 200, 20
NUMBER = slice(0, 4)


def numbered(n):
    return b"%04d" % n + bytes(SIZE_BYTES - 4)


def test_large_messages_that_an_edge_lacks_wait_where_they_were_published_and_come_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "MOST_KEPT_BYTES", MOST_BYTES)

    async def main():
        heard, plain = [], []
        async with (
            asyncio.timeout(60),
            sites(tmp_path, routers=("r1",)) as here,
            here.client("a") as ann,
            here.client("b") as ben,
            Registry(parse_registry(here.registry)) as registry,
        ):
            edge = here.brokers["a"]
            await ben.subscribe("t", lambda topic, payload: heard.append(int(payload[NUMBER])), qos=1)
            await ben.subscribe("u", lambda topic, payload: plain.append(payload))
            registry.announce_edge("c", 77, None)  # it is there, and acknowledges nothing
            registry.want({"t": Wish(qos=2, keeps=True)})
            await until(lambda: len(edge._interest.of("t")) == 2 and edge._interest.of("u"))
            for n in range(MESSAGES):
                await ann.publish("t", numbered(n), qos=1)  # each is acknowledged
                await bounded(edge)
            for _ in range(PLAIN):
                await ann.publish("u", b"plain")
            await until(lambda: len(plain) == PLAIN)
            assert MOST_BYTES < edge._sending._keeping.kept_bytes <= MOST_BYTES + SIZE_BYTES
            assert heard == list(range(MOST_BYTES // SIZE_BYTES + 1))
            registry.want({})
            await until(lambda: len(heard) == MESSAGES, 30.0)
            await until(lambda: edge.statistics()["kept"] == 0)
            assert edge.statistics()["dropped"] == {}
        assert heard == list(range(MESSAGES))

    asyncio.run(main())


async def bounded(edge):
    await asyncio.sleep(0)
    assert edge._sending._keeping.kept_bytes <= MOST_BYTES + SIZE_BYTES
