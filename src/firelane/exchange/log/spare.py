"""A file that only takes up room, to be given up when the disk is full: what ends other records can then be written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from firelane.exchange.log.files import write_all

LEAST_BYTES = 64_000
MOST_BYTES = 4_000_000


def spare_bytes(cap_bytes: int) -> int:
    """The size of the spare file of a log with this cap: a hundredth, within bounds."""
    return min(max(cap_bytes // 100, LEAST_BYTES), MOST_BYTES)


class Spare:
    """The spare file of a folder; `given_up` from when it was deleted until there is room for it again."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.given_up = False
        self._folder = folder
        self._path = folder / "spare"

    def make(self) -> bool:
        """Make the file, or what is missing of it, if there is room; says whether it is there."""
        try:
            self._fill()
        except OSError:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            return False
        self.given_up = False
        return True

    def make_again(self) -> bool:
        """Make the file that was given up once twice its size is free, so that it does not take the last room."""
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return False
        return found.f_bavail * found.f_frsize >= 2 * self.size_bytes and self.make()

    def give_up(self) -> bool:
        """Delete the file; says whether that has made room."""
        try:
            self._path.unlink()
        except OSError:
            return False
        self.given_up = True
        return True

    def _fill(self) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            write_all(file, bytes(self.size_bytes), 0)
            os.ftruncate(file, self.size_bytes)
        finally:
            os.close(file)
