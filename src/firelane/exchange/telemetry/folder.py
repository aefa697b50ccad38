"""A folder of Parquet files that never holds more than so many bytes, nor half a file under its name.

    day=2026-05-09/part-20260509T071530.123456Z-<boot>-<number>.parquet

The day and the time are those (UTC) at which the first of its records was taken, so names sort by time; all records of
a file were taken on its day, though a message may have come in before. Whatever reads partitioned folders reads this
one. A file is written as `.part-....draft`, which readers pass over, and renamed when it is whole and on disk. Drafts
that a crash left are removed at the next start.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from firelane.exchange.log.files import sync_data, write_all

_PACKED = {
    "record_id": "DELTA_BYTE_ARRAY",
    "ingress_us": "DELTA_BINARY_PACKED",
    "time_us": "DELTA_BINARY_PACKED",
    "delay_us": "DELTA_BINARY_PACKED",
}  # a third of the bytes that dictionaries take; for all other columns dictionaries are best


class Folder:
    """Finished files of one kind, the oldest of which give way to new ones. What cannot be done is an OSError."""

    def __init__(self, path: Path, *, boot: int, cap_bytes: int) -> None:
        self.path = path
        self.bytes = 0
        self._boot = boot
        self._cap_bytes = cap_bytes
        self._files: deque[tuple[Path, int]] = deque()  # oldest first, with their sizes
        self._opened = False
        self._number = 0

    def open(self) -> None:
        """Find what earlier runs left; remove drafts, and what is too much."""
        for draft in self.path.glob("day=*/.part-*.draft"):
            draft.unlink(missing_ok=True)
        found = sorted(self.path.glob("day=*/part-*.parquet"))
        self._files = deque((path, path.stat().st_size) for path in found)
        self.bytes = sum(size for _, size in self._files)
        self._opened = True
        self._make_room(0)

    def write(self, table: pa.Table, wall_s: float, *, instead_of: Path | None = None) -> Path:
        """Keep a table as one more file, whose first records were taken at `wall_s`, or instead of the newest file."""
        if not self._opened:
            self.open()
        content = _encoded(table)
        newest, size = self._files[-1] if self._files else (None, 0)
        again = newest is not None and newest == instead_of
        self._make_room(len(content) - size * again)
        path = newest if newest is not None and again else self._next_path(wall_s)
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        _write_whole(path, content)
        if again and self._files and self._files[-1][0] == path:
            self._files.pop()
            self.bytes -= size
        self._files.append((path, len(content)))
        self.bytes += len(content)
        return path

    def _make_room(self, size: int) -> None:
        if size > self._cap_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        while self.bytes + size > self._cap_bytes:
            path, freed = self._files[0]
            path.unlink(missing_ok=True)
            self._files.popleft()
            self.bytes -= freed
            with suppress(OSError):  # there are others of that day
                path.parent.rmdir()

    def _next_path(self, wall_s: float) -> Path:
        time = datetime.fromtimestamp(wall_s, UTC)
        self._number += 1
        name = f"part-{time:%Y%m%dT%H%M%S.%fZ}-{self._boot:016x}-{self._number:06d}.parquet"
        return self.path / f"day={time:%Y-%m-%d}" / name


def _encoded(table: pa.Table) -> bytes:
    packed = {name: encoding for name, encoding in _PACKED.items() if name in table.column_names}
    others = [name for name in table.column_names if name not in packed]
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd", use_dictionary=others, column_encoding=packed)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.stem}.draft")
    try:
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
        try:
            write_all(file, content, 0)
            sync_data(file)
        finally:
            os.close(file)
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
