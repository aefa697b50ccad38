"""What brokers learn of each other from the registry, and how it is read from its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firelane.overlay.owner import Assignment
from firelane.overlay.registry.documents import (
    EdgeDocument,
    EndpointDocument,
    FiltersDocument,
    HereDocument,
    Load,
    RouterDocument,
    TopicDocument,
    Wish,
    read,
)
from firelane.overlay.registry.mirror import Group
from firelane.overlay.registry.names import broker_name_of, is_hashed, name_of, topic_segment
from firelane.overlay.registry.tree import RegistryError

EDGES, TOPICS, ROUTERS, LEADER, EPOCH = "/edges", "/topics", "/broker", "/leader", "/epoch"
HERE, FILTERS, PUB, SUB = "here", "filters-", "pub", "sub"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEdge:
    """An edge, whether it is connected now, which routers it cannot reach, and what its clients want."""

    name: str
    boot: int
    locator: str | None
    here: bool
    filters: Mapping[str, Wish]
    unreached: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRouter:
    """A router that is connected now."""

    name: str
    boot: int
    locator: str
    topics: int
    load: Load
    capacity: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """How many clients publish and subscribe at which edges, how often they send together, and who routes it.

    The rate is that of the edges which have said it, None if none has.
    """

    pub: Mapping[str, int] = field(default_factory=dict)
    sub: Mapping[str, int] = field(default_factory=dict)
    rate_hz: float | None = None
    assignment: Assignment | None = None


def parse_edge(path: str, data: bytes) -> Any:
    """A document of an edge."""
    name, _, rest = path.partition("/")
    broker_name_of(name)
    if not rest:
        return read(EdgeDocument, data, f"{EDGES}/{path}")
    if rest == HERE:
        return read(HereDocument, data, f"{EDGES}/{path}")
    if rest.startswith(FILTERS):
        return read(FiltersDocument, data, f"{EDGES}/{path}")
    return None


def parse_router(path: str, data: bytes) -> Any:
    """A document of a router."""
    broker_name_of(path.partition("/")[0])
    return None if "/" in path else read(RouterDocument, data, f"{ROUTERS}/{path}")


def parse_topic(path: str, data: bytes) -> Any:
    """A document of a topic or of an endpoint of it."""
    levels = path.split("/")
    if not is_hashed(levels[0]):
        name_of(levels[0])
    if len(levels) == 1:
        return topic_document(path, data)
    if len(levels) == 3 and levels[1] in (PUB, SUB):
        broker_name_of(levels[2])
        return read(EndpointDocument, data, f"{TOPICS}/{path}")
    return None


def topic_document(segment: str, data: bytes) -> TopicDocument:
    """The assignment of a topic, whose name fits."""
    document = read(TopicDocument, data, f"{TOPICS}/{segment}")
    if is_hashed(segment) and (document.topic is None or topic_segment(document.topic) != segment):
        raise RegistryError(f"{TOPICS}/{segment} in the registry has not the name it is made from; delete that node")
    return document


def known_edge(segment: str, group: Group) -> KnownEdge | None:
    """An edge as its nodes tell it; None if there is none."""
    own = group.get("")
    if own is None:
        return None
    filters: dict[str, Wish] = {}
    for document in group.values():
        if isinstance(document, FiltersDocument):
            filters |= document.filters
    here = group.get(HERE)
    return KnownEdge(
        name=name_of(segment),
        boot=own.boot,
        locator=own.locator,
        here=here is not None and here.boot == own.boot,
        filters=filters,
        unreached=frozenset((here and here.unreached) or ()),
    )


def known_router(segment: str, group: Group) -> KnownRouter | None:
    """A router as its node tells it; None if there is none."""
    own = group.get("")
    if own is None:
        return None
    return KnownRouter(
        name=name_of(segment),
        boot=own.boot,
        locator=own.locator,
        topics=own.topics,
        load=own.load,
        capacity=own.capacity,
    )


def topic_state(_: str, group: Group) -> TopicState | None:
    """A topic as its nodes tell it; None if there is none."""
    if not group:
        return None
    pub, sub = _endpoints(group, PUB), _endpoints(group, SUB)
    rates_hz = [one.rate_hz for one in pub.values() if one.rate_hz is not None]
    return TopicState(
        pub={edge: one.count for edge, one in pub.items()},
        sub={edge: one.count for edge, one in sub.items()},
        rate_hz=sum(rates_hz) if rates_hz else None,
        assignment=assignment(group.get("")),
    )


def assignment(document: TopicDocument | None) -> Assignment | None:
    """What a topic's node says, if the leader has written it."""
    if document is None or document.epoch == 0:
        return None
    return Assignment(router=document.router, epoch=document.epoch)


def broker_name(segment: str, _: Group) -> str:
    """The edge or router of a group."""
    return name_of(segment)


def topic_name(segment: str, group: Group) -> str | None:
    """The topic of a group; None where only its hash is known."""
    if not is_hashed(segment):
        return name_of(segment)
    own = group.get("")
    return own.topic if own else None


def _endpoints(group: Group, side: str) -> dict[str, EndpointDocument]:
    begin = f"{side}/"
    return {name_of(rest[len(begin) :]): one for rest, one in group.items() if rest.startswith(begin)}
