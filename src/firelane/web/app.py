"""The web side of a running exchange as an ASGI app: its endpoints, and what they have in common."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI

from firelane import __version__
from firelane.control import Control
from firelane.exchange.run import Exchange
from firelane.web import clients, decisions, lanes, monitoring, overlay, planning, problems, retained, streams
from firelane.web.access import ApiAccess
from firelane.web.guard import Guard
from firelane.web.overlay import Joined


def make_app(exchange: Exchange, control: Control | None = None, joined: Joined | None = None) -> FastAPI:
    """Everything that can be asked of an exchange over HTTP; it must run in the exchange's own event loop.

    Without a `control` that runs beside it, plans are made only when asked for. `joined` is its part in an overlay.

    FastAPI's documentation pages load scripts from elsewhere, so there is only the machine-readable description.
    """
    app = FastAPI(title="Firelane", version=__version__, docs_url=None, redoc_url=None, responses=problems.DOCUMENTED)
    app.state.exchange = exchange
    app.state.control = control or Control(exchange)
    app.state.joined = joined
    app.state.calculating = asyncio.Semaphore(1)  # what is asked for waits its turn; the control loop does not
    app.state.access = ApiAccess(exchange)
    problems.install(app)
    app.add_middleware(Guard)
    for module in (monitoring, clients, retained, lanes, planning, decisions, streams, overlay):
        app.include_router(module.router)
    return app
