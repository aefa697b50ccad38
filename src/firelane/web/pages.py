"""Long lists in pages: `limit` items from `offset` on, and where the next page begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

AT_A_TIME = 1000

T = TypeVar("T")
Found = TypeVar("Found")


class Paging(BaseModel):
    """The part of a list that is asked for; parameters that are not known are refused."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    offset: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some items of a list; `next_offset` is null on the last page."""

    items: list[T]
    next_offset: int | None


def page(found: Iterable[Found], paging: Paging, show: Callable[[Found], T]) -> Page[T]:
    """The page of what is found; looks no further than one item beyond it."""
    return page_from_here(islice(found, paging.offset, None), paging, show)


def page_from_here(found: Iterable[Found], paging: Paging, show: Callable[[Found], T]) -> Page[T]:
    """The same when the items before it have been skipped."""
    chosen = list(islice(found, paging.limit + 1))
    more = len(chosen) > paging.limit
    items = [show(one) for one in chosen[: paging.limit]]
    return Page(items=items, next_offset=paging.offset + paging.limit if more else None)


async def skip(found: Iterator[Found], count: int) -> None:
    """Pass over the first of what may change meanwhile, with a pause now and then for the exchange."""
    while count > 0:
        step = min(count, AT_A_TIME)
        if sum(1 for _ in islice(found, step)) < step:
            return
        count -= step
        await asyncio.sleep(0)
