"""What edges tell each other about messages: which have come, which are missing, and that a path is out of date.

Notes travel through routers to `$overlay/for/<edge>`, as JSON. Losing one does no harm: what is not acknowledged is
sent again, and what is missing is asked for again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter

from firelane.overlay.messages.strange import StrangeError
from firelane.overlay.registry.documents import LARGEST
from firelane.overlay.registry.names import is_broker_name

FORMAT = 1
NO_NOTE = "no note between edges"
MOST_NUMBERS = 1000  # in one note
AGAIN_AT_ONCE = 64  # messages that are sent again when an edge says that it misses some, or at one look
FOR = "$overlay/for/"
TO = "$overlay/to/"


def _broker_name(name: str) -> str:
    if not is_broker_name(name):
        raise ValueError("no name of a broker")
    return name


Number = Annotated[int, Field(ge=0, le=LARGEST)]
Name = Annotated[str, AfterValidator(_broker_name)]


class NoteError(StrangeError):
    """A note between edges that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """On a topic nothing came between these two numbers, of which the second has."""

    topic: str
    last: Number
    before: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """The answer: of these there is nothing that the edge would be owed."""

    topic: str
    before: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated:
    """A message on a topic was refused, as it was sent under an older epoch than this."""

    topic: str
    number: Number
    epoch: Number
    router: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """From one edge to another."""

    edge: Name  # who says so
    boot: Number
    of: Number = 0  # the boot of the edge that it is for, under which it gave the numbers that are meant
    came: tuple[Number, ...] = ()  # numbers of messages that are safe there
    missing: tuple[Missing, ...] = ()
    nothing: tuple[Nothing, ...] = ()
    outdated: tuple[Outdated, ...] = ()
    back: bool = False  # it can be reached again, and may have missed something

    def encode(self) -> bytes:
        """As it travels."""
        said = {name: value for name in _NAMES if (value := getattr(self, name)) or name in ("edge", "boot")}
        body = {"format": FORMAT, **said}
        return json.dumps(body, default=asdict, separators=(",", ":"), ensure_ascii=False).encode()


def read_note(payload: bytes) -> Note:
    """A note as it came; NoteError if it is none."""
    try:
        data = json.loads(payload)
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise NoteError(f"a note between edges that is not of format {FORMAT}")
        return _NOTE.validate_python(data)
    except (ValueError, RecursionError):
        raise NoteError(NO_NOTE, f"'{payload[:60].decode(errors='replace')}' is {NO_NOTE}") from None


_NAMES = tuple(one.name for one in fields(Note))
_NOTE: TypeAdapter[Note] = TypeAdapter(Note)
