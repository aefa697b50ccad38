"""Turns requests away before anything else looks at them: foreign web pages, foreign host names, too large bodies.

A browser lets any page send requests to this machine, and a name that its owner points at 127.0.0.1 makes such a page
look like our own (DNS rebinding). The first is seen by `Origin`, the second by `Host`.
"""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from firelane.exchange.protocol.connecting import is_loopback
from firelane.web import problems

MOST_BODY_BYTES = 4_000_000  # a plan for some 20,000 subscriptions


class Guard:
    """Stands before the app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        refused = _refusal(scope) if scope["type"] == "http" else None
        answer = self._app if refused is None else problems.response(*refused)
        await answer(scope, receive, send)


def _refusal(scope: Scope) -> tuple[HTTPStatus, str] | None:
    headers = Headers(scope=scope)
    host = headers.get("host", "")
    at, _ = scope.get("server") or ("", None)
    if is_loopback(at) and not _names_this_machine(host):
        return HTTPStatus.FORBIDDEN, f"the Host header says {host!r}; here it must be localhost, 127.0.0.1 or [::1]"
    origin = headers.get("origin")
    if origin is not None and not _is_own(origin, host):
        return HTTPStatus.FORBIDDEN, f"requests of pages from {origin} are not taken, only of pages from here"
    if "transfer-encoding" in headers:
        return HTTPStatus.LENGTH_REQUIRED, "say in Content-Length how long the body is"
    if int(headers.get("content-length", "0")) > MOST_BODY_BYTES:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have at most {MOST_BODY_BYTES} bytes"
    return None


def _names_this_machine(host: str) -> bool:
    """Whether a Host header is `localhost` or a loopback address, which nobody can point elsewhere."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or is_loopback(name)


def _is_own(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower() != ""
