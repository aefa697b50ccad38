"""What the control loop decided, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from firelane.control.cause import Kind
from firelane.control.decisions import Entry
from firelane.web.access import needs
from firelane.web.lanes import Controlled
from firelane.web.pages import Page, Paging, page

router = APIRouter(prefix="/api/v1")


class OfDecisions(Paging):
    """A list that may be narrowed to decisions of one kind, or from a time on."""

    kind: Kind | None = None
    since: datetime | None = None


@router.get("/decisions", dependencies=needs("read"))
async def list_decisions(control: Controlled, wanted: Annotated[OfDecisions, Query()]) -> Page[Entry]:
    """The last decisions, the newest first."""
    since = wanted.since
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    return page(control.decisions.newest_first(wanted.kind, since), wanted, lambda one: one)
