"""The exchange's part in an overlay, and all that the registry knows of others."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

from fastapi import APIRouter, Depends, Request

from firelane.web.access import needs
from firelane.web.problems import refusal

if TYPE_CHECKING:
    from firelane.overlay.registry import Registry


class Joined(Protocol):
    """An exchange's part in an overlay, which most exchanges have not."""

    registry: Registry

    def statistics(self) -> dict[str, Any]:
        """What it knows, keeps and has seen."""
        ...


router = APIRouter(prefix="/api/v1")


async def _joined(request: Request) -> Joined | None:
    return cast(Joined | None, request.app.state.joined)


Part = Annotated[Joined | None, Depends(_joined)]


@router.get("/overlay", dependencies=needs("read"))
async def show_overlay(joined: Part) -> dict[str, Any]:
    """What this broker does in the overlay, and who else is there, as far as the registry can be asked."""
    if joined is None:
        return {"own": None, "registry": None}
    from firelane.overlay.registry.tree import RegistryError
    from firelane.overlay.showing import state_of

    try:
        known = state_of(await joined.registry.status())
    except RegistryError as problem:
        known = {"problem": str(problem)}
    return {"own": joined.statistics(), "registry": known}


@router.delete("/overlay/edges", dependencies=needs("operate"), status_code=HTTPStatus.NO_CONTENT)
async def forget_edge(joined: Part, name: str) -> None:
    """Forget an edge that is away and will not come back: others drop what they kept for it."""
    if joined is None:
        raise refusal(HTTPStatus.CONFLICT, "this exchange has not joined others, so it knows no edges")
    from firelane.overlay.registry import Disconnected, RegistryError, UnknownEdge

    try:
        await joined.registry.forget_edge(name)
    except UnknownEdge as problem:
        raise refusal(HTTPStatus.NOT_FOUND, str(problem)) from None
    except Disconnected as problem:
        raise refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(problem)) from None
    except RegistryError as problem:
        raise refusal(HTTPStatus.CONFLICT, str(problem)) from None


@router.get("/overlay/plan", dependencies=needs("read"))
async def show_next_moves(request: Request, joined: Part) -> dict[str, Any]:
    """What this router does next if it leads, or would do if it led now, and why; nothing is moved."""
    from firelane.overlay.registry.tree import RegistryError
    from firelane.overlay.router import RoutingBroker
    from firelane.overlay.showing import dry_run

    if not isinstance(joined, RoutingBroker):
        detail = "this exchange is no router, and only routers lead; ask one, or `firelane overlay plan`"
        raise refusal(HTTPStatus.CONFLICT, detail)
    if joined.leads:
        return joined.plan().to_data()
    try:
        status = await joined.registry.status()
    except RegistryError as problem:
        raise refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(problem)) from None
    async with request.app.state.calculating:
        plan = await asyncio.to_thread(dry_run, status, joined.leading)
    return plan.to_data()
