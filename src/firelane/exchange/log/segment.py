"""Segments as they are found on disk: reading them record by record, and mending the last after a crash."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from firelane.errors import StoreError
from firelane.exchange.log.files import segment_path, sync_data, sync_folder
from firelane.exchange.log.record import (
    HEADER_BYTES,
    NEWEST,
    READERS,
    VOUCHED_AT,
    DamageError,
    pack_vouched,
    read_header,
)

_BUFFER_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found when a log was opened.

    `cut_bytes` were the torn end of the last segment and are now at the end of `cut_file`.
    """

    records: int
    segments: int
    cut_bytes: int = 0
    cut_file: Path | None = None


@dataclass(slots=True, kw_only=True)
class Segment:
    """What is known of one segment: its file, and how many bytes of records it holds and how many are released."""

    number: int
    version: int = NEWEST
    size_bytes: int = HEADER_BYTES
    vouched: int = HEADER_BYTES
    record_bytes: int = 0
    released_bytes: int = 0

    @property
    def end(self) -> int:
        """The location behind the last record."""
        return self.number << 32 | self.size_bytes

    @property
    def live_bytes(self) -> int:
        """Bytes of records that still matter."""
        return self.record_bytes - self.released_bytes

    def torn_at(self, offset: int) -> bool:
        """Whether bad bytes at `offset` are the end of what was being written, not damage to what had been."""
        return offset >= self.vouched


def segment_numbers(folder: Path) -> list[int]:
    """The segments in a folder, oldest first; none may be missing between them."""
    numbers = sorted(int(path.stem) for path in folder.glob("[0-9]" * 8 + ".log"))
    for before, number in pairwise(numbers):
        if number != before + 1:
            raise damaged(segment_path(folder, before + 1), DamageError(0, "the file is missing"))
    return numbers


def damaged(path: Path, damage: DamageError, *, last: bool = False) -> StoreError:
    """The error that says where the damage is and what can be done."""
    otherwise = (
        "move the folder away to start empty"
        if last
        else "move it and every older segment away to go on without their records"
    )
    return StoreError(
        f"damaged at byte {damage.at}: {damage.what}; restore this file from a copy, or {otherwise}", path=str(path)
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong while reading `path` into an error for the user."""
    try:
        yield
    except DamageError as damage:
        raise damaged(path, damage) from None
    except OSError as error:
        raise StoreError(f"cannot be used: {error.strerror}", path=str(path)) from None


def read_segment(path: Path, segment: Segment) -> Iterator[tuple[int, int, bytes]]:
    """Offset, kind and body of every record, each checked; fills in the segment's version, size and `vouched`."""
    with path.open("rb", buffering=_BUFFER_BYTES) as file:
        size = segment.size_bytes = os.fstat(file.fileno()).st_size
        # A header is synced before anything is written behind it.
        segment.vouched = HEADER_BYTES if size > HEADER_BYTES else 0
        segment.version, segment.vouched = read_header(file.read(HEADER_BYTES), segment.number)
        read_record = READERS.get(segment.version)
        if read_record is None:
            raise StoreError(
                f"log format {segment.version} is newer than this Firelane reads ({NEWEST}); use a newer Firelane",
                path=str(path),
            )
        if size < segment.vouched:
            raise DamageError(size, f"{segment.vouched - size} bytes of confirmed records are missing at the end")
        at = HEADER_BYTES
        while at < size:
            kind, body, after = read_record(file.read, at, size)
            yield at, kind, body
            at = after


def cut_tail(path: Path, segment: Segment, at: int) -> Found:
    """Take the bytes from `at` on off the last segment and keep them beside it; says what was cut."""
    with path.open("r+b") as file:
        file.seek(at)
        tail = file.read()
        if tail:
            _keep(path.with_suffix(".cut"), tail)
        file.truncate(at)
        if at >= HEADER_BYTES:
            file.seek(VOUCHED_AT)
            file.write(pack_vouched(at))
        file.flush()
        sync_data(file.fileno())
    segment.size_bytes = max(at, HEADER_BYTES)
    cut_file = path.with_suffix(".cut") if tail else None
    return Found(records=0, segments=0, cut_bytes=len(tail), cut_file=cut_file)


def _keep(path: Path, tail: bytes) -> None:
    with path.open("ab") as file:
        file.write(tail)
        file.flush()
        sync_data(file.fileno())
    sync_folder(path.parent)
