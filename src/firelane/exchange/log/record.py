"""The bytes of a segment: a header, then records one after the other. Numbers are little-endian.

    header   magic    8 bytes  b"firelane"
             version  u32      1
             segment  u32      the number in the name of the file
             crc32    u32      over the 16 bytes before it
             vouched  u64      every byte before this offset was on disk when this was written
             crc32    u32      over `vouched`
    record   length   u32      of the body
             crc32    u32      over kind and body
             kind     u8
             body     `length` bytes

`vouched` alone is ever overwritten. It tells damage from the torn end that a power cut may leave: what is not whole
behind it was never promised to anybody, what is not whole before it was.

A later version. The header stays as it is; records may change. READERS keeps a function for every version that was
ever written, so old segments are read by their own; new segments are written in the newest version, and a last segment
of an older version is not continued. Cleaning goes round, so in a log that is used it rewrites them all in the end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from zlib import crc32

NEWEST = 1
HEADER_BYTES = 32
FRAME_BYTES = 9
VOUCHED_AT = 20

FRAME = struct.Struct("<IIB")
KIND_CRC = tuple(crc32(bytes([kind])) for kind in range(256))

_MAGIC = b"firelane"
_IDENTITY = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_VOUCHED = struct.Struct("<Q")

Read = Callable[[int], bytes]


class DamageError(Exception):
    """Bytes that are not what was written, from offset `at` on."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


def pack_header(number: int, version: int = NEWEST) -> bytes:
    """The header of a new segment."""
    identity = _IDENTITY.pack(_MAGIC, version, number)
    return identity + _CRC.pack(crc32(identity)) + pack_vouched(HEADER_BYTES)


def pack_vouched(offset: int) -> bytes:
    """What goes to VOUCHED_AT once everything before `offset` is on disk."""
    vouched = _VOUCHED.pack(offset)
    return vouched + _CRC.pack(crc32(vouched))


def read_header(header: bytes, number: int) -> tuple[int, int]:
    """The version of a segment and how far it is vouched for."""
    if len(header) < HEADER_BYTES:
        raise DamageError(0, "the header is cut short")
    identity, vouched = header[: _IDENTITY.size], header[VOUCHED_AT : VOUCHED_AT + _VOUCHED.size]
    magic, version, its_number = _IDENTITY.unpack(identity)
    if magic != _MAGIC or header[_IDENTITY.size : VOUCHED_AT] != _CRC.pack(crc32(identity)):
        raise DamageError(0, "this is not the header of a log")
    if its_number != number:
        raise DamageError(0, f"this is segment {its_number} under another name")
    if header[VOUCHED_AT + _VOUCHED.size :] != _CRC.pack(crc32(vouched)):
        raise DamageError(VOUCHED_AT, "the checksum in the header is wrong")
    return version, _VOUCHED.unpack(vouched)[0]


def _read_version_1(read: Read, at: int, end: int) -> tuple[int, bytes, int]:
    frame = read(FRAME_BYTES) if end - at >= FRAME_BYTES else b""
    if len(frame) < FRAME_BYTES:
        raise DamageError(at, "the file ends inside a record")
    length, crc, kind = FRAME.unpack(frame)
    after = at + FRAME_BYTES + length
    if after > end:
        raise DamageError(at, "a record reaches beyond the end of the file")
    body = read(length)
    if len(body) < length or crc32(body, KIND_CRC[kind]) != crc:
        raise DamageError(at, "the checksum of a record is wrong")
    return kind, body, after


def record_at(data: bytearray, at: int) -> tuple[int, bytes]:
    """Kind and body of a record in memory, in the newest version."""
    length, _, kind = FRAME.unpack_from(data, at)
    return kind, bytes(data[at + FRAME_BYTES : at + FRAME_BYTES + length])


READERS: dict[int, Callable[[Read, int, int], tuple[int, bytes, int]]] = {1: _read_version_1}
"""By version: read(count), offset of a record and end of the file -> kind, body and offset of the next record."""
