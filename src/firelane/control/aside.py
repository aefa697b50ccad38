"""Work in a thread of its own that is given up on when it takes too long. A thread cannot be ended, but left alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from firelane.errors import FirelaneError

T = TypeVar("T")
PLANNING = "firelane-planning"  # the name of the thread


class Aside:
    """Runs functions beside the event loop; after one that hangs, no others until it has come back."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._stuck: list[threading.Thread] = []

    async def run(self, work: Callable[[], T]) -> T:
        """What the work returns or raises; FirelaneError if it hangs."""
        self._stuck = [one for one in self._stuck if one.is_alive()]
        if self._stuck:
            raise FirelaneError("the planner still hangs")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, problem: BaseException | None) -> None:
            if done.done():
                return
            if problem is not None:
                done.set_exception(problem)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def call() -> None:
            result, problem = None, None
            try:
                result = work()
            except BaseException as raised:
                problem = raised
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, result, problem)

        thread = threading.Thread(target=call, name=PLANNING, daemon=True)
        thread.start()
        await asyncio.wait({done}, timeout=self._within_s)
        if not done.done():
            done.cancel()
            self._stuck.append(thread)
            raise FirelaneError(f"the planner was not done after {self._within_s:g} s and is left alone")
        return done.result()
