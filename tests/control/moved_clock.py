"""A control loop on a clock that the test moves."""

from __future__ import annotations

import asyncio
from functools import wraps

from fake_exchange import FakeExchange, seen, topic, want
from firelane.control import Control

TOPICS = [topic("a", 20.0), topic("b", 5.0)]
WANTS = [want("s", "a"), want("s", "b")]


class Run:
    """A control loop whose steps come when it asked for them, in no time."""

    def __init__(self, exchange, scenario=None, **more):
        self.exchange = exchange
        self.now = 100.0
        self.lines = []
        self.control = Control(exchange, scenario, tell=self.lines.append, clock=lambda: self.now, **more)

    async def until(self, end):
        """Let time pass; says when plans were applied."""
        applied, again_at = [], self.now
        while again_at <= end:
            self.now = again_at
            before = len(self.exchange.applied)
            again_at = await self.control.step(self.now)
            applied += [round(self.now, 3)] * (len(self.exchange.applied) - before)
            assert again_at >= self.now
        self.now = end
        return applied


def in_loop(test):
    """Run a coroutine function as a test."""

    @wraps(test)
    def call(**fixtures):
        asyncio.run(test(**fixtures))

    return call


async def started(*wants, **more):
    """A run that has made its first plan and found nothing to do since."""
    run = Run(FakeExchange(seen(TOPICS, [*WANTS, *wants])), **more)
    assert await run.until(103.0) == [100.2]
    return run
