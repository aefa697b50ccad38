"""The control packets of MQTT 3.1.1 and 5, as plain data (section 3). No input or output here."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from firelane.mqtt.reasons import Reason

V3, V5 = 4, 5  # protocol levels of 3.1.1 and 5


class Kind(IntEnum):
    """Packet types (section 2.1.2)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


@dataclass(slots=True, kw_only=True)
class Will:
    """What to publish when a client is lost."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Connect:
    """A client introduces itself (section 3.1)."""

    client_id: str
    version: int = V5
    clean_start: bool = True
    keep_alive_s: int = 0
    user: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Connack:
    """And is let in, or not (section 3.2)."""

    session_present: bool = False
    reason: int = Reason.SUCCESS  # for 3.1.1 its own return codes, 0 to 5
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Publish:
    """A message, in either direction (section 3.3)."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    duplicate: bool = False
    packet_id: int = 0  # only with QoS 1 and 2
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Ack:
    """PUBACK, PUBREC, PUBREL or PUBCOMP: `kind` says which."""

    kind: Kind
    packet_id: int
    reason: int = Reason.SUCCESS
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Subscription:
    """One filter of a SUBSCRIBE and its options."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


@dataclass(slots=True, kw_only=True)
class Subscribe:
    """Filters that a client wants (section 3.8)."""

    packet_id: int
    subscriptions: list[Subscription]
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Unsubscribe:
    """Filters that it no longer wants (section 3.10)."""

    packet_id: int
    filters: list[str]
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Suback:
    """SUBACK or UNSUBACK, one reason a filter (3.1.1 has none in UNSUBACK)."""

    kind: Kind
    packet_id: int
    reasons: list[int]
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Ping:
    """PINGREQ or PINGRESP."""

    kind: Kind


@dataclass(slots=True, kw_only=True)
class Disconnect:
    """The end of a connection, and why (section 3.14)."""

    reason: int = Reason.SUCCESS
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Auth:
    """A step of extended authentication (section 3.15)."""

    reason: int = Reason.SUCCESS
    properties: dict[str, Any] = field(default_factory=dict)


Packet = Connect | Connack | Publish | Ack | Subscribe | Suback | Unsubscribe | Ping | Disconnect | Auth
