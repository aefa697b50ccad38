"""Files of a log: their names, writing and syncing them, and a few kept open for reading."""

from __future__ import annotations

import errno
import fcntl
import os
from collections import OrderedDict
from pathlib import Path

from firelane.errors import StoreError

MOST_OPEN = 16

sync_data = getattr(os, "fdatasync", os.fsync)  # not every system has fdatasync
DURABLY: int | None = getattr(os, "RWF_DSYNC", None)
NOT_AT_ONCE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # systems and file systems that do not know how


def segment_path(folder: Path, number: int) -> Path:
    """The file of a segment."""
    return folder / f"{number:08d}.log"


def write_all(file: int, data: bytes | bytearray, offset: int) -> None:
    """Write at `offset`, however many calls it takes."""
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.pwrite(file, view[done:], offset + done)


def write_durably(file: int, data: bytes | bytearray, offset: int) -> None:
    """Write at `offset` what is then on disk. One system call, where the system has it: every return to Python makes
    a thread wait for its turn, and the others for it.
    """
    try:
        _write_at_once(file, data, offset)
    except OSError as problem:
        if problem.errno not in NOT_AT_ONCE:
            raise
        write_all(file, data, offset)
        sync_data(file)


def _write_at_once(file: int, data: bytes | bytearray, offset: int) -> None:
    if DURABLY is None:
        raise OSError(errno.ENOSYS, "not here")
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.pwritev(file, [view[done:]], offset + done, DURABLY)


def sync_folder(folder: Path) -> None:
    """Make the coming and going of files in a folder durable."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def lock_folder(folder: Path) -> int:
    """Make the folder if need be and lock it for this process, until the file returned is closed."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(
            f"cannot be written ({error.strerror}); make it writable or choose another folder", path=str(folder)
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        taken = isinstance(error, BlockingIOError)
        why = "in use by another exchange; stop it or" if taken else f"cannot be locked ({error.strerror});"
        raise StoreError(f"{why} choose another folder", path=str(folder)) from None
    return lock


class OpenFiles:
    """The segments read last, open; the one not read for longest makes room for the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: OrderedDict[int, int] = OrderedDict()

    def get(self, number: int) -> int:
        """The file of a segment, open for reading."""
        if number in self._files:
            self._files.move_to_end(number)
            return self._files[number]
        file = self._files[number] = os.open(segment_path(self._folder, number), os.O_RDONLY)
        if len(self._files) > MOST_OPEN:
            os.close(self._files.popitem(last=False)[1])
        return file

    def forget(self, number: int) -> None:
        """Close a segment that is about to go."""
        if number in self._files:
            os.close(self._files.pop(number))

    def close(self) -> None:
        """Close them all."""
        for number in list(self._files):
            self.forget(number)
