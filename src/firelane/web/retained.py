"""Retained messages: what new subscribers are sent first."""

from __future__ import annotations

import base64
import codecs
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator

from firelane.exchange.lanes.message import NEVER, Message
from firelane.exchange.protocol.system import ROOT
from firelane.mqtt import filter_problem
from firelane.sense.offer import GRANT
from firelane.web.access import needs
from firelane.web.exchange import Live, settle
from firelane.web.pages import Page, Paging, page_from_here, skip
from firelane.web.problems import refusal

MOST_PAYLOAD_BYTES = 1024  # shown of each message, so that a page of a thousand stays small

router = APIRouter(prefix="/api/v1")


def _valid(topic_filter: str) -> str:
    if problem := filter_problem(topic_filter):
        raise ValueError(problem)
    return topic_filter


class OfTopics(Paging):
    """A list that may be narrowed to the topics of a filter."""

    filter: Annotated[str, AfterValidator(_valid)] = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """A retained message; of a long payload only the beginning is shown. `payload_text` is null if it is not UTF-8."""

    topic: str
    qos: int
    size_bytes: int
    payload_base64: str
    payload_text: str | None
    truncated: bool
    expires_in_s: float | None


@router.get("/retained", dependencies=needs("read"))
async def list_retained(exchange: Live, wanted: Annotated[OfTopics, Query()]) -> Page[Retained]:
    """Retained messages whose topic matches the filter; # does not match $SYS, as in MQTT."""
    now = time.monotonic()

    def found() -> Iterator[Message]:
        for kept in exchange.broker.retained.matching(wanted.filter):
            if kept.message.expires_at > now:
                yield kept.message

    messages = found()
    await skip(messages, wanted.offset)
    return page_from_here(messages, wanted, lambda message: _retained(message, now))


@router.delete("/retained", dependencies=needs("operate"), status_code=HTTPStatus.NO_CONTENT)
async def clear_retained(exchange: Live, topic: str) -> None:
    """Forget the retained message of a topic. Those who have had it are not told."""
    if topic.startswith((ROOT, GRANT)):
        raise refusal(HTTPStatus.CONFLICT, "the exchange itself publishes this topic and keeps it retained")
    if not exchange.broker.clear_retained(topic):
        raise refusal(HTTPStatus.NOT_FOUND, f"no message is retained under {topic!r}")
    await settle(exchange)


def _retained(message: Message, now: float) -> Retained:
    shown = message.payload[:MOST_PAYLOAD_BYTES]
    truncated = len(shown) < len(message.payload)
    return Retained(
        topic=message.topic.decode(),
        qos=message.qos,
        size_bytes=len(message.payload),
        payload_base64=base64.b64encode(shown).decode(),
        payload_text=_text(shown, whole=not truncated),
        truncated=truncated,
        expires_in_s=None if message.expires_at == NEVER else round(message.expires_at - now, 3),
    )


def _text(payload: bytes, *, whole: bool) -> str | None:
    """The payload as text if it is UTF-8; where it was cut, a character may be incomplete."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(payload, final=whole)
    except UnicodeDecodeError:
        return None
