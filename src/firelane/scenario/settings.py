"""How the live exchange is run: who may do what, limits, listeners, the broker upstream (`exchange:` of a scenario).

Nothing here changes what is predicted or planned from a file, but for how far precision may be widened (`sense.widen`).
The secrets never leave it: not in a message, not in a digest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from firelane.mqtt.topics import filter_problem, topic_problem
from firelane.scenario.control_settings import ControlSettings
from firelane.scenario.fields import STRICT, optional
from firelane.scenario.need import Need, NeedChange
from firelane.scenario.overlay_settings import OverlaySettings
from firelane.scenario.sense_settings import SenseSettings
from firelane.scenario.telemetry_settings import TelemetrySettings
from firelane.units import DURATION, RATE, SHARE, SIZE, WEIGHT

Action = Literal["publish", "subscribe"]
ApiRole = Literal["read", "operate", "admin"]

LARGEST_PACKET_BYTES = 268_435_460  # the largest that MQTT can express
LONGEST_KEEP_ALIVE_S = 65_535
LAST_PORT = 65_535
LARGEST_DATAGRAM_BYTES = 65_507  # that UDP over IPv4 can carry
LAST_TOPIC_ID = 65_534  # of MQTT-SN

_ARGON2 = re.compile(r"\$argon2(id|i|d)\$v=\d+\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+\Z")
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")  # what an Authorization header may carry (RFC 6750)


def _argon2_hash(text: str) -> str:
    if not _ARGON2.match(text):
        raise ValueError("a password is kept as an argon2 hash, never in clear; make one with `firelane password`")
    return text


def _bearer(text: str) -> str:
    if not _BEARER.match(text):
        raise ValueError("a token is letters, digits and any of . _ ~ + / -; make one with e.g. `openssl rand -hex 32`")
    return text


def _plain_filter(topic_filter: str) -> str:
    if problem := filter_problem(topic_filter):
        raise ValueError(problem)
    if topic_filter.startswith("$share/"):
        raise ValueError("shared groups are formed by live clients; name the plain filter here")
    return topic_filter


def _topic(name: str) -> str:
    if problem := topic_problem(name):
        raise ValueError(problem)
    return name


def _one_level(name: str) -> str:
    if "/" in name or topic_problem(name):
        raise ValueError("clients write this name as one level of a filter; use letters and digits, not / + or #")
    return name


def _whole_seconds(seconds: float | None) -> float | None:
    if seconds is not None and not (seconds.is_integer() and seconds <= LONGEST_KEEP_ALIVE_S):
        raise ValueError(f"MQTT counts whole seconds up to {LONGEST_KEEP_ALIVE_S}; write e.g. 60 s, or 0 for none")
    return seconds


_Text = Annotated[str, Field(min_length=1)]
_Filter = Annotated[str, AfterValidator(_plain_filter)]
_Count = Annotated[int, Field(strict=True, ge=1)]
_Port = Annotated[int, Field(strict=True, ge=0, le=LAST_PORT)]
_Size = Annotated[int, BeforeValidator(SIZE.parse), Field(ge=1)]
_Duration = Annotated[float, BeforeValidator(DURATION.parse)]
_OptionalDuration = Annotated[float | None, optional(DURATION)]
_OptionalRate = Annotated[float | None, optional(RATE), Field(gt=0)]
_Actions = Annotated[tuple[Action, ...] | None, Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """Lets someone (a user, a role, a client id or `*`) do something with the topics of a filter, or forbids it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    who: _Text
    filter: _Filter
    allow: _Actions = None
    deny: _Actions = None

    def __post_init__(self) -> None:
        if (self.allow is None) == (self.deny is None):
            raise ValueError("give either allow or deny, e.g. allow: [publish, subscribe]")

    @property
    def actions(self) -> tuple[Action, ...]:
        """What the rule is about, allowed or not."""
        return self.allow or self.deny or ()


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Someone with an argon2 password hash; without one only a client certificate proves who it is."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    password: Annotated[str, AfterValidator(_argon2_hash)] | None = field(default=None, repr=False)
    roles: tuple[_Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token for the REST interface and what it may do there."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    token: Annotated[str, AfterValidator(_bearer)] = field(repr=False)
    roles: tuple[ApiRole, ...] = ("read",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one client, one address or everybody together may ask for."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    packet_bytes: Annotated[_Size, Field(alias="packet", le=LARGEST_PACKET_BYTES)] = 1_000_000
    inflight: Annotated[_Count, Field(le=65_535)] = 100
    queue: _Count = 1000
    queue_bytes: Annotated[_Size, Field(alias="queue_size")] = 16_000_000
    subscriptions: _Count = 1000
    publish_hz: Annotated[_OptionalRate, Field(alias="publish_rate")] = None
    connect_hz: Annotated[_OptionalRate, Field(alias="connect_rate")] = None
    connections: _Count = 10_000
    sessions: _Count = 100_000
    retained: Annotated[int, Field(strict=True, ge=0)] = 1_000_000
    log_bytes: Annotated[_Size, Field(alias="log")] = 1_000_000_000
    session_expiry_s: Annotated[_OptionalDuration, Field(alias="session_expiry")] = None
    topic_aliases: Annotated[int, Field(strict=True, ge=0, le=65_535)] = 100
    streams: Annotated[int, Field(strict=True, ge=0)] = 1000
    stream_sensors: Annotated[int, Field(strict=True, ge=0)] = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What the subscriptions of some clients need, or of any that name the profile (`$need/NAME/FILTER`)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    clients: Annotated[tuple[_Text, ...], Field(alias="for")] = ()
    need: NeedChange

    def __post_init__(self) -> None:
        Need(**self.need.given)  # refuses a knee or points without their utility


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRule:
    """What some subscriptions need while a phase lasts: those of clients, to a filter, of a category."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    clients: Annotated[tuple[_Text, ...], Field(alias="for", min_length=1)] = ("*",)
    filter: _Filter = "#"
    category: _Text | None = None
    need: NeedChange

    def __post_init__(self) -> None:
        Need(**self.need.given)  # refuses a knee or points without their utility


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """The most that the subscriptions of a role (or `*`) get: weight, share that must be kept, best class."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    weight: Annotated[float | None, optional(WEIGHT)] = None
    min_share: Annotated[float | None, optional(SHARE)] = None
    priority: Annotated[int, Field(strict=True, ge=0)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The encrypted listener; with `client_ca` a client certificate is required and its common name is the user."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    port: _Port = 8883
    certificate: _Text
    key: _Text
    client_ca: _Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocket:
    """The listener for MQTT over WebSocket."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    port: _Port = 9001


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSn:
    """The listener for MQTT-SN over UDP: topics agreed by number, how much it may hold, how often it tries."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    port: _Port = 1884
    predefined: dict[Annotated[int, Field(ge=1, le=LAST_TOPIC_ID)], Annotated[str, AfterValidator(_topic)]] = field(
        default_factory=dict
    )
    datagram_bytes: Annotated[_Size, Field(alias="datagram", ge=64, le=LARGEST_DATAGRAM_BYTES)] = 1400
    clients: _Count = 1000
    topics: Annotated[_Count, Field(le=LAST_TOPIC_ID)] = 256
    retry_s: Annotated[_Duration, Field(alias="retry", gt=0)] = 2.0
    retries: _Count = 5
    gateway_id: Annotated[int, Field(strict=True, ge=1, le=255)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Another broker: what is taken from it (`in`) and what is passed on to it (`out`)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    host: _Text
    port: Annotated[_Port, Field(ge=1)] = 1883
    in_filters: Annotated[tuple[_Filter, ...], Field(alias="in")] = ()
    out_filters: Annotated[tuple[_Filter, ...], Field(alias="out")] = ()
    user: _Text | None = None
    password: str | None = field(default=None, repr=False)
    client_id: _Text | None = None
    tls: bool = False

    def __post_init__(self) -> None:
        if not self.in_filters and not self.out_filters:
            raise ValueError('nothing goes in or out; give filters, e.g. in: ["#"] or out: [alerts/#]')
        if self.password is not None and self.user is None:
            raise ValueError("there is a password but no user; name the user too")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeSettings:
    """Everything that `serve` can be told about the MQTT broker and the access to it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    keep_alive_s: Annotated[_OptionalDuration, AfterValidator(_whole_seconds), Field(alias="keep_alive")] = None
    anonymous: Literal["never", "loopback", "always"] = "loopback"
    access: tuple[AccessRule, ...] = ()
    users: dict[_Text, User] = field(default_factory=dict)
    tokens: dict[_Text, Token] = field(default_factory=dict)
    profiles: dict[Annotated[str, AfterValidator(_one_level)], Profile] = field(default_factory=dict)
    phases: dict[_Text, tuple[PhaseRule, ...]] = field(default_factory=dict)
    caps: dict[_Text, Cap] = field(default_factory=dict)
    limits: Limits = Limits()
    durability: Literal["fsync", "memory"] = "fsync"
    bandwidth: Literal["measured", "configured"] = "measured"
    tls: Tls | None = None
    websocket: WebSocket | None = None
    mqtt_sn: MqttSn | None = None
    upstream: Upstream | None = None
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    control: ControlSettings = field(default_factory=ControlSettings)
    sense: SenseSettings = field(default_factory=SenseSettings)
    overlay: OverlaySettings = field(default_factory=OverlaySettings)
    system_interval_s: Annotated[_Duration, Field(alias="system_interval")] = 10.0

    def __post_init__(self) -> None:
        roles = {role for user in self.users.values() for role in user.roles}
        for role in self.caps:
            if role not in roles and role != "*":
                raise ValueError(f'caps: no user has the role "{role[:40]}"; name a role of users, or "*"')
