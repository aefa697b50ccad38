"""Has the exchange send no more on a link than it really carries, and grow again when it carries more."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from firelane.control.bandwidth import Bandwidth
from firelane.control.execution import described
from firelane.exchange.lanes.link import Link
from firelane.exchange.run import Exchange
from firelane.exchange.sockets.kernel import SeenKernel

LOOK_EVERY_S = 0.25
LOOK_HURRIED_S = 0.1  # while there may be a queue somewhere
LOOK_IDLE_S = 1.0  # where no link is paced
MOVED = 0.05  # less is not worth another plan
MOST_GROWING_S = 8.0  # until there is a plan for what is known by then


class Following:
    """One estimate for each link in use; `changed` is called when another plan is due, `tell` if something is wrong."""

    def __init__(
        self,
        exchange: Exchange,
        changed: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._exchange = exchange
        self._changed = changed
        self._tell = tell
        self._said = ""
        self._links: dict[Link, Bandwidth] = {}

    async def run(self) -> None:
        """Follow until cancelled; an exchange goes on with the pace it has, whatever goes wrong here."""
        while True:
            hurried = any(one.hurried for one in self._links.values())
            await asyncio.sleep(LOOK_HURRIED_S if hurried else LOOK_EVERY_S if self._links else LOOK_IDLE_S)
            try:
                self.look(time.monotonic())
            except Exception as bug:
                self._complain(described(bug))

    def look(self, now: float) -> None:
        """Look at what the kernel says of every link, and act on it."""
        looks = self._exchange.seen_kernel(now)
        measured = self._exchange.broker.settings.bandwidth == "measured"
        before, self._links = self._links, {link: self._links.get(link) or _begun(link) for link, _ in looks}
        for link in before.keys() - self._links.keys():  # nobody is on it, or too many others are to be looked at
            self._exchange.repace(link, link.described.pace * link.bandwidth_bps, probing=False)
        for link, seen in looks:
            if measured:
                self._follow(link, seen, now)
            elif link.narrow:
                self._forget(link)

    def _complain(self, problem: str) -> None:
        if problem != self._said:
            self._said = problem
            traceback.print_exc()
            self._tell(f"links are not followed: {problem}")

    def _follow(self, link: Link, seen: SeenKernel, now: float) -> None:
        estimate = self._links[link]
        before_bps = estimate.pace_bps
        estimate.look(now, seen)
        if estimate.pace_bps != before_bps or estimate.probing != link.probing:
            self._exchange.repace(link, estimate.pace_bps, probing=estimate.probing)
        moved = abs(estimate.bandwidth_bps - link.bandwidth_bps) > MOVED * link.bandwidth_bps
        whole = estimate.bandwidth_bps == estimate.configured_bps != link.bandwidth_bps
        # While it grows, the plan before drops what the next probe can send: so it grows sooner, and needs one plan.
        growing = estimate.growing_since is not None and now < estimate.growing_since + MOST_GROWING_S
        if whole or (moved and not estimate.probing and not growing):
            self._exchange.know_bandwidth(link, estimate.bandwidth_bps, estimate.known_by)
            self._changed()

    def _forget(self, link: Link) -> None:
        """Go back to what is configured, as that is what counts."""
        assert link.described.bandwidth_bps is not None
        self._links[link] = estimate = Bandwidth(link.described.bandwidth_bps, link.described.pace)
        self._exchange.repace(link, estimate.pace_bps, probing=False)
        self._exchange.know_bandwidth(link, estimate.bandwidth_bps, "configured")
        self._changed()


def _begun(link: Link) -> Bandwidth:
    assert link.described.bandwidth_bps is not None
    return Bandwidth(link.described.bandwidth_bps, link.described.pace, known_bps=link.bandwidth_bps)


@asynccontextmanager
async def following(
    exchange: Exchange, changed: Callable[[], None], *, tell: Callable[[str], None] = lambda line: None
) -> AsyncIterator[Following]:
    """Follow the links of a running exchange, until the block ends."""
    following = Following(exchange, changed, tell)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(following.run())
        try:
            yield following
        finally:
            task.cancel()
