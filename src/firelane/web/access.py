"""Who may ask what of the web side: `read` looks, `operate` changes, `admin` may do both and more.

A request proves who it is with a bearer token of `exchange.tokens` or a password of `exchange.users`. Without either,
requests of this machine may read; where no token and no user is set up at all, they may do everything.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from hmac import compare_digest
from http import HTTPStatus
from typing import Any

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security.http import HTTPBase

from firelane.exchange.protocol.connecting import is_loopback
from firelane.exchange.run import Exchange
from firelane.scenario.settings import ApiRole
from firelane.web.problems import refusal

_RANKS: dict[str, int] = {"read": 0, "operate": 1, "admin": 2}
_PASSED_ON = ("forwarded", "via", "x-forwarded-for", "x-real-ip")
# For OpenAPI only: `ApiAccess` reads the header itself.
_SCHEMES = [Security(HTTPBase(scheme=one, scheme_name=one, auto_error=False)) for one in ("bearer", "basic")]


class ApiAccess:
    """Finds the roles of a request; settings are looked up each time, for they may be read again."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._checking = asyncio.Semaphore(1)  # so that MQTT clients are never shut out by passwords tried here

    async def require(self, request: Request, needed: ApiRole) -> None:
        """Refuse a request that may not do this."""
        given = request.headers.get("authorization")
        roles = [*self._unproven(request), *(await self._proven(given) if given is not None else ())]
        if any(_RANKS.get(role, -1) >= _RANKS[needed] for role in roles):
            return
        if given is None:
            raise _unknown(f"this needs the role {needed}; give a bearer token, or a user and password")
        raise refusal(HTTPStatus.FORBIDDEN, f"this needs the role {needed}")

    def _unproven(self, request: Request) -> Iterable[str]:
        settings = self._exchange.broker.settings
        if settings.anonymous == "never" or not _is_of_this_machine(request):
            return ()
        return ("read",) if settings.users or settings.tokens else ("admin",)

    async def _proven(self, given: str) -> Iterable[str]:
        scheme, _, value = given.partition(" ")
        match scheme.lower():
            case "bearer":
                roles = self._roles_of_token(value.strip())
            case "basic":
                roles = await self._roles_of_user(*_user_and_password(value.strip()))
            case _:
                raise _unknown("only Bearer and Basic authorization are understood")
        if roles is None:
            raise _unknown("this token, or user and password, is not known")
        return roles

    def _roles_of_token(self, given: str) -> Iterable[str] | None:
        """All tokens are compared, each in constant time, so that how long it takes says nothing."""
        found: Iterable[str] | None = None
        for token in self._exchange.broker.settings.tokens.values():
            if compare_digest(token.token.encode(), given.encode()):
                found = token.roles
        return found

    async def _roles_of_user(self, name: str, password: bytes) -> Iterable[str] | None:
        async with self._checking:
            right = await self._exchange.server.passwords.verify(name, password)
        user = self._exchange.broker.settings.users.get(name)
        return user.roles if right and user is not None else None


def needs(role: ApiRole) -> list[Any]:
    """The dependencies of an endpoint that is for this role."""

    async def require(request: Request) -> None:
        access: ApiAccess = request.app.state.access
        await access.require(request, role)

    return [Depends(require), *_SCHEMES]


def _is_of_this_machine(request: Request) -> bool:
    """Whether a program on this machine asks for itself, not for somebody elsewhere."""
    if any(name in request.headers for name in _PASSED_ON):
        return False
    return request.client is not None and is_loopback(request.client.host)


def _user_and_password(encoded: str) -> tuple[str, bytes]:
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        if colon:
            return name.decode(), password
    except ValueError:
        pass
    raise _unknown("after Basic belongs user:password in base64")


def _unknown(detail: str) -> HTTPException:
    return HTTPException(HTTPStatus.UNAUTHORIZED, detail, {"WWW-Authenticate": 'Bearer, Basic realm="firelane"'})
