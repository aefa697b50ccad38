"""How an exchange joins others (`exchange.overlay` of a scenario): as whom, and how a router that leads does that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from firelane.scenario.dds_settings import DdsSettings
from firelane.scenario.fields import STRICT
from firelane.units import DURATION, RATE

_Text = Annotated[str, Field(min_length=1)]
StrategyName = Literal["fewest-topics", "least-load", "long-term", "bounded-moves"]


_Count = Annotated[int, Field(strict=True, ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectSettings:
    """Paths from edge to edge, for subscriptions with a deadline: which edges may send to this one, whose deadlines
    count here and how many of them, and how much this edge sends in this way to others."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    senders: Annotated[tuple[_Text, ...], Field(alias="from")] = ()
    clients: Annotated[tuple[_Text, ...], Field(alias="for")] = ("*",)
    least_s: Annotated[float, BeforeValidator(DURATION.parse), Field(alias="least", gt=0)] = 0.01
    filters: _Count = 100
    edges: _Count = 20
    rate_hz: Annotated[float, BeforeValidator(RATE.parse), Field(alias="rate", ge=0)] = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlaySettings:
    """What an edge shows routers (user, password, and whether and by which authority to encrypt), what a router can
    carry beside others, and by which strategy one that leads gives topics to routers: how many moves, and how often;
    an edge's bridge to DDS, and paths from edge to edge."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    user: _Text | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: _Text | None = None
    capacity: Annotated[float, Field(ge=0.001, le=1000.0)] = 1.0
    strategy: StrategyName = "bounded-moves"
    moves: _Count = 10
    step_s: Annotated[float, BeforeValidator(DURATION.parse), Field(alias="step", ge=0.1, le=86_400.0)] = 10.0
    dds: DdsSettings | None = None
    direct: DirectSettings = field(default_factory=DirectSettings)

    def __post_init__(self) -> None:
        if self.password is not None and self.user is None:
            raise ValueError("there is a password but no user; name the user too")
        if self.ca is not None and not self.tls:
            raise ValueError("ca is who must vouch for routers that encrypt; write tls: true too")
