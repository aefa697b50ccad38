"""One alarm for all links: rings at a moment, to a fraction of a millisecond where the system has timers for that.

The event loop's own timers count whole milliseconds, which on a link of 8 Mbit/s is a whole message.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable
from time import CLOCK_MONOTONIC, monotonic

from firelane.exchange.lanes.message import NEVER

_ABSOLUTE = 1
_ITIMERSPEC = struct.Struct("qqqq")


class Alarm:
    """Calls `ring` at the moment it was last set to; `rings_at` is that moment."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self.rings_at = NEVER
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._file = _timer_file()
        if self._file >= 0:
            loop.add_reader(self._file, self._rang)

    def set(self, moment: float) -> None:
        """Ring at this moment, and at no other."""
        self.rings_at = moment
        if self._file >= 0:
            _set(self._file, moment)
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(0.001, moment - monotonic()), self._rang)

    def close(self) -> None:
        """Never ring again."""
        if self._handle is not None:
            self._handle.cancel()
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _rang(self) -> None:
        if self._file >= 0:
            try:
                os.read(self._file, 8)
            except BlockingIOError:
                return  # it was set anew meanwhile
        self.rings_at = NEVER
        self._ring()


def _timer_file() -> int:
    """A timer that is a file, as Linux has them; -1 without."""
    create = getattr(_libc(), "timerfd_create", None)
    return -1 if create is None else int(create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))


def _set(file: int, moment: float) -> None:
    seconds = max(moment, 1e-9)  # zero would switch it off
    spec = _ITIMERSPEC.pack(0, 0, int(seconds), int(seconds % 1 * 1e9))
    _libc().timerfd_settime(file, _ABSOLUTE, spec, None)


def _libc() -> ctypes.CDLL:
    global _LIBC  # noqa: PLW0603 (looked up when it is first needed)
    if _LIBC is None:
        _LIBC = ctypes.CDLL(None)
    return _LIBC


_LIBC: ctypes.CDLL | None = None
