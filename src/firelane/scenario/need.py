"""What a subscription needs: what it is worth to its subscriber and what it can bear; and changes to such a need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from firelane.scenario.fields import STRICT, optional
from firelane.units import DURATION, SHARE, WEIGHT

UtilityKind = Literal["log", "linear", "saturating", "step", "piecewise"]
Keep = Literal["all", "latest"]
Points = tuple[tuple[float, float], ...]

MOST_POINTS = 64  # of a change, which has to fit into a packet
LONGEST_CATEGORY = 100


def _points(value: object) -> Points | None:
    """Check a piecewise utility: from (0, 0) to share 1, rising and concave."""
    if value is None:
        return None
    remedy = "write [share, value] pairs from [0, 0] to share 1, e.g. [[0, 0], [0.3, 0.8], [1, 1]]"
    try:
        points = tuple((SHARE.parse(x), WEIGHT.parse(u)) for x, u in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ValueError(f"these are not points of a utility; {remedy}") from None
    if len(points) < 2 or points[0] != (0.0, 0.0) or points[-1][0] != 1.0:
        raise ValueError(f"the points must go from [0, 0] to share 1; {remedy}")
    slopes = []
    for (x0, u0), (x1, u1) in pairwise(points):
        if x1 <= x0 or u1 < u0:
            raise ValueError(f"shares must increase and values may not fall; {remedy}")
        slopes.append((u1 - u0) / (x1 - x0))
    if any(later > earlier * (1 + 1e-12) for earlier, later in pairwise(slopes)):
        raise ValueError(f"the points must bend downwards (concave); {remedy}")
    return points


def _few(points: Points | None) -> Points | None:
    if points is not None and len(points) > MOST_POINTS:
        raise ValueError(f"{len(points)} points are more than {MOST_POINTS}; leave some out")
    return points


def _label(category: str | None) -> str | None:
    if category is not None and not (category.isprintable() and 0 < len(category) <= LONGEST_CATEGORY):
        raise ValueError(f"a category is 1 to {LONGEST_CATEGORY} printable characters; write e.g. real-time")
    return category


_OptionalDuration = Annotated[float | None, optional(DURATION)]
_OptionalShare = Annotated[float | None, optional(SHARE)]
_OptionalWeight = Annotated[float | None, optional(WEIGHT)]
_OptionalPoints = Annotated[Points | None, BeforeValidator(_points)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a subscription is worth to its subscriber and what it can bear.

    `knee` shapes `saturating` (the share at which 63 % of the rise is over) and `step` (the share that
    must arrive); `points` is the curve of `piecewise`, scaled by `weight`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    utility: UtilityKind = "log"
    weight: Annotated[float, BeforeValidator(WEIGHT.parse)] = 1.0
    knee: _OptionalShare = None
    points: _OptionalPoints = None
    max_delay_s: Annotated[_OptionalDuration, Field(alias="max_delay")] = None
    max_loss: _OptionalShare = None
    min_share: Annotated[float, BeforeValidator(SHARE.parse)] = 0.0
    category: str | None = None
    tolerance: _OptionalWeight = None
    keep: Keep = "all"

    def __post_init__(self) -> None:
        if (self.utility == "piecewise") != (self.points is not None):
            raise ValueError("utility piecewise and points go together; give both or neither")
        if self.knee is not None and self.utility not in ("saturating", "step"):
            raise ValueError(f"knee shapes a saturating or step utility, not {self.utility}; remove it")
        if self.knee == 0:
            raise ValueError("knee must be more than 0; write e.g. 30 %")

    @property
    def least_share(self) -> float:
        """The least share that a plan must keep: min_share, 1 - max_loss, all with a tolerance."""
        if self.tolerance is not None:
            return 1.0
        return max(self.min_share, 0.0 if self.max_loss is None else 1.0 - self.max_loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """What a category of subscriptions needs as a whole: of the mean delay of all it is delivered, its 95th percentile,
    and the share of all its messages that is lost. Its weight is by default the mean of its subscriptions'."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    weight: _OptionalWeight = None
    max_delay_s: Annotated[_OptionalDuration, Field(alias="max_delay")] = None
    max_delay_p95_s: Annotated[_OptionalDuration, Field(alias="max_delay_p95")] = None
    max_loss: _OptionalShare = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedChange:
    """What a profile or a client says of a need; what is None is left as it was."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    utility: UtilityKind | None = None
    weight: _OptionalWeight = None
    knee: _OptionalShare = None
    points: Annotated[_OptionalPoints, AfterValidator(_few)] = None
    max_delay_s: Annotated[_OptionalDuration, Field(alias="max_delay")] = None
    max_loss: _OptionalShare = None
    min_share: _OptionalShare = None
    category: Annotated[str | None, AfterValidator(_label)] = None
    tolerance: _OptionalWeight = None
    keep: Keep | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Only what was said, by the names of a Need's attributes."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def changed(need: Need, given: Mapping[str, Any]) -> Need:
    """The need with the given values; the knee and points of another utility than the new one are left behind."""
    if not given:
        return need
    reshaped = given.get("utility", need.utility) != need.utility
    return replace(need, **({"knee": None, "points": None, **given} if reshaped else given))
