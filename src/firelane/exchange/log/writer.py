"""The thread that writes a log: a batch at a time, synced, tried again for as long as it takes.

While one batch is being synced the next one gathers, so the slower the disk, the larger the batches (group commit);
when a lot comes, the thread itself waits a little, so that a fast disk does not make them small.
A segment is synced to its end before the next one is created, so a crash can tear the last segment only.

A full disk. What frees room, the deletion of dead segments, has to wait for the records that made them dead to be
written; a log that has filled its disk would wait for ever. So a file `spare` takes up a little room from the start, as
far as there is any. When a write finds no room, the spare is deleted and the write tried again at once. `failed` stays
set, so that nothing new takes this room and it is left for the records that end others. Segments go as these are
written, and with twice the size of the spare free it is made again and `failed` is over. It does not count in the
bytes of the log; one that an earlier run left is used; and that it cannot be made is no failure.

The thread shares the interpreter with its caller and has to get hold of it two or three times for each batch. A caller
that is busy should set `sys.setswitchinterval` to about 0.1 ms; with Python's 5 ms a commit may wait for tenths of a
second.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from firelane.errors import printable
from firelane.exchange.log.files import segment_path, sync_data, sync_folder, write_all, write_durably
from firelane.exchange.log.record import HEADER_BYTES, VOUCHED_AT, pack_header, pack_vouched
from firelane.exchange.log.spare import Spare

RETRY_S = 1.0
VOUCH_BYTES = 1_000_000
MUCH_BYTES = 4096  # in one batch: when as much comes again and again, fewer and larger batches take less time
GATHER_S = 0.002
OFFSET = 0xFFFF_FFFF
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(slots=True, kw_only=True)
class Batch:
    """Whole records of one segment, from location `start` on; `position` is the total appended at their end."""

    start: int
    data: bytearray
    position: int
    taken: bool = False

    @property
    def end(self) -> int:
        """The location behind the last record."""
        return self.start + len(self.data)


class Writer:
    """Writes batches in the order they come, and deletes segments once what was to be saved from them is written.

    `committed` and `written_to` are the position and the location up to which everything is on disk; `failed` is why
    nothing can be written at present, or nothing but what the room of the spare file is for.
    """

    def __init__(self, folder: Path, *, spare: Spare, sync: bool) -> None:
        self.committed = 0
        self.written_to = 0
        self.failed: str | None = None
        self._folder = folder
        self._spare = spare
        self._sync = sync
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        self._drops: deque[tuple[int, int]] = deque()  # position to wait for, segment
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._on_commit: Callable[[int], None] = lambda position: None
        self._on_failure: Callable[[str | None], None] = lambda reason: None
        self._file = -1
        self._end = 0  # location up to which the open file is written
        self._vouched = 0

    def start(self, on_commit: Callable[[int], None], on_failure: Callable[[str | None], None] | None) -> None:
        """Start the thread; it makes both calls."""
        self._on_commit = on_commit
        self._on_failure = on_failure or self._on_failure
        self._thread = threading.Thread(target=self._begin, name="firelane-log", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Hand a batch over; it joins the one before if that is still waiting."""
        with self._changed:
            last = self._batches[-1] if self._batches else None
            if last is not None and not last.taken and last.end == batch.start:
                last.data += batch.data
                last.position = batch.position
            else:
                self._batches.append(batch)
            self._changed.notify()

    def drop(self, number: int, position: int) -> None:
        """Delete a segment as soon as everything up to `position` is written."""
        with self._changed:
            self._drops.append((position, number))
            self._changed.notify()

    def holds(self, location: int) -> Batch | None:
        """The batch with this location, if it is not written yet."""
        if location < self.written_to:
            return None
        with self._changed:
            return next((batch for batch in self._batches if batch.start <= location < batch.end), None)

    def stop(self) -> int:
        """Write what is left, without trying again, and end the thread; returns how many bytes could not be written."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        self._run()  # whatever a thread that never ran or did not get through has left
        with suppress(OSError):
            self._leave_file()
        return sum(len(batch.data) for batch in self._batches)

    def _begin(self) -> None:
        self._spare.make()
        self._run()

    def _run(self) -> None:
        while self._work_comes():
            last_try = self._stopping
            try:
                self._step()
            except OSError as error:
                self._tell(printable(f"{self._folder}: cannot be written: {error.strerror}"))
                if error.errno in NO_ROOM and self._spare.give_up():
                    continue
                if last_try:
                    return
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, timeout=RETRY_S)

    def _work_comes(self) -> bool:
        with self._changed:
            timeout_s = RETRY_S if self._spare.given_up else None  # room may also be made by others
            self._changed.wait_for(lambda: self._stopping or self._batches or self._drop_due(), timeout_s)
            return bool(self._batches) or self._drop_due() or (self._spare.given_up and not self._stopping)

    def _drop_due(self) -> bool:
        return bool(self._drops) and self._drops[0][0] <= self.committed

    def _step(self) -> None:
        with self._changed:
            batch = self._batches[0] if self._batches else None
            if batch is not None:
                batch.taken = True
        if batch is not None:
            self._write(batch)
            self._tell_success()
            with self._changed:
                self._batches.popleft()
                self.written_to, self.committed = batch.end, batch.position
            self._on_commit(batch.position)
            if self._batches and len(batch.data) > MUCH_BYTES:
                time.sleep(GATHER_S)
        while self._drop_due():
            self._delete(self._drops[0][1])
            self._drops.popleft()
        self._tell_success()

    def _tell_success(self) -> None:
        if not self._spare.given_up or self._spare.make_again():
            self._tell(None)

    def _tell(self, reason: str | None) -> None:
        if reason != self.failed:
            self.failed = reason
            self._on_failure(reason)

    def _write(self, batch: Batch) -> None:
        offset = batch.start & OFFSET
        if batch.start != self._end:
            self._open(batch.start)
        if self._sync and offset - self._vouched >= VOUCH_BYTES:
            self._vouch(offset)
        try:
            if self._sync:
                write_durably(self._file, batch.data, offset)
            else:
                write_all(self._file, batch.data, offset)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, offset)
            raise
        self._end = batch.end

    def _open(self, start: int) -> None:
        """Open the segment of location `start`, afresh if that is where its first record goes."""
        self._leave_file()
        number, offset = start >> 32, start & OFFSET
        fresh = offset == HEADER_BYTES
        flags = os.O_CREAT | os.O_TRUNC if fresh else 0
        self._file = os.open(segment_path(self._folder, number), os.O_WRONLY | flags, 0o600)
        if fresh:
            write_all(self._file, pack_header(number), 0)
            if self._sync:
                sync_data(self._file)
                sync_folder(self._folder)
            self._vouched = HEADER_BYTES
        elif self._sync:
            self._vouch(offset)  # all of it was checked and synced when the log was opened
        self._end = start

    def _leave_file(self) -> None:
        if self._file < 0:
            return
        try:
            if self._sync and self._end:
                self._vouch(self._end & OFFSET)
        finally:
            file, self._file, self._end = self._file, -1, 0
            os.close(file)

    def _vouch(self, offset: int) -> None:
        write_durably(self._file, pack_vouched(offset), VOUCHED_AT)
        self._vouched = offset

    def _delete(self, number: int) -> None:
        segment_path(self._folder, number).unlink(missing_ok=True)
        if self._sync:
            sync_folder(self._folder)
