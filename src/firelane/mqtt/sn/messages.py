"""The messages of MQTT-SN 1.2 as plain data (specification, section 5). No input or output here.

A topic is a number that was registered (`TopicKind.NORMAL`) or agreed beforehand (`PREDEFINED`), or a name of exactly
two bytes (`SHORT`). In SUBSCRIBE and UNSUBSCRIBE a `NORMAL` one is a name or a filter of any length.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

PROTOCOL_ID = 1
SHORT_BYTES = 2  # of a topic name that needs no number
FIRE_AND_FORGET = -1  # the QoS of publishing without a connection


class Kind(IntEnum):
    """Message types (section 5.2.2)."""

    ADVERTISE = 0x00
    SEARCHGW = 0x01
    GWINFO = 0x02
    CONNECT = 0x04
    CONNACK = 0x05
    WILLTOPICREQ = 0x06
    WILLTOPIC = 0x07
    WILLMSGREQ = 0x08
    WILLMSG = 0x09
    REGISTER = 0x0A
    REGACK = 0x0B
    PUBLISH = 0x0C
    PUBACK = 0x0D
    PUBCOMP = 0x0E
    PUBREC = 0x0F
    PUBREL = 0x10
    SUBSCRIBE = 0x12
    SUBACK = 0x13
    UNSUBSCRIBE = 0x14
    UNSUBACK = 0x15
    PINGREQ = 0x16
    PINGRESP = 0x17
    DISCONNECT = 0x18
    WILLTOPICUPD = 0x1A
    WILLTOPICRESP = 0x1B
    WILLMSGUPD = 0x1C
    WILLMSGRESP = 0x1D


class TopicKind(IntEnum):
    """What stands for a topic (section 5.3.4)."""

    NORMAL = 0
    PREDEFINED = 1
    SHORT = 2


class ReturnCode(IntEnum):
    """What became of a request (section 5.3.10)."""

    ACCEPTED = 0
    CONGESTION = 1
    INVALID_TOPIC_ID = 2
    NOT_SUPPORTED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertise:
    """A gateway says that it is there, and when it will say so again."""

    gateway_id: int
    duration_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchGateway:
    """A client looks for gateways, so many hops away."""

    radius: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayInfo:
    """And is answered; the address is there only if another client answers for the gateway."""

    gateway_id: int
    address: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """A client introduces itself."""

    client_id: str
    duration_s: int = 0  # keep alive
    clean_session: bool = True
    will: bool = False
    protocol_id: int = PROTOCOL_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """CONNACK, WILLTOPICRESP or WILLMSGRESP: `kind` says which."""

    kind: Kind
    return_code: int = ReturnCode.ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """WILLTOPICREQ, WILLMSGREQ or PINGRESP: nothing but its kind."""

    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class WillTopic:
    """WILLTOPIC or WILLTOPICUPD; without a topic there shall be no will."""

    kind: Kind
    topic: str = ""
    qos: int = 0
    retain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WillMessage:
    """WILLMSG or WILLMSGUPD."""

    kind: Kind
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A topic name gets a number: asked for by a client (0), or given by a gateway."""

    topic_id: int
    message_id: int
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """REGACK or PUBACK: `kind` says which."""

    kind: Kind
    topic_id: int
    message_id: int
    return_code: int = ReturnCode.ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """A message, in either direction; QoS -1 needs no connection."""

    topic: int | str
    payload: bytes
    topic_kind: TopicKind = TopicKind.NORMAL
    message_id: int = 0  # only with QoS 1 and 2
    qos: int = 0
    retain: bool = False
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """PUBREC, PUBREL, PUBCOMP or UNSUBACK: `kind` says which."""

    kind: Kind
    message_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """SUBSCRIBE or UNSUBSCRIBE, of a filter, a short name or a predefined topic."""

    kind: Kind
    message_id: int
    topic: int | str
    topic_kind: TopicKind = TopicKind.NORMAL
    qos: int = 0  # of SUBSCRIBE, as all that follows
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Suback:
    """What was granted, and the number of the topic, if it is a single one."""

    message_id: int
    topic_id: int = 0
    qos: int = 0
    return_code: int = ReturnCode.ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class PingRequest:
    """A client is alive; a sleeping one says who it is, and is sent what waits for it."""

    client_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnect:
    """The end of a connection; with a duration a client only goes to sleep for that long."""

    duration_s: int | None = None


Message = (
    Advertise
    | SearchGateway
    | GatewayInfo
    | Connect
    | Answer
    | Plain
    | WillTopic
    | WillMessage
    | Register
    | Acknowledged
    | Publish
    | Step
    | Subscribe
    | Suback
    | PingRequest
    | Disconnect
)


def is_short(topic: str) -> bool:
    """Whether a topic needs no number, as its name is no longer than one."""
    return len(topic.encode()) == SHORT_BYTES
