"""The files of the log, as all see them who read it: where blocks begin, and what is in them.

A position is a number of bytes since the log began. A segment is a file named by the position of its first byte; the
next one follows without a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from firelane.errors import StoreError
from firelane.pipeline.mqtt.blocks import HEADER_BYTES, MESSAGES, Header, body_at, header_at, messages_in

BATCH_BYTES = 4_000_000  # of messages that are handed on together


def segment_path(folder: Path, first: int) -> Path:
    """The file of the segment that begins at this position."""
    return folder / f"{first:020d}.log"


def firsts(folder: Path) -> list[int]:
    """The positions at which segments begin, lowest first."""
    return sorted(int(path.stem) for path in folder.glob("[0-9]*.log"))


def parts(folder: Path, start: int, end: int) -> list[tuple[int, int, int]]:
    """A stretch of the log, segment by segment: where the segment begins, and from where to where the stretch is in it.

    A part of the log that is no longer there, or not yet, is a StoreError.
    """
    if start == end:
        return []
    begun = firsts(folder)
    at = bisect_right(begun, start) - 1
    if at < 0:
        oldest = f"it begins at {begun[0]}" if begun else "it is empty"
        raise StoreError(f"the log no longer has position {start} ({oldest})", path=str(folder))
    edges = [*begun[at:], max(end, begun[-1])]
    return [(first, max(first, start), min(after, end)) for first, after in pairwise(edges) if max(first, start) < end]


def headers(folder: Path, start: int, end: int) -> Iterator[Header]:
    """The headers of all blocks from one position to another."""
    for first, begin, until in parts(folder, start, end):
        with segment_path(folder, first).open("rb") as file:
            position = begin
            while position < until:
                file.seek(position - first)
                header = header_at(file.read(HEADER_BYTES), 0, position)
                if header is None:
                    raise _damaged(folder, first, position)
                yield header
                position = header.end


def farthest(folder: Path, start: int, end: int, most_bytes: int) -> int:
    """How far one may read from `start` on without reading more than so many bytes; one block at least."""
    if end - start <= most_bytes:
        return end
    reached = start
    for header in headers(folder, start, end):
        if reached > start and header.end - start > most_bytes:
            break
        reached = header.end
    return reached


def stretches(folder: Path, start: int, end: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """A stretch of the log in parts of about so many bytes."""
    while start < end:
        reached = farthest(folder, start, end, most_bytes)
        yield start, reached
        start = reached


def messages(folder: Path, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The messages from one position to another, in batches worth handing on."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for body in bodies(folder, start, end):
        waiting.append(messages_in(body))
        size += len(body)
        if size >= BATCH_BYTES:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def bodies(folder: Path, start: int, end: int) -> Iterator[bytes]:
    """The bodies of all blocks of messages from one position to another."""
    for first, begin, until in parts(folder, start, end):
        with segment_path(folder, first).open("rb") as file:
            file.seek(begin - first)
            data = file.read(until - begin)
        position = begin
        while position < until:
            header = header_at(data, position - begin, position)
            body = None if header is None else body_at(data, position - begin, header)
            if header is None or body is None:
                raise _damaged(folder, first, position)
            if header.kind == MESSAGES:
                yield body
            position = header.end


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _damaged(folder: Path, first: int, position: int) -> StoreError:
    return StoreError(f"the log is damaged at position {position}", path=str(segment_path(folder, first)))
