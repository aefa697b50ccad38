"""Patience, and the two ends of a stream."""

import asyncio
import time
from contextlib import AsyncExitStack

from dds_domains import some_domain
from firelane.dds import DdsTransport, Network

PATIENCE_S = 20.0
QUICK = Network(lease_s=1.0)


def wait_until(true, *, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


async def until(true, *, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


async def met(publisher, stream, *subscriptions, writers=1) -> None:
    """Wait until both ends know of each other: until its own end does, a best-effort reader hears nothing."""
    assert await publisher.matched(stream, len(subscriptions), within_s=PATIENCE_S)
    await until(lambda: all(one.statistics().matched == writers for one in subscriptions))


class TwoEnds(AsyncExitStack):
    """A publisher's and a subscriber's transport at the two ends of a link, or on loopback."""

    def __init__(self, link=None, **options) -> None:
        super().__init__()
        self.link, self.options, self.domain = link, options, some_domain()

    async def __aenter__(self):
        await super().__aenter__()
        if self.link is None:
            return await self._made(QUICK), await self._made(QUICK)
        ends = []
        for side, other in ((self.link.near, self.link.far), (self.link.far, self.link.near)):
            with side.entered():
                network = Network(interface=side.device, peers=(other.address,))
                ends.append(await self._made(network))
        return tuple(ends)

    async def _made(self, network):
        return await self.enter_async_context(DdsTransport(self.domain, network, **self.options))
