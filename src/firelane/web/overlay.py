"""The exchange's part in an overlay, and all that the registry knows of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

from fastapi import APIRouter, Depends, Request

from firelane.web.access import needs

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
