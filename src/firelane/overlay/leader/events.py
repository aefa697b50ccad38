"""What a leader is told and what it asks for, as plain data; times are seconds of one clock that does not go back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from firelane.errors import FirelaneError
from firelane.overlay.owner import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """A living router: which start of it this is, what it says it carries, and its capacity beside others'."""

    boot: str
    load: float | None = None
    capacity: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.capacity < math.inf:
            raise FirelaneError(f"capacity: {self.capacity:g} is not a weight of a router; write e.g. 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that is there: the edges that publish it, those that subscribe to it, and its assignment, if any."""

    publishers: frozenset[str]
    subscribers: frozenset[str]
    assignment: Assignment | None = None

    @property
    def crosses(self) -> bool:
        """Is there a publisher and a subscriber at another edge? Only then does a router have to do with it."""
        return bool(self.publishers and self.subscribers) and len(self.publishers | self.subscribers) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """This router leads from now on, in an epoch that nobody had before."""

    now_s: float
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deposed:
    """It leads no more."""

    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutersChanged:
    """All routers that live."""

    now_s: float
    routers: Mapping[str, Router]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """Some topics as they are now; None for one that is gone."""

    now_s: float
    topics: Mapping[str, Topic | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadsReported:
    """What some topics carry, all in messages or all in bytes a second, None if that is not known; others carry what
    they did."""

    now_s: float
    loads: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAssigned:
    """Topics whose assignment could not be written."""

    now_s: float
    topics: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed; comes at the latest when it was asked for."""

    now_s: float


Event = Elected | Deposed | RoutersChanged | TopicsChanged | LoadsReported | NotAssigned | Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Write these topics' routers, as the leader elected in this epoch; `moves` of them had another that lives, all in
    `left` had one, which lives or is gone."""

    epoch: int
    homes: Mapping[str, str]
    moves: int
    left: Mapping[str, str]  # topics, and the routers that they had
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Send a Tick at this time; it stands for any that was asked for before."""

    at_s: float


Action = Assign | WakeAt
