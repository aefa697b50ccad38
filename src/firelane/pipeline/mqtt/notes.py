"""What the writer of a log and those who read it tell each other: small files beside the segments.

    FOLDER/lock          held by the writer as long as it lives
    FOLDER/state         how far the log is on disk, and what its writer says of itself
    FOLDER/readers/NAME  up to where a query has dealt with it

None of them is synced: after a crash the writer states anew what is on disk, and a query that says less than it has
done only keeps segments for longer.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from firelane.errors import StoreError

STATE_BYTES = 2048
TRIES, PAUSE_S = 50, 0.002


def locked(folder: Path) -> int | None:
    """Make the folder if need be and lock it for this process, until the file returned is closed; None if it is."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(folder.parent)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        why = problem.strerror or problem
        raise StoreError(f"cannot be written ({why}); make it writable or name another", path=str(folder)) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def sync_folder(folder: Path) -> None:
    """Make the coming and going of files in a folder durable."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class State:
    """The writer's end of the state."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "state", os.O_WRONLY | os.O_CREAT, 0o600)

    def tell(self, facts: dict[str, Any]) -> None:
        """This is how it is now; where that cannot be written, nobody learns of it."""
        with suppress(OSError):
            os.pwrite(self._file, json.dumps(facts).encode().ljust(STATE_BYTES), 0)

    def close(self) -> None:
        """Say nothing more."""
        os.close(self._file)


def state(folder: Path) -> dict[str, Any] | None:
    """What the writer says; None if there has not been any."""
    for _ in range(TRIES):
        with suppress(FileNotFoundError, ValueError):  # not there yet, or read while it was written
            facts: dict[str, Any] = json.loads((folder / "state").read_bytes())
            return facts
        time.sleep(PAUSE_S)
    return None


def done(folder: Path, reader: str, position: int) -> None:
    """A reader has dealt with everything before this position."""
    path = folder / "readers" / reader
    path.parent.mkdir(mode=0o700, exist_ok=True)
    draft = path.with_name(f".{reader}")
    draft.write_text(str(position))
    draft.replace(path)


def readers(folder: Path) -> dict[str, int]:
    """Up to where each reader has dealt with the log; a note that a crash left empty says nothing."""
    return {path.name: int(path.read_text() or 0) for path in (folder / "readers").glob("[!.]*")}
