"""What the exchange has seen, as plain data for whoever plans: topics lately published to, subscriptions, links."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from firelane.exchange.lanes.link import KnownBy
from firelane.scenario.model import Link, Need


class SeenTopic(NamedTuple):
    """One topic that was published to lately; there may be tens of thousands a second."""

    name: str
    rate_hz: float
    mean_bytes: float  # of payloads
    variance_bytes2: float
    latest_hz: float  # between the last two looks alone


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSubscription:
    """One live subscription and what it was granted."""

    subscriber: str  # name of the scenario's subscriber it matched, else its client id
    filter: str
    need: Need
    best_class: int  # a cap on its priority, 0 without
    link: str  # name of the scenario's link ("default": own, unpaced)
    qos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBandwidth:
    """What a link is said to carry, what it is known to carry, and how that is known."""

    configured_bps: float
    known_bps: float
    known_by: KnownBy


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the exchange has seen, for whoever plans."""

    topics: tuple[SeenTopic, ...]
    subscriptions: tuple[SeenSubscription, ...]
    links: dict[str, Link]  # with the bandwidth that they are known to have
    bandwidths: dict[str, SeenBandwidth] = field(default_factory=dict)  # of those that have one and are in use
    streams: dict[str, float] = field(default_factory=dict)  # of sensors, that can be told coarser: delta by topic
    unsettled: bool = False  # traffic may just have changed, which the next look will tell
    changed: int  # grows whenever subscriptions, needs or links change
