"""What travels between publishers and subscribers of sensors over DDS.

    module firelane { @final struct SensorUpdates { @key string stream; sequence<octet> payload; }; };

The library's own coding makes a Python number of every byte; the methods here do the same with slices. It reads the
annotations of fields as what they are, so they may not become text (`from __future__ import annotations`).
"""

import struct
from dataclasses import dataclass
from typing import Any, Self

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import key
from cyclonedds.idl.types import byte, sequence

PLAIN_CDR = b"\x00\x01\x00\x00"  # little-endian, XCDR version 1
PLAIN_CDR2 = b"\x00\x07\x00\x00"  # and version 2: for this type they only differ in this
HEADER_BYTES = 4


@dataclass
class SensorUpdates(IdlStruct, typename="firelane.SensorUpdates"):  # type: ignore[call-arg, misc]
    """Updates of a stream's sensors; a stream with a name that is not UTF-8 arrives with an empty one."""

    stream: str
    payload: sequence[byte]
    key("stream")

    def serialize(self, buffer: Any = None, endianness: Any = None, use_version_2: bool | None = None) -> bytes:
        """As DDS writes it (XCDR, little-endian)."""
        name = self.stream.encode() + b"\0"
        head = PLAIN_CDR2 if use_version_2 else PLAIN_CDR
        padding = b"\0" * (-len(name) % 4)
        size, count = struct.pack("<I", len(name)), struct.pack("<I", len(self.payload))
        return b"".join((head, size, name, padding, count, self.payload))

    @classmethod
    def deserialize(cls, data: bytes, has_header: bool = True, use_version_2: bool | None = None) -> Self:
        """The sample of bytes that the library has found to be of this type."""
        order, stream, at = _stream(data)
        at += -at % 4
        (count,) = struct.unpack_from(order, data, at)
        return cls(stream=stream, payload=data[at + 4 : at + 4 + count])

    @classmethod
    def deserialize_key(cls, data: bytes, has_header: bool = True, use_version_2: bool | None = None) -> Self:
        """The sample of which only the stream was sent."""
        return cls(stream=_stream(data)[1], payload=b"")


def _stream(data: bytes) -> tuple[str, str, int]:
    """The order of bytes, the name at the beginning, and where it ends."""
    order = "<I" if data[1] & 1 else ">I"
    (length,) = struct.unpack_from(order, data, HEADER_BYTES)
    end = HEADER_BYTES + 4 + length
    try:
        return order, data[HEADER_BYTES + 4 : end - 1].decode(), end
    except UnicodeDecodeError:
        return order, "", end
