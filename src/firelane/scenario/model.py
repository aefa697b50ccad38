"""What is exchanged: topics, publishers, subscribers and their needs, links, brokers.

Attributes are in SI units and say so; the YAML keys are the shorter aliases. Checks that concern one
value sit with it, checks between parts (unknown references, filters without a topic) in `load.check`.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter

from firelane.scenario.fields import STRICT, optional
from firelane.scenario.need import Category as Category  # noqa: PLC0414 (part of the model too)
from firelane.scenario.need import Need as Need  # noqa: PLC0414
from firelane.scenario.overhead import auto_overhead_bytes
from firelane.scenario.settings import ExchangeSettings
from firelane.units import BANDWIDTH, DURATION, RATE, SHARE, SIZE

MOST_PRIORITIES = 16
MOST_BUFFER = 10**9
DEFAULT_LINK = "default"
LEAST_SPARE = 1e-9  # a queue with less spare capacity is saturated: the rest is rounding


def _overhead(value: object) -> float | None:
    if value == "auto":
        return None
    try:
        return SIZE.parse(value)
    except ValueError as problem:
        raise ValueError(f'{problem}, or "auto"') from None


def _sizes(value: object) -> object:
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError("an empty list of sizes; write at least one, e.g. [90 B, 500 B]")
        return tuple(SIZE.parse(one) for one in value)
    if value not in ("exponential", "fixed"):
        raise ValueError(f'"{value}" is not a kind of sizes; write exponential, fixed or a list of sizes')
    return value


_OptionalRate = Annotated[float | None, optional(RATE)]
_Class = Annotated[int, Field(ge=0, lt=MOST_PRIORITIES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link shared by all who name it (`each`: one apiece); without a bandwidth it is never the bottleneck."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    bandwidth_bps: Annotated[float | None, optional(BANDWIDTH), Field(alias="bandwidth")] = None
    buffer_messages: Annotated[int | None, Field(alias="buffer", ge=1, le=MOST_BUFFER)] = None
    propagation_s: Annotated[float, BeforeValidator(DURATION.parse), Field(alias="propagation")] = 0.0
    loss: Annotated[float, BeforeValidator(SHARE.parse)] = 0.0
    overhead_bytes: Annotated[float | None, BeforeValidator(_overhead), Field(alias="overhead")] = None
    pace: Annotated[float, BeforeValidator(SHARE.parse), Field(gt=0)] = 0.97
    switch_hz: Annotated[_OptionalRate, Field(alias="switch_rate", gt=0)] = None
    each: bool = False
    guaranteed: dict[_Class, Annotated[float, BeforeValidator(SHARE.parse), Field(gt=0)]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if sum(self.guaranteed.values()) > 1:
            raise ValueError("the guaranteed shares are together more than the link; lower them, e.g. {8: 5 %}")

    @property
    def paced_bps(self) -> float:
        """What the link is planned and paced at; infinite without a bandwidth."""
        return math.inf if self.bandwidth_bps is None else self.pace * self.bandwidth_bps


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic's payloads: their mean size, and exponential, fixed or as sampled (a list of sizes)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    size_bytes: Annotated[float | None, optional(SIZE), Field(alias="size")] = None
    sizes: Annotated[Literal["exponential", "fixed"] | tuple[float, ...], BeforeValidator(_sizes)] = "exponential"

    def __post_init__(self) -> None:
        if (self.size_bytes is None) == isinstance(self.sizes, str):
            raise ValueError('give a size, e.g. "120 B", or a list of sizes, and not both')

    @property
    def mean_bytes(self) -> float:
        """The mean payload."""
        if isinstance(self.sizes, tuple):
            return sum(self.sizes) / len(self.sizes)
        assert self.size_bytes is not None
        return self.size_bytes

    @property
    def variance_bytes2(self) -> float:
        """The variance of the payload."""
        if self.sizes == "fixed":
            return 0.0
        if self.sizes == "exponential":
            return self.mean_bytes**2
        mean = self.mean_bytes
        return sum((float(size) - mean) ** 2 for size in self.sizes) / len(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Who publishes what how often; its optional link is the unmanaged side (FIFO)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    publishes: dict[str, Annotated[float, BeforeValidator(RATE.parse)]]
    link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which live client is this subscriber: by client id pattern, user, or address range."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    client_id: str | None = None
    user: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """Who wants what over which link; who is only to sit on a link need not name anything."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    subscribes: dict[str, Annotated[Need, BeforeValidator(lambda value: {} if value is None else value)]] = field(
        default_factory=dict
    )
    link: str = DEFAULT_LINK
    match: Match | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """How many messages a second the broker can take in, and hand to each subscriber."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    input_hz: Annotated[_OptionalRate, Field(alias="input_rate", gt=0)] = None
    output_hz: Annotated[_OptionalRate, Field(alias="output_rate", gt=0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that is exchanged and over what; `flows` groups each subscriber's subscriptions."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    name: Annotated[str, Field(min_length=1)]
    priorities: Annotated[int, Field(ge=1, le=MOST_PRIORITIES)] = 9
    headroom: Annotated[float, BeforeValidator(SHARE.parse), Field(lt=1)] = 0.1
    flows: Annotated[int | None, Field(ge=1)] = None
    links: dict[str, Link] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    publishers: dict[str, Publisher] = field(default_factory=dict)
    subscribers: dict[str, Subscriber] = field(default_factory=dict)
    brokers: dict[str, Broker] = field(default_factory=dict)
    categories: dict[str, Category] = field(default_factory=dict)
    exchange: ExchangeSettings = field(default_factory=ExchangeSettings)

    def link(self, name: str) -> Link:
        """The named link; `default`, unless the scenario defines it, is each subscriber's own, unlimited."""
        if name == DEFAULT_LINK and name not in self.links:
            return Link(each=True, pace=1.0)
        return self.links[name]

    def digest(self) -> str:
        """A short fingerprint of all that a plan depends on, which it carries along: not of how the exchange is run."""
        content = scenario_type().dump_json(self, by_alias=True, exclude={"exchange"})
        return hashlib.sha256(content).hexdigest()[:16]


@cache
def scenario_type() -> TypeAdapter[Scenario]:
    """What reads a Scenario from plain data and writes it back."""
    return TypeAdapter(Scenario)


def overhead_bytes(payload_bytes: float, topic: str, link: Link) -> float:
    """What the wire adds to one message's payload (docs/reference/scenario.md, `overhead`)."""
    if link.overhead_bytes is not None:
        return link.overhead_bytes
    return auto_overhead_bytes(payload_bytes, len(topic.encode()))


def wire_bytes(payload_bytes: float, topic: str, link: Link) -> float:
    """Bytes that one message takes on a link: the one rule of predict, simulate and the pacer."""
    return payload_bytes + overhead_bytes(payload_bytes, topic, link)


def plain_data(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain data under its YAML keys, defaults left out."""
    data: dict[str, Any] = scenario_type().dump_python(scenario, by_alias=True, exclude_defaults=True)
    return data
