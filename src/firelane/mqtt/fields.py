"""The data types packets are made of (MQTT 5, section 1.5): a reader over bytes, and writers of bytes."""

from __future__ import annotations

from firelane.mqtt.reasons import malformed

LONGEST_VARIABLE = 268_435_455


class Reader:
    """Takes fields off a packet's body, one after the other; every shortage or bad value is a PacketError."""

    __slots__ = ("at", "body", "end")

    def __init__(self, body: bytes, at: int = 0, end: int | None = None) -> None:
        self.body = body
        self.at = at
        self.end = len(body) if end is None else end

    def byte(self) -> int:
        """One byte."""
        return self._take(1)[0]

    def two_bytes(self) -> int:
        """A two byte integer."""
        return int.from_bytes(self._take(2), "big")

    def four_bytes(self) -> int:
        """A four byte integer."""
        return int.from_bytes(self._take(4), "big")

    def variable(self) -> int:
        """A variable byte integer, at most four bytes and as short as it can be."""
        value = 0
        for place in range(4):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                if place and byte == 0:
                    raise malformed("a variable byte integer is longer than it needs to be")
                return value
        raise malformed("a variable byte integer has more than four bytes")

    def binary(self) -> bytes:
        """Binary data with its length before it."""
        return self._take(self.two_bytes())

    def string(self) -> str:
        """A UTF-8 string with its length before it."""
        return utf8(self.binary())

    def rest(self) -> bytes:
        """Everything that is left."""
        return self._take(self.end - self.at)

    def finish(self) -> None:
        """Nothing may be left over."""
        if self.at != self.end:
            raise malformed(f"{self.end - self.at} bytes too many at the end of a packet")

    def _take(self, count: int) -> bytes:
        start = self.at
        self.at += count
        if self.at > self.end:
            raise malformed("a packet ends in the middle of a field")
        return self.body[start : self.at]


def utf8(raw: bytes) -> str:
    """A UTF-8 string without the null character (section 1.5.4)."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise malformed("a string is not valid UTF-8") from None
    if "\0" in text:
        raise malformed("a string contains the null character")
    return text


def variable(value: int) -> bytes:
    """A variable byte integer."""
    if not 0 <= value <= LONGEST_VARIABLE:
        raise ValueError(f"{value} does not fit a variable byte integer")
    if value < 128:
        return bytes((value,))
    encoded = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        encoded.append(low | (0x80 if value else 0))
        if not value:
            return bytes(encoded)


def two_bytes(value: int) -> bytes:
    """A two byte integer."""
    return value.to_bytes(2, "big")


def four_bytes(value: int) -> bytes:
    """A four byte integer."""
    return value.to_bytes(4, "big")


def binary(value: bytes) -> bytes:
    """Binary data with its length before it."""
    if len(value) > 65_535:
        raise ValueError("binary data of more than 65 535 bytes does not fit a packet")
    return len(value).to_bytes(2, "big") + value


def string(value: str) -> bytes:
    """A UTF-8 string with its length before it."""
    return binary(value.encode())
