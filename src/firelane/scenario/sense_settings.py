"""How the exchange takes part in streams of sensors (`exchange.sense` of a scenario)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field

from firelane.scenario.fields import STRICT
from firelane.units import DURATION, SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class SenseSettings:
    """What subscribers may ask of publishers' loads, and how far plans may widen a tolerance."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    load_floor: Annotated[float, BeforeValidator(SHARE.parse), Field(gt=0)] = 0.05
    load_period_s: Annotated[float, BeforeValidator(DURATION.parse), Field(alias="load_period", gt=0)] = 120.0
    widen: Annotated[float, Field(ge=1, le=1000)] = 10.0
