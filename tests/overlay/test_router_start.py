"""A router that has just started."""

import asyncio
import threading
from time import monotonic

from sites import sites, until

from firelane.overlay import router

PATIENCE_S = 5.0


def test_messages_are_passed_on_while_a_router_makes_ready_to_lead(tmp_path, monkeypatch):
    """Its machine code may take seconds, after two of which edges would take it for dead."""
    ready, asked = threading.Event(), []

    def slow(strategy):
        asked.append(strategy)
        ready.wait(PATIENCE_S)

    async def main():
        async with asyncio.timeout(60), sites(tmp_path, routers=("r1",)) as here:
            broker = here.exchanges["r1"].broker
            assert not ready.is_set()
            assert not here.brokers["r1"].statistics()["leads"]
            assert {"edge:a", "edge:b"} <= set(broker.sessions)
            ready.set()
            await until(lambda: here.brokers["r1"].statistics()["leads"])

    monkeypatch.setattr(router, "warm", slow)
    try:
        asyncio.run(main())
    finally:
        ready.set()
    assert asked == ["bounded-moves"]


def test_nobody_waits_for_machine_code_when_a_router_is_stopped(tmp_path, monkeypatch):
    begun, ready = threading.Event(), threading.Event()

    def slow(strategy):
        begun.set()
        ready.wait(PATIENCE_S)

    monkeypatch.setattr(router, "warm", slow)

    async def main():
        async with asyncio.timeout(60), sites(tmp_path, edges=(), routers=("r1",)):
            await until(begun.is_set)
            return monotonic()

    try:
        began = asyncio.run(main())
        assert monotonic() - began < PATIENCE_S / 2
    finally:
        ready.set()
