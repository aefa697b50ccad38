"""How the live loop plans and how far it looks ahead (`exchange.control` of a scenario)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from firelane.scenario.fields import STRICT
from firelane.units import DURATION, SHARE

Planner = Literal["tune", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """What plans (`tune`: utilities, `plan`: requirements, by a data set or by prediction, with what to spare), whether
    forecasts count, and how many plans a minute."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    planner: Planner = "tune"
    data: str | None = None
    spare: Annotated[float, BeforeValidator(SHARE.parse)] = 0.1
    proactive: bool = True
    horizon_s: Annotated[float, BeforeValidator(DURATION.parse), Field(alias="horizon", ge=1.0, le=300.0)] = 10.0
    replans: Annotated[int, Field(strict=True, ge=1, le=600)] = 20

    def __post_init__(self) -> None:
        if self.data is not None and self.planner != "plan":
            raise ValueError("data is what `planner: plan` goes by; write that too, or remove data")
