"""What subscriptions need, and the links they are on; with what endpoints about planning have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, cast

from fastapi import APIRouter, Depends, Query, Request
from pydantic import ConfigDict

from firelane.control import Control
from firelane.control.learn import shown
from firelane.errors import FirelaneError
from firelane.exchange.lanes.link import KnownBy
from firelane.exchange.measuring.observed import Observed, SeenSubscription
from firelane.metrics import Metrics
from firelane.scenario.fields import STRICT
from firelane.scenario.model import Link, Need
from firelane.scenario.plan import Plan
from firelane.web.access import needs
from firelane.web.pages import Page, Paging, page
from firelane.web.problems import refusal

router = APIRouter(prefix="/api/v1")


async def _control(request: Request) -> Control:
    return cast(Control, request.app.state.control)


Controlled = Annotated[Control, Depends(_control)]


class OfSubscription(Paging):
    """A list that may be narrowed to one subscriber, or one filter as it was written."""

    subscriber: str | None = None
    filter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What a subscription needs; `best_class` is the best that its client may have, 0 without a cap."""

    subscriber: str
    filter: str
    need: Need
    best_class: int
    qos: int
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNeed:
    """What a subscription shall need from now on; null: what it said itself, or its scenario."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    subscriber: str
    filter: str
    need: Need | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The phase that was declared, if any, and those that there are (`exchange.phases`)."""

    phase: str | None
    phases: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPhase:
    """The phase to declare; null: none."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    phase: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """A link and who is on it; the loads are the highest if everybody has their own (`each`)."""

    name: str
    bandwidth_bps: float | None
    known_bps: float | None
    known_by: KnownBy
    paced_bps: float | None
    buffer_messages: int | None
    propagation_s: float
    loss: float
    each: bool
    subscribers: int
    subscriptions: int
    load: float | None
    planned_load: float | None


@router.get("/needs", dependencies=needs("read"))
async def list_needs(control: Controlled, wanted: Annotated[OfSubscription, Query()]) -> Page[Needed]:
    """What every subscription needs, as it was granted."""
    return page(_matching(control.observed(), wanted), wanted, _needed)


@router.put("/needs", dependencies=needs("operate"), status_code=HTTPStatus.NO_CONTENT)
async def set_need(control: Controlled, new: NewNeed) -> None:
    """Say what a subscription needs, whatever it said itself; the plan follows."""
    wanted = OfSubscription(subscriber=new.subscriber, filter=new.filter)
    if next(_matching(control.observed(), wanted), None) is None:
        raise refusal(HTTPStatus.NOT_FOUND, f"{new.subscriber!r} does not subscribe to {new.filter!r}")
    with refused(HTTPStatus.UNPROCESSABLE_ENTITY):
        control.exchange.override_need(new.subscriber, new.filter, new.need)
    control.look_soon()


@router.get("/phase", dependencies=needs("read"))
async def show_phase(control: Controlled) -> Phase:
    """The phase that was declared, and those that may be."""
    return Phase(phase=control.exchange.phase, phases=control.exchange.phases)


@router.post("/phase", dependencies=needs("operate"))
async def declare_phase(control: Controlled, new: NewPhase) -> Phase:
    """Declare a phase, or with null that there is none; what subscriptions need changes at once, the plan follows."""
    with refused(HTTPStatus.UNPROCESSABLE_ENTITY):
        control.exchange.enter(new.phase)
    control.look_soon()
    return Phase(phase=control.exchange.phase, phases=control.exchange.phases)


@router.get("/links", dependencies=needs("read"))
async def list_links(control: Controlled, wanted: Annotated[Paging, Query()]) -> Page[LinkState]:
    """The links that subscribers are on."""
    observed, plan, reading = control.observed(), control.exchange.plan, control.exchange.read()
    return await asyncio.to_thread(lambda: page(_links(observed, plan, reading.metrics()), wanted, lambda one: one))


@contextmanager
def refused(status: HTTPStatus) -> Iterator[None]:
    """Where what is wrong is the request's fault, or its time's."""
    try:
        yield
    except FirelaneError as problem:
        raise refusal(status, shown(str(problem))) from None


def _matching(observed: Observed, wanted: OfSubscription) -> Iterator[SeenSubscription]:
    for one in observed.subscriptions:
        if wanted.subscriber in (None, one.subscriber) and wanted.filter in (None, one.filter):
            yield one


def _needed(seen: SeenSubscription) -> Needed:
    return Needed(
        subscriber=seen.subscriber,
        filter=seen.filter,
        need=seen.need,
        best_class=seen.best_class,
        qos=seen.qos,
        link=seen.link,
    )


def _links(observed: Observed, plan: Plan | None, metrics: Metrics) -> Iterator[LinkState]:
    measured = {name: one.load for name, one in metrics.links.items()}
    planned = {} if plan is None else plan.promised.get("loads")
    for name, link in observed.links.items():
        here = [one for one in observed.subscriptions if one.link == name]
        seen = observed.bandwidths.get(name)
        known_bps = link.bandwidth_bps if seen is None else seen.known_bps
        yield LinkState(
            name=name,
            bandwidth_bps=link.bandwidth_bps if seen is None else seen.configured_bps,
            known_bps=known_bps,
            known_by="configured" if seen is None else seen.known_by,
            paced_bps=None if known_bps is None else link.pace * known_bps,
            buffer_messages=link.buffer_messages,
            propagation_s=link.propagation_s,
            loss=link.loss,
            each=link.each,
            subscribers=len({one.subscriber for one in here}),
            subscriptions=len(here),
            load=_highest(measured, name, link),
            planned_load=_highest(planned, name, link),
        )


def _highest(loads: Any, name: str, link: Link) -> float | None:
    """The load of a link, or the highest among its subscribers' own ones; None if it is not known.

    A plan that somebody brought may promise anything, or nothing.
    """
    found = [
        float(load)
        for lane, load in (loads.items() if isinstance(loads, dict) else ())
        if (lane == name or (link.each and lane.startswith(f"{name}:"))) and isinstance(load, (int, float))
    ]
    return max(found, default=None)
