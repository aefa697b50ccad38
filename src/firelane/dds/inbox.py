"""From the threads of DDS to an event loop: what readers receive is taken in one thread and handed over in the loop.

The library's listeners are not used: they run inside its locks and can wait for Python's for ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any, Self

from cyclonedds.core import GuardCondition, WaitSet
from cyclonedds.util import duration

from firelane.dds.participant import Participant, end, told
from firelane.dds.reader import Gone, Reader

MOST_WAITING = 10_000
MOST_WAITING_BYTES = 16_000_000
AT_ONCE = 256  # calls before the loop gets on with other things
LONG = duration(seconds=3600)

Call = Callable[[], None]
Sort = Callable[[Any], tuple[Call, int] | None]


class Intake:
    """One reader whose samples go to an inbox: `sort` makes of each the call to be made and its bytes, or None."""

    __slots__ = ("dropped", "reader", "sort", "unwanted")

    def __init__(self, reader: Reader, sort: Sort) -> None:
        self.reader = reader
        self.sort = sort
        self.unwanted = 0
        self.dropped = 0  # because too much waited


class Inbox:
    """Takes samples in a thread and makes calls in the running event loop; the oldest beyond a bound are dropped."""

    def __init__(
        self, participant: Participant, *, most: int = MOST_WAITING, most_bytes: int = MOST_WAITING_BYTES
    ) -> None:
        self._participant = participant
        self._most, self._most_bytes = most, most_bytes
        self._waiting: deque[tuple[Intake, Call, int]] = deque()
        self._bytes = 0
        self._called = self._ended = False
        self._intakes: list[Intake] = []
        self._lock = Lock()  # of the queue
        self._taking = Lock()  # of the readers

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        with told("nothing can be waited for"):
            self._guard = GuardCondition(self._participant.entity)
            self._set = WaitSet(self._participant.entity)
            self._set.attach(self._guard)
        self._thread = Thread(target=self._run, name="firelane-dds", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread; calls that still wait are not made."""
        self._ended = True
        self._guard.set(True)
        self._thread.join()
        self._waiting.clear()
        end(self._set)
        end(self._guard)

    def add(self, reader: Reader, sort: Sort) -> Intake:
        """Take what a reader receives from now on; `sort` is called in the thread, what it returns in the loop."""
        intake = Intake(reader, sort)
        with self._taking:
            self._intakes.append(intake)
            self._set.attach(reader.condition)
        self._guard.set(True)  # something may be there already
        return intake

    def remove(self, intake: Intake) -> None:
        """Take no more from a reader, which can be closed then; calls that still wait are made."""
        with self._taking:
            self._intakes.remove(intake)
            self._set.detach(intake.reader.condition)

    def __len__(self) -> int:
        return len(self._waiting)

    def _run(self) -> None:
        try:
            while not self._ended:
                self._set.wait(LONG)
                self._guard.set(False)
                with self._taking:
                    for intake in self._intakes:
                        self._take(intake)
        except Exception as problem:
            self._tell({"message": "DDS samples are no longer received", "exception": problem})

    def _take(self, intake: Intake) -> None:
        for sample in intake.reader.take():
            sorted_out = intake.sort(sample)
            if sorted_out is None:
                intake.unwanted += not isinstance(sample, Gone)
            else:
                self._put(intake, *sorted_out)

    def _put(self, intake: Intake, call: Call, size: int) -> None:
        with self._lock:
            self._waiting.append((intake, call, size))
            self._bytes += size
            while len(self._waiting) > self._most or self._bytes > self._most_bytes:
                oldest, _, gone = self._waiting.popleft()
                oldest.dropped += 1
                self._bytes -= gone
            if self._called:
                return
            self._called = True
        self._soon(self._hand_over)

    def _hand_over(self) -> None:
        for _ in range(AT_ONCE):
            with self._lock:
                if not self._waiting or self._ended:
                    self._called = False
                    return
                _, call, size = self._waiting.popleft()
                self._bytes -= size
            try:
                call()
            except Exception as problem:  # of one subscriber, which is not to harm the others
                self._loop.call_exception_handler({"message": "a DDS sample was not used", "exception": problem})
        self._loop.call_soon(self._hand_over)

    def _tell(self, problem: dict[str, Any]) -> None:
        self._soon(lambda: self._loop.call_exception_handler(problem))

    def _soon(self, call: Call) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop was closed before the inbox
            self._ended = True
