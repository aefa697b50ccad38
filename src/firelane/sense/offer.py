"""What publishers offer, what is granted to them, and what subscribers ask for: JSON on topics beside a stream's own.

Implements: rdds, sections II-A and II-B and Fig. 2 (types and keys of topics, negotiation by request and offer).
Differs:    what the paper calls the negotiation with the broker is a SUBSCRIBE with the property `tolerance`.
Symbols:    DATA_CONTINUOUS, DATA_DISCRETE -> kind; q_i gamma_max -> precision; gamma_max -> gamma_max; U_max -> load.
Checked by: tests/sense/test_offer.py
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from firelane.errors import FirelaneError
from firelane.sense.numbering import MOST_GAPS
from firelane.sense.trace import LEAST_DELTA, MOST_VALUE
from firelane.sense.wire import MOST_SENSORS, WRAP

ROOT = "$sense/"
OFFER, GRANT, LOAD, RESYNC = (ROOT + word for word in ("offer/", "grant/", "load/", "resync/"))
TOLERANCE, SENSOR_TYPE = "tolerance", "sensor-type"  # the user properties of a SUBSCRIBE that asks for a stream
MOST_BYTES = 8_000_000  # of an offer: names of sensors
FORMAT = 1

_OPEN: ConfigDict = {"extra": "ignore"}  # what later releases add is no error
_Number = Annotated[int, Field(ge=0, lt=WRAP)]  # of a message
_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
_Precision = Annotated[float, Field(ge=LEAST_DELTA, le=MOST_VALUE)]
T = TypeVar("T")


class OfferError(FirelaneError):
    """A message about a stream that cannot be understood, or a wish that an offer does not meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorType:
    """What the sensors of a stream are: a name that both sides know, what their names identify, and their unit."""

    name: _Name = "Sensor"
    key: _Name = "sensor"
    unit: Annotated[str, Field(max_length=40)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a publisher says of its stream. Its delta is never above `precision`, or the tolerance that was granted."""

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN

    boot: Annotated[int, Field(ge=0, lt=2**32)]
    sensors: Annotated[tuple[_Name, ...], Field(min_length=1, max_length=MOST_SENSORS)]
    kind: Literal["continuous", "discrete"] = "continuous"
    type: SensorType = SensorType()
    precision: _Precision | None = None
    gamma_max: Annotated[float, Field(ge=1, le=1e6)] | None = None
    load: _Share | None = None
    heartbeat_s: Annotated[float, Field(gt=0, le=86_400)] = 10.0
    transport: dict[str, dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        if (self.precision is None) != self.discrete:
            raise ValueError("a precision is offered for continuous sensors, and only for them")
        if len(set(self.sensors)) < len(self.sensors):
            raise ValueError("two sensors of one stream have the same name")

    @property
    def discrete(self) -> bool:
        """Whether every reading counts, and none is predicted."""
        return self.kind == "discrete"

    def meets(self, tolerance: float | None, type_name: str | None = None) -> None:
        """OfferError if the request is stricter than this: a subscriber may ask for the same or less."""
        if type_name is not None and type_name != self.type.name:
            raise OfferError(f'the sensors are of type "{self.type.name}", not "{type_name[:60]}"; ask for that type')
        if tolerance is not None and self.precision is not None and tolerance < self.precision:
            raise OfferError(
                f"a tolerance of {tolerance:g} is stricter than the {self.precision:g} that is offered; "
                "ask for that or more"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What an exchange tells a publisher: the tightest tolerance, and the load that its subscribers bear."""

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN

    tolerance: _Precision | None = None
    load: _Share | None = None
    subscribers: Annotated[int, Field(ge=0)] = 0
    lossy: bool = False  # some of them may lose messages


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSignal:
    """What a subscriber says: with this target load of its publishers it would keep up (Eq. 9)."""

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN

    load: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resync:
    """What a subscriber lacks: states of these sensors, and those told in messages that it missed; or all states."""

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN

    sensors: (
        Annotated[tuple[Annotated[int, Field(ge=0, lt=MOST_SENSORS)], ...], Field(max_length=MOST_SENSORS)] | None
    ) = None
    batches: Annotated[tuple[tuple[_Number, _Number], ...], Field(max_length=MOST_GAPS)] | None = None

    @property
    def everything(self) -> bool:
        """Whether all states are asked for."""
        return self.sensors is None and self.batches is None

    @property
    def named(self) -> int:
        """How many sensors and messages are named; more than there are, if everything is asked for."""
        messages = sum((last - first) % WRAP + 1 for first, last in self.batches or ())
        return WRAP if self.everything else len(self.sensors or ()) + messages


_KINDS: dict[type[Any], TypeAdapter[Any]] = {one: TypeAdapter(one) for one in (Offer, Grant, LoadSignal, Resync)}


def to_json(thing: Offer | Grant | LoadSignal | Resync) -> bytes:
    """As it goes over the wire."""
    return json.dumps({"format": FORMAT, **asdict(thing)}, separators=(",", ":"), allow_nan=False).encode()


def from_json(kind: type[T], payload: bytes) -> T:
    """What such a message says; OfferError in a line if it says nothing of the kind."""
    what = kind.__name__.lower()
    if len(payload) > MOST_BYTES:
        raise OfferError(f"this {what} has {len(payload)} bytes; at most {MOST_BYTES} are read")
    try:
        data = json.loads(payload)
    except (ValueError, RecursionError):
        raise OfferError(f"this {what} is not JSON") from None
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise OfferError(f'this is no {what} of format {FORMAT}; write {{"format": {FORMAT}, ...}}')
    return checked(kind, data)


def checked(kind: type[T], data: dict[str, Any]) -> T:
    """One of these, from plain data."""
    try:
        return _KINDS[kind].validate_python(data)  # type: ignore[no-any-return]
    except ValidationError as problems:
        first, what = problems.errors(include_url=False)[0], kind.__name__.lower()
        where = ".".join(str(part) for part in first["loc"][:2]) or what
        raise OfferError(f"{what}: {where}: {str(first['msg']).removeprefix('Value error, ')}") from None


def delta_in_force(offer: Offer, grant: Grant | None) -> float:
    """The precision a publisher keeps to without a controller: the tightest tolerance granted, or what it offers."""
    assert offer.precision is not None
    if grant is None or grant.tolerance is None or not math.isfinite(grant.tolerance):
        return offer.precision
    return max(offer.precision, grant.tolerance)
