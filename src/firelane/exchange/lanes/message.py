"""A message inside the exchange: what was published, and how it looks on the wire to whom.

The bytes of a QoS 0 copy are the same for every subscriber of one protocol version, so they are made once.
Whoever has it otherwise (a packet identifier, subscription identifiers, an alias, time already spent) gets
bytes of its own.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, ClassVar

from firelane.mqtt.fields import four_bytes, string, two_bytes, variable
from firelane.mqtt.packets import V3, V5
from firelane.mqtt.properties import write_properties

if TYPE_CHECKING:
    from firelane.exchange.clients.session import Session

NEVER = math.inf
_START = struct.Struct(">BBH")  # of a short PUBLISH: first byte, length, and the length of the topic
NUMBER = "firelane-number"  # the user property of a copy that says which message it is of
_FORWARDED = ("payload_format_indicator", "content_type", "response_topic", "correlation_data", "user_property")


class Message:
    """One publication. `properties` are the encoded ones that every subscriber gets unaltered."""

    weight: ClassVar[float] = 0.0  # of a sampled one, see SampledMessage
    first: ClassVar[int] = 0  # of a retained one that is told again, see RetoldMessage

    __slots__ = (
        "expires_at",
        "expiry_s",
        "payload",
        "properties",
        "publisher",
        "qos",
        "retain",
        "sequence",
        "topic",
        "wire3",
        "wire5",
    )

    def __init__(
        self, topic: bytes, payload: bytes, qos: int, retain: bool, publisher: Session | None, sequence: int
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.publisher = publisher
        self.sequence = sequence
        self.properties = b""
        self.expires_at = NEVER
        self.expiry_s = 0
        self.wire3: bytes | None = None
        self.wire5: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """What holding it costs, near enough."""
        return len(self.payload) + len(self.topic) + len(self.properties) + 200

    def take_properties(self, properties: dict[str, Any], now: float) -> None:
        """Keep what is forwarded (MQTT-3.3.2-4, -15, -16, -17, -18, -20) and start the clock of an expiry."""
        kept = {name: value for name, value in properties.items() if name in _FORWARDED}
        self.properties = without_length(write_properties(kept)) if kept else b""
        if "message_expiry_interval" in properties:
            self.expiry_s = properties["message_expiry_interval"]
            self.expires_at = now + self.expiry_s

    def wire(self, version: int) -> bytes:
        """The bytes of a fresh QoS 0 copy without anything of its own; made once per version."""
        if version == V5:
            if self.wire5 is None:
                self.wire5 = self.encoded(V5, 0x30, 0, self._expiry(self.expiry_s), self.topic)
            return self.wire5
        if self.wire3 is None:
            self.wire3 = self.encoded(V3, 0x30, 0, b"", self.topic)
        return self.wire3

    def encoded(self, version: int, first: int, packet_id: int, extra: bytes, topic: bytes) -> bytes:
        """PUBLISH with this first byte; `extra` are further encoded properties of an MQTT 5 copy."""
        behind = packet_id.to_bytes(2, "big") if first & 0x06 else b""
        if version == V5:
            size = len(self.properties) + len(extra)
            behind += variable(size) + self.properties + extra if size else b"\0"
        topic_bytes = len(topic)
        length = 2 + topic_bytes + len(behind) + len(self.payload)
        if length < 128:
            return b"".join((_START.pack(first, length, topic_bytes), topic, behind, self.payload))
        return b"".join((bytes((first,)), variable(length), two_bytes(topic_bytes), topic, behind, self.payload))

    def own_properties(self, identifiers: tuple[int, ...], alias: int, now: float) -> bytes:
        """The properties of one copy: the time it has left (MQTT-3.3.2-6), its subscriptions' identifiers, an alias."""
        extra = b""
        if self.expires_at != NEVER:
            left_s = math.ceil(self.expires_at - now)
            sent_with_s = self.expiry_s or left_s  # which the log does not know; a rounding error more is no more
            extra = self._expiry(max(0, min(left_s, sent_with_s)))
        for identifier in identifiers:
            extra += b"\x0b" + variable(identifier)
        if alias:
            extra += b"\x23" + two_bytes(alias)
        return extra

    def _expiry(self, seconds: int) -> bytes:
        return b"" if self.expires_at == NEVER else b"\x02" + four_bytes(seconds)


def user_property(name: str, value: str) -> bytes:
    """A user property, encoded."""
    return b"\x26" + string(name) + string(value)


_NUMBER = user_property(NUMBER, "")[:-2]  # up to its value


def number_property(sequence: int, first: int = 0) -> bytes:
    """What says which message a copy is of, encoded, and under which number it was published if it is told again."""
    digits = b"%d %d" % (sequence, first) if first else b"%d" % sequence
    return _NUMBER + two_bytes(len(digits)) + digits


class SampledMessage(Message):
    """A message whose deliveries are recorded; it stands for `weight` messages."""

    __slots__ = ("weight",)
    weight: float  # type: ignore[misc]


class RetoldMessage(Message):
    """A retained message that is told again, under another number than its `first`."""

    __slots__ = ("first",)
    first: int  # type: ignore[misc]


class Numbers:
    """Numbers messages as they come in."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """The next number."""
        self.last += 1
        return self.last

    def again(self, message: Message, *, says_first: bool = False) -> Message:
        """The same message under a number of its own, as a session that is owed it twice must tell the two apart; it
        may say what its first number was."""
        kind = RetoldMessage if says_first else Message
        again = kind(message.topic, message.payload, message.qos, message.retain, message.publisher, self.next())
        again.properties = message.properties
        if isinstance(again, RetoldMessage):
            again.first = message.sequence
        again.expires_at, again.expiry_s = message.expires_at, message.expiry_s
        return again


def without_length(encoded: bytes) -> bytes:
    """Encoded properties without the variable length before them."""
    at = 0
    while encoded[at] >= 0x80:
        at += 1
    return encoded[at + 1 :]
