"""Streams of sensors that the exchange follows: what is offered, granted and asked for, and who gets them how."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query

from firelane.exchange.broker import Broker
from firelane.exchange.clients.session import Subscription
from firelane.exchange.sensors.stream import Stream
from firelane.mqtt.topics import matches
from firelane.web.access import needs
from firelane.web.exchange import Live
from firelane.web.pages import Page, page
from firelane.web.retained import OfTopics

MOST_FOLLOWERS = 100  # shown of each stream, so that a page of a thousand stays small

router = APIRouter(prefix="/api/v1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """A subscription to a stream; `own_stream` says whether it gets one made for it, `delta` what that keeps to."""

    client_id: str
    filter: str
    tolerance: float | None
    delta: float | None
    own_stream: bool
    suppressed: int
    mismatch: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """A stream: `delta` is the precision in force, `granted_tolerance` and `granted_load` were told its publisher."""

    topic: str
    client_id: str | None
    connected: bool
    kind: str
    type_name: str
    unit: str
    sensors: int
    known_sensors: int
    precision: float | None
    heartbeat_s: float
    silent_s: float | None
    delta: float | None
    granted_tolerance: float | None
    granted_load: float | None
    subscriber_count: int
    subscribers: list[Follower]
    messages: int
    updates: int
    missed: int
    unreadable: int
    suppressed: int


@router.get("/streams", dependencies=needs("read"))
async def list_streams(exchange: Live, wanted: Annotated[OfTopics, Query()]) -> Page[StreamState]:
    """Streams of sensors whose topic matches the filter."""
    broker, now = exchange.broker, time.monotonic()
    found = (one for one in broker.streams.followed.values() if matches(wanted.filter, one.topic))
    return page(found, wanted, lambda stream: _state(broker, stream, now))


def _state(broker: Broker, stream: Stream, now: float) -> StreamState:
    offer, grant = stream.offer, stream.grant
    owner = broker.sessions.get(stream.owner) if stream.owner is not None else None
    subscriptions = broker.routes.subscriptions(stream.topic)
    return StreamState(
        topic=stream.topic,
        client_id=stream.owner,
        connected=owner is not None and owner.connection is not None,
        kind=offer.kind,
        type_name=offer.type.name,
        unit=offer.type.unit,
        sensors=len(stream),
        known_sensors=int(stream.sure.sum()),
        precision=offer.precision,
        heartbeat_s=offer.heartbeat_s,
        silent_s=round(now - stream.heard_at, 3) if stream.messages else None,
        delta=None if offer.discrete else stream.delta,
        granted_tolerance=None if grant is None else grant.tolerance,
        granted_load=None if grant is None else grant.load,
        subscriber_count=len(subscriptions),
        subscribers=list(islice(_followers(stream, subscriptions), MOST_FOLLOWERS)),
        messages=stream.messages,
        updates=stream.updates,
        missed=stream.missed,
        unreadable=stream.unreadable,
        suppressed=stream.suppressed + sum(one.suppressed for one in stream.coarse.values()),
    )


def _followers(stream: Stream, subscriptions: list[Subscription]) -> Iterator[Follower]:
    for one in subscriptions:
        coarser = None if one.group else stream.coarse.get(one.session)
        told = stream.delta if coarser is None else max(coarser.recoding.bound, stream.delta)
        yield Follower(
            client_id=one.session.client_id,
            filter=one.filter,
            tolerance=one.lane.need.tolerance,
            delta=None if stream.offer.discrete else told,
            own_stream=coarser is not None,
            suppressed=0 if coarser is None else coarser.suppressed,
            mismatch=stream.mismatches.get((one.session.client_id, one.filter)),
        )
