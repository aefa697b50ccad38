"""How an exchange joins others (`exchange.overlay` of a scenario): as whom, and how a router that leads does that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from firelane.scenario.dds_settings import DdsSettings
from firelane.scenario.fields import STRICT
from firelane.units import DURATION

_Text = Annotated[str, Field(min_length=1)]
StrategyName = Literal["fewest-topics", "least-load", "long-term", "bounded-moves"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlaySettings:
    """What an edge shows routers (user, password, and whether and by which authority to encrypt), and by which strategy
    a router that leads gives topics to routers: how many moves, and how often; and an edge's bridge to DDS."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    user: _Text | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: _Text | None = None
    strategy: StrategyName = "bounded-moves"
    moves: Annotated[int, Field(strict=True, ge=0)] = 10
    step_s: Annotated[float, BeforeValidator(DURATION.parse), Field(alias="step", ge=0.1, le=86_400.0)] = 10.0
    dds: DdsSettings | None = None

    def __post_init__(self) -> None:
        if self.password is not None and self.user is None:
            raise ValueError("there is a password but no user; name the user too")
        if self.ca is not None and not self.tls:
            raise ValueError("ca is who must vouch for routers that encrypt; write tls: true too")
