"""How an edge joins the DDS endpoints of its site with those of others (`exchange.overlay.dds` of a scenario)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field

from firelane.mqtt.topics import topic_problem
from firelane.scenario.fields import STRICT
from firelane.units import DURATION

LAST_DOMAIN = 230
_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DdsSettings:
    """Which domain, how its endpoints are found (see docs/dds.md), which of its topics are carried, and where they are
    among MQTT topics."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    domain: Annotated[int, Field(strict=True, ge=0, le=LAST_DOMAIN)] = 0
    prefix: _Text | None = None
    topics: tuple[_Text, ...] = ("*",)
    interface: _Text = "127.0.0.1"
    multicast: bool = False
    peers: tuple[_Text, ...] = ()
    lease_s: Annotated[float, BeforeValidator(DURATION.parse), Field(alias="lease", ge=0.5, le=3600.0)] = 10.0

    def __post_init__(self) -> None:
        problem = topic_problem(self.root)
        if problem or self.root.startswith("$") or self.root.endswith("/"):
            raise ValueError(f'"{self.root}" cannot be where topics are; write a prefix such as dds/0')

    @property
    def root(self) -> str:
        """What MQTT topics of its samples begin with."""
        return self.prefix or f"dds/{self.domain}"
