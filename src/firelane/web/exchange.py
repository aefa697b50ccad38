"""The running exchange as endpoints see it. They share its event loop: between two awaits nothing changes."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, cast

from fastapi import Depends, Request

from firelane.exchange.lanes.lane import Dropped
from firelane.exchange.lanes.message import NEVER
from firelane.exchange.run import Exchange
from firelane.web.problems import refusal

COMMIT_WITHIN_S = 5.0
LOOK_EVERY_S = 0.005
_REASONS = [reason.name.lower() for reason in Dropped]


async def _exchange(request: Request) -> Exchange:
    return cast(Exchange, request.app.state.exchange)


Live = Annotated[Exchange, Depends(_exchange)]


async def settle(exchange: Exchange) -> None:
    """Let the exchange act on a change, and wait until the log has it: what was answered survives a crash."""
    exchange.server.settle()
    journal, loop = exchange.broker.journal, asyncio.get_running_loop()
    position, patience = journal.appended, loop.time() + COMMIT_WITHIN_S
    while journal.committed < position:
        if exchange.log.failed or loop.time() > patience:
            why = exchange.log.failed or "the disk is slow"
            raise refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"done, but a crash may undo it: not in the log yet ({why})")
        await asyncio.sleep(LOOK_EVERY_S)


def wall(moment: float) -> datetime | None:
    """A time of the exchange's clock on the wall clock, to the millisecond; None is never."""
    if moment == NEVER:
        return None
    seconds = time.time() + moment - time.monotonic()
    return datetime.fromtimestamp(round(seconds, 3), UTC)


def finite(seconds: float) -> float | None:
    """A duration; None is for ever, for which JSON has no number."""
    return None if seconds == NEVER else seconds


def by_reason(dropped: list[int]) -> dict[str, int]:
    """Counts of dropped deliveries with the names of their reasons."""
    return dict(zip(_REASONS, dropped, strict=True))
