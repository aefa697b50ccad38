"""A router as a process of its own: campaigns, and assigns a topic to itself for each line on its standard input."""

from __future__ import annotations

import asyncio
import sys

from firelane.overlay.registry import Disconnected, Registry, StaleLeader, parse_registry


async def main(address: str, name: str) -> None:
    epochs = []

    def told(leads: bool, epoch: int) -> None:
        if leads:
            epochs.append(epoch)
        print("leads" if leads else "leads no more", epoch, flush=True)

    async with Registry(parse_registry(address, session_s=2), wait_s=30) as registry:
        registry.announce_router(name, 1, "127.0.0.1:1")
        registry.announce_edge(f"edge-of-{name}", 1)
        registry.endpoints({"a": 1}, {})
        await registry.settled()
        registry.campaign(told)
        while topic := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                done = await registry.assign({topic: name}, epochs[-1])
            except (StaleLeader, Disconnected) as problem:
                print(type(problem).__name__, flush=True)
            else:
                epochs.append(done.epoch)
                print("assigned", done.epoch, flush=True)


asyncio.run(main(*sys.argv[1:]))
