"""How much the exchange tells about every delivery and every subscription (`exchange.telemetry` of a scenario)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field

from firelane.scenario.fields import STRICT
from firelane.units import DURATION, SHARE, SIZE

LEAST_KEPT_BYTES = 10_000_000  # room for several files, whatever is in them


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """The share of messages whose deliveries are recorded (drops all are), and where the records go.

    A file is finished after `roll` or with `roll_rows` records; the oldest go when all together exceed `keep`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    sampling: Annotated[float, BeforeValidator(SHARE.parse)] = 0.01
    files: bool = True
    topics: bool = False
    keep_bytes: Annotated[int, BeforeValidator(SIZE.parse), Field(alias="keep", ge=LEAST_KEPT_BYTES)] = 100_000_000
    roll_s: Annotated[float, BeforeValidator(DURATION.parse), Field(alias="roll", ge=1.0)] = 60.0
    roll_rows: Annotated[int, Field(strict=True, ge=1000, le=1_000_000)] = 50_000

    @property
    def wanted(self) -> bool:
        """Whether records go anywhere at all."""
        return self.files or self.topics
