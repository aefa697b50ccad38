"""Reason codes of MQTT 5 and the error that carries one, so that the offender can be told."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """MQTT 5, section 2.4; the names are the specification's."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


def in_words(reason: int) -> str:
    """The name of a reason code for people, as "not authorized"."""
    try:
        return Reason(reason).name.lower().replace("_", " ")
    except ValueError:
        return f"reason 0x{reason:02x}"


_ACKNOWLEDGED = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
_RELEASED = frozenset({0x00, 0x92})
# Which reasons a packet may give, by packet type (sections 3.4 to 3.7, 3.14 and 3.15).
REASONS: dict[int, frozenset[int]] = {
    4: _ACKNOWLEDGED,
    5: _ACKNOWLEDGED,
    6: _RELEASED,
    7: _RELEASED,
    14: frozenset({0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)}),
    15: frozenset({0x00, 0x18, 0x19}),
}


class PacketError(Exception):
    """A packet that breaks the protocol: why, as a reason code and in words."""

    def __init__(self, reason: Reason, problem: str) -> None:
        self.reason = reason
        self.problem = problem
        super().__init__(f"{problem} ({reason.name}, 0x{reason:02X})")


def malformed(problem: str) -> PacketError:
    """The bytes cannot be parsed as the specification says (section 4.13)."""
    return PacketError(Reason.MALFORMED_PACKET, problem)


def protocol_error(problem: str) -> PacketError:
    """The bytes can be parsed, but say something that the specification forbids."""
    return PacketError(Reason.PROTOCOL_ERROR, problem)
