"""The plan in force and how to change it; what is measured, and what would be.

What takes long is done in a thread, one thing at a time, so that nobody's messages wait for somebody's question.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

import numpy as np
import pyarrow.compute as pc
from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from firelane.control import Decision, learnt
from firelane.control.learn import shown, single
from firelane.control.merge import merged
from firelane.control.network import bounded_routes
from firelane.control.what_if import changes, foreseen, in_force
from firelane.errors import PlanError
from firelane.metrics import Metrics
from firelane.scenario.plan import Plan, plan_from_data
from firelane.web.access import needs
from firelane.web.lanes import Controlled, OfSubscription, refused

MOST_CHANGES = 100  # shown of those that a plan makes
MOST_VERSION = 2**53  # so that there is room for newer ones, in JSON too

router = APIRouter(prefix="/api/v1")


class Applying(BaseModel):
    """Whether a plan is only shown."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = False


@router.get("/plan", dependencies=needs("read"))
async def show_plan(control: Controlled) -> Response:
    """The plan in force; version 0 if there is none."""
    plan = control.exchange.plan or _no_plan()
    return await _json(plan.to_data)


@router.post("/plan", dependencies=needs("read"))
async def make_plan(
    request: Request,
    control: Controlled,
    wanted: Annotated[Applying, Query()],
    document: Annotated[dict[str, Any] | None, Body()] = None,
) -> Response:
    """Make a plan for what is live, or take the one given, and apply it unless it is a dry run."""
    if not wanted.dry_run:
        await request.app.state.access.require(request, "operate")
    before = control.exchange.plan
    plan = None
    async with request.app.state.calculating:
        if document is not None:
            with refused(HTTPStatus.UNPROCESSABLE_ENTITY):
                plan = await asyncio.to_thread(_given, {"version": control.next_version, **document})
        with refused(HTTPStatus.CONFLICT):
            if wanted.dry_run:
                decision = await control.decide(control.observed(), plan)
            else:
                decision = await control.apply(plan)
            return await _json(lambda: _decided(decision, before, applied=not wanted.dry_run))


@router.post("/predict", dependencies=needs("read"))
async def foresee(
    request: Request,
    control: Controlled,
    wanted: Annotated[OfSubscription, Query()],
    partial: Annotated[dict[str, Any] | None, Body()] = None,
) -> Response:
    """What the plan in force would do if some of what is live were otherwise."""
    observed, plan = control.observed(), control.exchange.plan
    scenario, listened_s = control.scenario, control.listened_s

    def predicted() -> dict[str, Any]:
        network = bounded_routes(merged(learnt(observed, scenario, listened_s=listened_s), partial or {}))
        return _measured(foreseen(network, in_force(plan, network)), wanted)

    async with request.app.state.calculating:
        with refused(HTTPStatus.UNPROCESSABLE_ENTITY):
            return await _json(predicted)


@router.get("/metrics", dependencies=needs("read"))
async def show_metrics(control: Controlled, wanted: Annotated[OfSubscription, Query()]) -> Response:
    """What is measured: links, classes, utility, and a page of subscriptions."""
    reading = control.exchange.read()
    return await _json(lambda: _measured(reading.metrics(), wanted))


async def _json(make: Callable[[], Any]) -> Response:
    """An answer that is put together in a thread."""

    def content() -> bytes:
        return json.dumps(make(), allow_nan=False, default=datetime.isoformat).encode()

    return Response(await asyncio.to_thread(content), media_type="application/json")


def _given(document: dict[str, Any]) -> Plan:
    """The plan that somebody brings, if it can be shown again as JSON."""
    try:
        json.dumps(document, allow_nan=False)
    except ValueError:
        raise PlanError("this plan has numbers that JSON has not: NaN or infinity") from None
    plan = plan_from_data(document)
    if plan.version > MOST_VERSION:
        raise PlanError(f"version: {plan.version} leaves no room for newer plans; stay below {MOST_VERSION}")
    return plan


def _no_plan() -> Plan:
    nothing, none = np.empty(0, np.int64), np.empty(0)
    return Plan(
        version=0,
        flow_id=nothing,
        flow_subscriber=[],
        flow_priority=nothing,
        flow_drop_rate=none,
        subscriber=[],
        filter=[],
        subscription_flow=nothing,
        delta=[],
        why=("there is no plan: everything is in the lowest class, and nothing is dropped on purpose",),
    )


def _decided(decision: Decision, before: Plan | None, *, applied: bool) -> dict[str, Any]:
    network = decision.routes
    earlier = in_force(before, network)
    changed, largest = changes(decision, earlier, MOST_CHANGES)
    return {
        "applied": applied,
        "plan": decision.plan.to_data(),
        "predicted": _predicted(foreseen(network, decision.plan)),
        "predicted_before": _predicted(foreseen(network, earlier)),
        "changed": changed,
        "changes": [asdict(one) for one in largest],
    }


def _predicted(metrics: Metrics) -> dict[str, Any]:
    data = metrics.to_data()
    return data | {"links": {shown(name): one for name, one in data["links"].items()}}


def _measured(metrics: Metrics, wanted: OfSubscription) -> dict[str, Any]:
    """Metrics as a document, with one page of their table."""
    table = metrics.table
    for name in ("subscriber", "filter"):
        if (value := getattr(wanted, name)) is not None:
            table = table.filter(pc.equal(table[name], value))
    rows = table.slice(wanted.offset, wanted.limit).to_pylist()
    return _predicted(metrics) | {
        "subscriptions": [row | {"subscriber": single(row["subscriber"])} for row in rows],
        "next_offset": wanted.offset + wanted.limit if table.num_rows > wanted.offset + wanted.limit else None,
    }
