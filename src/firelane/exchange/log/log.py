"""The log itself: appending, reading back, counting what is live, and giving the oldest segments up for cleaning.

A *location* says where a record is: the number of its segment << 32 | its offset in the file. A *position* counts the
bytes appended since the log was opened. Records count as live until they are released.

Cleaning takes the oldest segment first and goes round: what is still live in it is appended again, then it is dropped.
The order is what makes this safe. A record that ends another is always younger than the one it ends; so when a segment
is the oldest, an ending record in it refers to something in the same segment or already gone, and can go without a
look at what it ended. In any other order the ending record might go first, and what it ended would be found alive at
the next start. It also bounds the log: each round rewrites what is live and frees the rest, which is half or more.

All calls come from one thread; only the callbacks given to `start` are made by another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self
from zlib import crc32

from firelane.errors import StoreError
from firelane.exchange.log.files import OpenFiles, lock_folder, segment_path, sync_data
from firelane.exchange.log.record import (
    FRAME,
    FRAME_BYTES,
    HEADER_BYTES,
    KIND_CRC,
    NEWEST,
    READERS,
    DamageError,
    record_at,
)
from firelane.exchange.log.segment import Found, Segment, cut_tail, damaged, read_segment, reading, segment_numbers
from firelane.exchange.log.spare import Spare, spare_bytes
from firelane.exchange.log.writer import OFFSET, Batch, Writer


class Log:
    """Records of a kind (0 to 255) and a body, kept in a folder; `recovered` says what was there at the start."""

    def __init__(self, folder: Path, *, lock: int, cap_bytes: int, segment_bytes: int, sync: bool) -> None:
        self.appended = 0
        self.recovered: Found | None = None
        self.cap_bytes = cap_bytes
        self.segment_bytes = segment_bytes
        self._folder = folder
        self._lock = lock
        self._spare = Spare(folder, spare_bytes(cap_bytes))
        self._writer = Writer(folder, spare=self._spare, sync=sync)
        self._files = OpenFiles(folder)
        self._segments: dict[int, Segment] = {}  # oldest first
        self._found_bytes = 0
        self._gone_bytes = 0
        self._data = bytearray()  # appended, not handed to the writer yet
        self._end = 0  # location of the next record
        self._limit = 0  # location that no record of this segment may reach beyond

    @classmethod
    def open(cls, folder: Path, *, cap_bytes: int, segment_bytes: int = 64_000_000, sync: bool = True) -> Self:
        """Lock the folder, which is made if it is not there; two processes cannot use one.

        `sync=False` keeps everything the same but never waits for the disk: a crash of the machine may lose anything.
        """
        if not HEADER_BYTES < segment_bytes <= OFFSET:
            raise ValueError(f"segment_bytes must be between {HEADER_BYTES + 1} and {OFFSET}")
        lock = lock_folder(folder)
        return cls(folder, lock=lock, cap_bytes=cap_bytes, segment_bytes=segment_bytes, sync=sync)

    def records(self) -> Iterator[tuple[int, int, bytes]]:
        """Location, kind and body of everything kept, in order; once, to its end, before the first append."""
        if self._segments or self.recovered is not None:
            raise RuntimeError("records() can be read only once")
        with reading(self._folder):
            yield from self._recover(segment_numbers(self._folder))

    def start(self, on_commit: Callable[[int], None], on_failure: Callable[[str | None], None] | None = None) -> None:
        """Start the writer thread, which calls `on_commit(position)` after every batch.

        `on_failure(reason)` is called when `failed` changes, with None when writing works again.
        """
        self._writer.start(on_commit, on_failure)

    def append(self, kind: int, body: bytes) -> int:
        """Put a record behind all others and return its location; it is kept once `committed` reaches `appended`."""
        length = len(body)
        size = FRAME_BYTES + length
        location = self._end
        if location + size > self._limit:
            self._next_segment(size)
            location = self._end
        data = self._data
        data += FRAME.pack(length, crc32(body, KIND_CRC[kind]), kind)
        data += body
        self._end = location + size
        self.appended += size
        return location

    def note(self, kind: int, body: bytes) -> None:
        """The same for a record that counts as released from the start, as it only ends another."""
        location = self.append(kind, body)
        self._segments[location >> 32].released_bytes += FRAME_BYTES + len(body)
        self._gone_bytes += FRAME_BYTES + len(body)

    def flush(self) -> None:
        """Hand what was appended to the writer, which takes it at once or with its next batch."""
        if self._data:
            segment = self._segments[self._end >> 32]
            segment.size_bytes += len(self._data)
            segment.record_bytes += len(self._data)
            start = self._end - len(self._data)
            self._writer.put(Batch(start=start, data=self._data, position=self.appended))
            self._data = bytearray()

    def read(self, location: int) -> tuple[int, bytes]:
        """Kind and body of the record at a location, from memory while it is not on disk."""
        start = self._end - len(self._data)
        if location >= start:
            return record_at(self._data, location - start)
        if batch := self._writer.holds(location):
            return record_at(batch.data, location - batch.start)
        return self._read_file(self._segments[location >> 32], location & OFFSET)

    def release(self, location: int, body_bytes: int) -> None:
        """Say that a record with a body of this size matters no more; in a dropped segment it does not count."""
        segment = self._segments.get(location >> 32)
        if segment is not None:
            segment.released_bytes += FRAME_BYTES + body_bytes
            self._gone_bytes += FRAME_BYTES + body_bytes

    def keep_only(self, live: Mapping[int, int]) -> None:
        """After `records()`: of what was found only these still matter, by location with the bytes of their body."""
        live_bytes = dict.fromkeys(self._segments, 0)
        for location, body_bytes in live.items():
            live_bytes[location >> 32] += FRAME_BYTES + body_bytes
        for segment in self._segments.values():
            segment.released_bytes = segment.record_bytes - live_bytes[segment.number]
        self._gone_bytes = self._found_bytes - sum(live_bytes.values())

    def oldest_to_clean(self) -> int | None:
        """The oldest segment if it is worth cleaning: more than half of the log is dead, or nothing in it is live.

        While writing fails, what is to be appended again from it must be little enough for the spare file to give way.
        """
        oldest = next(iter(self._segments.values()), None)
        if oldest is None or self._is_last(oldest) or oldest.end > self._writer.written_to:
            return None
        crowded = self.bytes > 2 * max(self.live_bytes, self.segment_bytes)
        fits = self.failed is None or oldest.live_bytes <= self._spare.size_bytes // 2
        return oldest.number if (crowded and fits) or oldest.live_bytes == 0 else None

    def segment_records(self, number: int) -> Iterator[tuple[int, int, bytes]]:
        """Location, kind and body of every record of a segment, for what is live to be appended again."""
        path = segment_path(self._folder, number)
        with reading(path):
            for offset, kind, body in read_segment(path, Segment(number=number)):
                yield number << 32 | offset, kind, body

    def drop_segment(self, number: int) -> None:
        """Forget the oldest segment now, and delete it once everything appended so far is committed.

        After a crash in between it is there again, and what was appended again from it is then read twice.
        """
        segment = next(iter(self._segments.values()))
        if segment.number != number or self._is_last(segment):
            raise ValueError(f"segment {number} is not the oldest, or it is still written to")
        del self._segments[number]
        self._gone_bytes += segment.live_bytes
        self._files.forget(number)
        self._writer.drop(number, self.appended)

    @property
    def committed(self) -> int:
        """The position up to which everything is on disk."""
        return self._writer.committed

    @property
    def failed(self) -> str | None:
        """Why nothing new should be appended at present, in one line; writing is tried again, and nothing is lost."""
        return self._writer.failed

    @property
    def live_bytes(self) -> int:
        """Bytes of the records that are not released."""
        return self._found_bytes + self.appended - self._gone_bytes

    @property
    def full(self) -> bool:
        """Whether the cap is reached: nothing new should be accepted."""
        return self.live_bytes >= self.cap_bytes

    def close(self) -> None:
        """Write what was appended, end the thread and unlock the folder."""
        if self._lock < 0:
            return
        self.flush()
        lost_bytes = self._writer.stop()
        self._files.close()
        os.close(self._lock)
        self._lock = -1
        if lost_bytes:
            raise StoreError(f"the last {lost_bytes} bytes were not written ({self.failed})", path=str(self._folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _recover(self, numbers: list[int]) -> Iterator[tuple[int, int, bytes]]:
        count, cut = 0, Found(records=0, segments=0)
        for number in numbers:
            path = segment_path(self._folder, number)
            segment = self._segments[number] = Segment(number=number)
            try:
                for offset, kind, body in read_segment(path, segment):
                    segment.record_bytes += FRAME_BYTES + len(body)
                    self._found_bytes += FRAME_BYTES + len(body)
                    count += 1
                    yield number << 32 | offset, kind, body
            except DamageError as damage:
                if number != numbers[-1] or not segment.torn_at(damage.at):
                    raise damaged(path, damage, last=number == numbers[-1]) from None
                cut = cut_tail(path, segment, damage.at)
        self._continue()
        self.recovered = replace(cut, records=count, segments=len(numbers))

    def _continue(self) -> None:
        """Go on in the last segment, or in a new one if it is of an older version."""
        last = next(reversed(self._segments.values()), Segment(number=0, version=0))
        if last.version == NEWEST:
            sync_data(self._files.get(last.number))  # what a killed process left in memory has been read as kept
            self._begin(last)
        else:
            self._begin(Segment(number=last.number + 1))
        self._writer.written_to = self._end

    def _begin(self, segment: Segment) -> None:
        self._segments[segment.number] = segment
        self._end = segment.end
        self._limit = (segment.number << 32) + self.segment_bytes

    def _next_segment(self, size: int) -> None:
        if self.recovered is None:
            raise RuntimeError("records() must be read to its end before the first append")
        if size > OFFSET - HEADER_BYTES:
            raise ValueError("a record is larger than a segment can ever be")
        if self._end & OFFSET > HEADER_BYTES:  # otherwise a record larger than segment_bytes has one of its own
            self.flush()
            self._begin(Segment(number=(self._end >> 32) + 1))

    def _is_last(self, segment: Segment) -> bool:
        return segment.number == self._end >> 32

    def _read_file(self, segment: Segment, offset: int) -> tuple[int, bytes]:
        at = offset

        def read(count: int) -> bytes:
            nonlocal at
            at += count
            return os.pread(file, count, at - count)

        with reading(segment_path(self._folder, segment.number)):
            file = self._files.get(segment.number)
            kind, body, _ = READERS[segment.version](read, offset, segment.size_bytes)
        return kind, body

    @property
    def bytes(self) -> int:  # last, for its name is that of a type
        """Bytes of all segments, on disk or still in memory."""
        return sum(segment.size_bytes for segment in self._segments.values()) + len(self._data)
