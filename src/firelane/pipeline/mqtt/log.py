"""The log: what a broker handed over, kept on disk until Spark has dealt with it. One process writes it, many read it.

It is cut into segments, and those that all readers are done with are removed. Each begins with all there is to know to
go on from there: the log's name and which records have been seen.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from firelane.errors import StoreError
from firelane.pipeline.mqtt.blocks import (
    HEAD,
    Message,
    body_at,
    facts_in,
    head_block,
    header_at,
    messages_block,
    messages_in,
)
from firelane.pipeline.mqtt.notes import State, locked, readers, sync_folder
from firelane.pipeline.mqtt.seen import Seen
from firelane.pipeline.mqtt.segments import firsts, segment_path

SEGMENTS = 16  # that a full log has

_sync = getattr(os, "fdatasync", os.fsync)  # not every system has it


class Log:
    """The writing end of a log; `end` is the position behind the last message that is on disk."""

    def __init__(self, folder: Path, *, cap_bytes: int, lock: int) -> None:
        self.folder = folder
        self.name = ""
        self.end = 0
        self.cut_bytes = 0  # of half a block that was found at the end
        self._cap_bytes = cap_bytes
        self._lock = lock
        self._file = -1
        self._firsts: list[int] = []
        self._seen = Seen()
        self._facts: dict[str, Any] = {}
        self._state = State(folder)
        self._recover()

    @classmethod
    def taken(cls, folder: Path, *, cap_bytes: int) -> Self | None:
        """The log in this folder, made if there is none; nothing if another process is writing it."""
        lock = locked(folder)
        if lock is None:
            return None
        try:
            return cls(folder, cap_bytes=cap_bytes, lock=lock)
        except BaseException:
            os.close(lock)
            raise

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return self.end - self._firsts[0]

    @property
    def full(self) -> bool:
        """Whether it may not grow before readers are done with more of it."""
        return self.size_bytes >= self._cap_bytes

    @property
    def _due(self) -> bool:
        """Whether it is time for another segment."""
        return self.end - self._firsts[-1] >= self._cap_bytes / SEGMENTS

    def append(self, messages: Sequence[Message], now_us: int) -> int:
        """Keep messages; how many were not there before. When this returns they are on disk.

        After an OSError they are not, and may be given again.
        """
        if self._file < 0:
            self._recover()
        try:
            if self._due:
                self._begin(self.end)
            new = [one for one in messages if not self._seen.again(one.payload)]
            if new:
                self._write(messages_block(self.end, new, now_us))
        except BaseException:
            self._close_file()  # what has been seen is to be read from the files again: it may not be there
            raise
        self._tell()
        return len(new)

    def say(self, **facts: Any) -> None:
        """Let the readers know something about the writer."""
        self._facts |= facts
        self._tell()

    def trim(self, names: Sequence[str] = ()) -> None:
        """Remove the segments that the readers of these names are done with, or all that there have ever been.

        One that has not said anything yet has read nothing.
        """
        known = readers(self.folder)
        position = min((known.get(name, 0) for name in names or known), default=0)
        if position >= self.end and self._file >= 0 and self._due:
            self._begin(self.end)  # or a last segment that is itself too large would stay for good
        while len(self._firsts) > 1 and self._firsts[1] <= position:
            segment_path(self.folder, self._firsts[0]).unlink(missing_ok=True)
            del self._firsts[0]

    def close(self) -> None:
        """Let others write."""
        self._close_file()
        self._state.close()
        os.close(self._lock)

    def _recover(self) -> None:
        """Find the end of what is whole, cut off what is not, and remember what is in there."""
        self._firsts = firsts(self.folder)
        if self._firsts:
            self._open_last()
        else:
            self.name = secrets.token_hex(8)
            self._begin(0)
        self._tell()

    def _open_last(self) -> None:
        first = self._firsts[-1]
        path = segment_path(self.folder, first)
        data = path.read_bytes()
        self.end = first + self._replayed(data, first)
        self.cut_bytes = first + len(data) - self.end
        if self.end == first:
            raise StoreError("the head of this segment is damaged; remove the folder to begin anew", path=str(path))
        self._file = os.open(path, os.O_WRONLY)
        if self.cut_bytes:
            os.ftruncate(self._file, self.end - first)
            os.fsync(self._file)

    def _replayed(self, data: bytes, first: int) -> int:
        """Remember what is in a segment; how many of its bytes are whole blocks."""
        place = 0
        while (header := header_at(data, place, first + place)) and (body := body_at(data, place, header)) is not None:
            if header.kind == HEAD:
                facts = facts_in(body)
                self.name, self._seen = facts["log"], Seen.from_data(facts["seen"])
            else:
                for payload in messages_in(body).column("payload").to_pylist():
                    self._seen.again(payload)
            place = header.end - first
        return place

    def _begin(self, first: int) -> None:
        """Another segment; it gets its name when its head is on disk."""
        path = segment_path(self.folder, first)
        draft = path.with_suffix(".draft")
        head = head_block(first, {"log": self.name, "seen": self._seen.to_data()})
        self._close_file()
        self._file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        _write_all(self._file, head, 0)
        os.fsync(self._file)
        draft.replace(path)
        sync_folder(self.folder)
        self._firsts.append(first)
        self.end = first + len(head)

    def _write(self, block: bytes) -> None:
        _write_all(self._file, block, self.end - self._firsts[-1])
        _sync(self._file)
        self.end += len(block)

    def _tell(self) -> None:
        self._state.tell({"log": self.name, "start": self._firsts[0], "position": self.end, **self._facts})

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _write_all(file: int, data: bytes, place: int) -> None:
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            written += os.pwrite(file, view[written:], place + written)
