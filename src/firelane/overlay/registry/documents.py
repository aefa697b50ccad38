"""What each node of the registry holds: JSON with the number of its format, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from firelane.mqtt.topics import filter_problem
from firelane.overlay.registry.tree import RegistryError

FORMAT = 1
MOST_NEEDS, LONGEST_NEED = 32, 4096


def _filter_between_sites(text: str) -> str:
    problem = "it stays at its site" if text.startswith("$") else filter_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


LARGEST = 2**63 - 1  # number of any kind that brokers tell each other
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Capacity = Annotated[float, Field(ge=0.001, le=1000.0)]  # a router's, beside others'
Locator = Annotated[str, Field(min_length=1, max_length=300)]  # host:port
Filter = Annotated[str, AfterValidator(_filter_between_sites)]
NeedText = Annotated[str, Field(max_length=LONGEST_NEED)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDocument:
    """An edge that is known: its boot, where it can be reached (if anywhere), and in how many parts its filters are."""

    boot: int
    locator: Locator | None = None
    parts: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HereDocument:
    """An edge is connected now, with this boot, but has not reached these routers for long though they live."""

    boot: int
    unreached: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the clients of an edge want of a filter: the highest QoS, whether messages are kept for some of them while
    they are away, what they need (as in SUBSCRIBE), and the deadline by which it should also be sent directly."""

    qos: Annotated[int, Field(ge=0, le=2)]
    keeps: bool = False
    need: Annotated[Mapping[NeedText, NeedText], Field(max_length=MOST_NEEDS)] | None = None
    deadline_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    anew: Count = 0  # another number each time it is wanted again after nobody did, or by an edge without its memory


@dataclass(frozen=True, slots=True, kw_only=True)
class FiltersDocument:
    """A part of an edge's filters."""

    filters: dict[Filter, Wish]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDocument:
    """Who routes a topic since which epoch; its name where the path has only a hash."""

    router: str | None = None
    epoch: Count = 0
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDocument:
    """How many clients of an edge publish to a topic, or subscribe to it, and how often they send."""

    count: Count
    rate_hz: Rate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a router passes on."""

    messages_hz: Rate = 0.0
    bytes_hz: Rate = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterDocument:
    """A router that is there now."""

    boot: int
    locator: Locator
    topics: Count = 0
    load: Load = field(default_factory=Load)
    capacity: Capacity = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDocument:
    """The last epoch taken, and the leader that took it."""

    epoch: Count
    router: str
    boot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderDocument:
    """The router that leads."""

    router: str
    boot: int


Document = TypeVar("Document")
_readers: dict[type, TypeAdapter[Any]] = {}


def written(document: Any) -> bytes:
    """A document as a node's data; what is None is left out, except routers and locators."""
    body = {"format": FORMAT} | asdict(document, dict_factory=_without_nothing)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def read(kind: type[Document], data: bytes, path: str) -> Document:
    """The document in a node; RegistryError if there is none of that kind."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise RegistryError(f"{path} in the registry is not JSON; delete that node") from None
    known = body.get("format") if isinstance(body, dict) else None
    if known != FORMAT or isinstance(known, bool):
        raise RegistryError(
            f"{path} in the registry has format {known!r} where this Firelane knows {FORMAT}; use one version"
        )
    try:
        document: Document = _reader(kind).validate_python(body)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RegistryError(f"{path} in the registry: {where}: {first['msg']}; delete that node") from None
    return document


def _reader(kind: type) -> TypeAdapter[Any]:
    if kind not in _readers:
        _readers[kind] = TypeAdapter(kind)
    return _readers[kind]


_KEPT = ("router", "locator")


def _without_nothing(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None or name in _KEPT}
