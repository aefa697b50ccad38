"""Clients, sessions and subscriptions: who is there, what they are owed, and an end to it if need be."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from firelane.exchange.broker import Broker
from firelane.exchange.clients.connection import Connection
from firelane.exchange.clients.session import Session
from firelane.exchange.clients.session import Subscription as Subscribed
from firelane.exchange.protocol.connecting import is_inside
from firelane.web.access import needs
from firelane.web.exchange import Live, by_reason, finite, settle, wall
from firelane.web.pages import Page, Paging, page
from firelane.web.problems import refusal

router = APIRouter(prefix="/api/v1")


class OfClient(Paging):
    """A list that may be narrowed to one client."""

    client_id: str | None = None


class OfClientAndFilter(OfClient):
    """And to one topic filter, as the client wrote it."""

    filter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A connected client. Deliveries are counted since its session began."""

    client_id: str
    user: str | None
    address: str
    protocol: str
    since: datetime | None
    keep_alive_s: float
    in_flight: int
    owed: int
    delivered: int
    dropped: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session; `expiry_s` is how long it outlives its connection (null: for ever), `expires_at` when it will end."""

    client_id: str
    user: str | None
    connected: bool
    expiry_s: float | None
    expires_at: datetime | None
    subscriptions: int
    in_flight: int
    owed: int
    delivered: int
    dropped: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A filter of a client, its lane and what came of it.

    `restricted` says that access rules keep some of its topics from it; `merged` counts messages that another filter of
    the same client carried.
    """

    client_id: str
    filter: str
    qos: int
    shared_group: str | None
    no_local: bool
    retain_as_published: bool
    identifier: int | None
    restricted: bool
    priority: int
    drop_rate: float
    link: str | None
    due: int
    delivered: int
    dropped: dict[str, int]
    merged: int
    owed: int


@router.get("/clients", dependencies=needs("read"))
async def list_clients(exchange: Live, wanted: Annotated[OfClient, Query()]) -> Page[Client]:
    """Connected clients, longest connected first."""
    exchange.broker.measure()
    return page(_connected(exchange.broker, wanted.client_id), wanted, _client)


@router.delete("/clients", dependencies=needs("operate"), status_code=HTTPStatus.NO_CONTENT)
async def disconnect_client(exchange: Live, client_id: str) -> None:
    """Close a client's connection. It may come back, and finds its session if that outlives connections."""
    _refuse_inside(client_id)
    if not exchange.broker.kick(client_id, time.monotonic()):
        raise refusal(HTTPStatus.NOT_FOUND, f"no client {client_id!r} is connected")
    await settle(exchange)


@router.get("/sessions", dependencies=needs("read"))
async def list_sessions(exchange: Live, wanted: Annotated[OfClient, Query()]) -> Page[SessionState]:
    """All sessions, of connected clients and of those that are away."""
    exchange.broker.measure()
    return page(_sessions(exchange.broker, wanted.client_id), wanted, _session)


@router.delete("/sessions", dependencies=needs("operate"), status_code=HTTPStatus.NO_CONTENT)
async def end_session(exchange: Live, client_id: str) -> None:
    """End a session for good: connection, subscriptions and everything it is owed."""
    _refuse_inside(client_id)
    if not exchange.broker.end_session(client_id, time.monotonic()):
        raise refusal(HTTPStatus.NOT_FOUND, f"client {client_id!r} has no session")
    await settle(exchange)


def _refuse_inside(client_id: str) -> None:
    """Parts of the exchange are no clients of its users: what is kept for other sites would be lost."""
    if is_inside(client_id):
        raise refusal(HTTPStatus.CONFLICT, f"{client_id!r} is a part of the exchange itself and stays connected")


@router.get("/subscriptions", dependencies=needs("read"))
async def list_subscriptions(exchange: Live, wanted: Annotated[OfClientAndFilter, Query()]) -> Page[Subscription]:
    """Subscriptions, session by session."""
    exchange.broker.measure()
    return page(_subscriptions(exchange.broker, wanted), wanted, _subscription)


def _connected(broker: Broker, client_id: str | None) -> Iterator[tuple[Connection, Session]]:
    connections: Iterable[Connection] = broker.connections
    if client_id is not None:
        connections = [one.connection for one in _sessions(broker, client_id) if one.connection is not None]
    for connection in connections:
        session = connection.session
        if session is not None and session.connection is connection:
            yield connection, session


def _sessions(broker: Broker, client_id: str | None) -> Iterator[Session]:
    if client_id is None:
        return iter(broker.sessions.values())
    session = broker.sessions.get(client_id)
    return iter(() if session is None else (session,))


def _subscriptions(broker: Broker, wanted: OfClientAndFilter) -> Iterator[Subscribed]:
    for session in _sessions(broker, wanted.client_id):
        if wanted.filter is None:
            yield from session.subscriptions.values()
        elif wanted.filter in session.subscriptions:
            yield session.subscriptions[wanted.filter]


def _client(found: tuple[Connection, Session]) -> Client:
    connection, session = found
    totals = session.totals
    return Client(
        client_id=session.client_id,
        user=session.identity.user,
        address=connection.address,
        protocol=connection.protocol,
        since=wall(connection.opened_at),
        keep_alive_s=connection.keep_alive_s,
        in_flight=len(session.in_flight),
        owed=session.owed,
        delivered=totals.delivered,
        dropped=by_reason(totals.dropped),
    )


def _session(session: Session) -> SessionState:
    totals = session.totals
    return SessionState(
        client_id=session.client_id,
        user=session.identity.user,
        connected=session.connection is not None,
        expiry_s=finite(session.expiry_s),
        expires_at=wall(session.expires_at),
        subscriptions=len(session.subscriptions),
        in_flight=len(session.in_flight),
        owed=session.owed,
        delivered=totals.delivered,
        dropped=by_reason(totals.dropped),
    )


def _subscription(subscribed: Subscribed) -> Subscription:
    lane, link = subscribed.lane, subscribed.session.link
    return Subscription(
        client_id=subscribed.session.client_id,
        filter=subscribed.filter,
        qos=subscribed.qos,
        shared_group=subscribed.group or None,
        no_local=subscribed.no_local,
        retain_as_published=subscribed.retain_as_published,
        identifier=subscribed.identifier or None,
        restricted=subscribed.partly,
        priority=lane.klass,
        drop_rate=lane.drop_rate,
        link=None if link is None else link.name,
        due=lane.due,
        delivered=lane.delivered,
        dropped=by_reason(lane.dropped),
        merged=lane.merged,
        owed=lane.owed,
    )
