"""From the thread in which DDS can be waited for to the event loop: something is there to be read.

The loop reads by itself, when it has room; until it says that it has read everything, nobody is woken again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread
from typing import Any, Self

from cyclonedds.core import GuardCondition, WaitSet
from cyclonedds.util import duration

from firelane.dds.participant import Participant, end, told
from firelane.dds.raw import RawReader

LONG = duration(seconds=3600)


class Waking:
    """`wake` is called in the running event loop when readers that are `followed` have something."""

    def __init__(self, participant: Participant, wake: Callable[[], None]) -> None:
        self._participant, self._wake = participant, wake
        self._read = Event()
        self._lock = Lock()
        self._followed: set[RawReader] = set()
        self._ended = False
        self._guard: Any = None
        self._set: Any = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        with told("nothing can be waited for"):
            self._guard = GuardCondition(self._participant.entity)
            self._set = WaitSet(self._participant.entity)
            self._set.attach(self._guard)
        self._thread = Thread(target=self._run, name="firelane-dds-waking", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._guard.set(True)
        self._read.set()
        self._thread.join()
        end(self._set)
        end(self._guard)

    def follow(self, readers: Iterable[RawReader]) -> None:
        """These, and no others; readers that are left out can be closed then."""
        wanted = set(readers)
        if wanted == self._followed:
            return
        with self._lock:
            for reader in self._followed - wanted:
                self._set.detach(reader.condition)
            for reader in wanted - self._followed:
                self._set.attach(reader.condition)
            self._followed = wanted
        self._guard.set(True)

    def read(self) -> None:
        """Everything was read: wake again."""
        self._read.set()

    def _run(self) -> None:
        while not self._ended:
            self._set.wait(LONG)
            self._guard.set(False)
            if self._ended:
                return
            self._read.clear()
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # the loop was closed
                return
            self._read.wait()
