"""For those who watch over the exchange: is it alive, is it ready, and how is it doing?"""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from firelane.exchange.run import Exchange
from firelane.web.access import needs
from firelane.web.exchange import Live
from firelane.web.lanes import Controlled
from firelane.web.metrics import families, text
from firelane.web.problems import refusal

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter()


@router.get("/healthz", response_class=PlainTextResponse)
async def healthz() -> str:
    """Whether the process is alive."""
    return "alive\n"


@router.get("/readyz", response_class=PlainTextResponse)
async def readyz(exchange: Live) -> str:
    """Whether clients can connect and their messages be kept; 503 and why, if not."""
    if problem := _not_ready(exchange):
        raise refusal(HTTPStatus.SERVICE_UNAVAILABLE, problem)
    return "ready\n"


@router.get("/metrics", dependencies=needs("read"), response_class=PlainTextResponse)
async def metrics(exchange: Live, control: Controlled) -> PlainTextResponse:
    """Everything that is counted, for Prometheus."""
    return PlainTextResponse(text(families(exchange, control)), media_type=PROMETHEUS)


def _not_ready(exchange: Exchange) -> str | None:
    broker, log = exchange.broker, exchange.log
    if log.failed is not None:
        return f"the log cannot be written: {log.failed}"
    if broker.journal.refusing:
        return f"the log is full: {log.live_bytes} of {log.cap_bytes} bytes are in use"
    if len(broker.connections) >= broker.limits.connections:
        return f"{len(broker.connections)} connections are open, and no more are allowed"
    return None
