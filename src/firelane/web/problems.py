"""Errors as HTTP clients get them: application/problem+json (RFC 9457) with what went wrong in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException as AnyHTTPException

from firelane.errors import printable

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What went wrong: the name of the status, its number, and one line."""

    title: str
    status: int
    detail: str


# What OpenAPI says of every answer that is not the expected one.
DOCUMENTED: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem, in one line.",
        "content": {MEDIA_TYPE: {"schema": TypeAdapter(Problem).json_schema()}},
    }
}


def refusal(status: HTTPStatus, detail: str) -> HTTPException:
    """To be raised by an endpoint."""
    return HTTPException(status, detail)


def response(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """A problem on its way out."""
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=printable(detail))
    return JSONResponse(asdict(problem), status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make every error of an app a problem."""
    app.add_exception_handler(AnyHTTPException, _raised)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(Exception, _bug)


async def _raised(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, AnyHTTPException)
    detail = error.detail
    if detail == HTTPStatus(error.status_code).phrase:  # the framework's own: it names no path
        detail = f"{request.method} {request.url.path}: {detail.lower()}; /openapi.json lists what there is"
    return response(error.status_code, detail, error.headers)


async def _not_valid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return response(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(lines))


async def _bug(_: Request, __: Exception) -> JSONResponse:
    """Its traceback goes to standard error."""
    return response(HTTPStatus.INTERNAL_SERVER_ERROR, "a bug, sorry; the output of firelane says more")
