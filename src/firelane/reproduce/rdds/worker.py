"""A process that plays a part in one run after the other: a line with a setting in, a line with results out."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Timer
from typing import Any, Protocol, TypeVar

import numpy as np
import uvloop

from firelane.errors import FirelaneError
from firelane.sense import Trace, replay
from firelane.sense.bank import AUTO

START_S, END_S = 60.0, 10.0
LATE_S, PATIENCE_S = 20.0, 60.0  # beyond the end of a run: then it has failed, and then its process is ended
Results = dict[str, Any]


class Ending(Protocol):
    """A run, as told to its processes: a dataclass with a path of `fires`."""

    @property
    def end_at(self) -> float:
        """When it ends, on the machine's monotonic clock."""
        ...


Told = TypeVar("Told", bound=Ending)


class WorkerError(FirelaneError):
    """A part in a run that was not played to its end."""


class Worker:
    """The process, as seen by whoever started it."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self.pid = process.pid
        self._process = process
        self._name = name

    def begin(self, setting: Any) -> None:
        """Have it play its part in a run; a setting is a dataclass, with a path of `fires`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(asdict(setting), default=str).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise FirelaneError(f"the process of {self._name} has ended; run it again") from None

    def results(self, within_s: float) -> Results:
        """What came of it; FirelaneError with its last word if it failed."""
        assert self._process.stdout is not None
        too_long = Timer(within_s + PATIENCE_S, self._process.kill)
        too_long.start()
        try:
            line = self._process.stdout.readline()
        finally:
            too_long.cancel()
        if not line:
            raise FirelaneError(f"the process of {self._name} ended in the middle of a run; run it again")
        results: Results = json.loads(line)
        if "failed" in results:
            raise WorkerError(f"{self._name}: {results['failed']}")
        return results


@contextmanager
def worker(module: str, name: str, *words: str) -> Iterator[Worker]:
    """A process of one of the modules here, until the block ends; it ends with this one, too."""
    command = [sys.executable, "-c", f"from firelane.reproduce.rdds.{module} import main; main()", *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        started = Worker(process, name)
        started.results(START_S)
        yield started
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def serve(kind: type[Told], part: Callable[[Told], Coroutine[Any, Any, Results]]) -> None:
    """What such a process does: it plays a part in one run after the other, each told as one of a kind."""
    _warm_up()
    _say({"ready": True})
    for line in sys.stdin:
        told = json.loads(line)
        try:
            results = uvloop.run(_in_time(part, kind(**told | {"fires": Path(told["fires"])})))
        except* FirelaneError as problems:
            results = {"failed": str(problems.exceptions[0])}
        except* TimeoutError:
            results = {"failed": "it did not end in time"}
        _say(results)


async def _in_time(part: Callable[[Told], Coroutine[Any, Any, Results]], setting: Told) -> Results:
    async with asyncio.timeout(max(0.0, setting.end_at - time.monotonic()) + LATE_S):
        return await part(setting)


def _say(results: Results) -> None:
    sys.stdout.write(json.dumps(results, allow_nan=False) + "\n")
    sys.stdout.flush()


def _warm_up() -> None:
    """Have the compiled parts ready before anything is measured."""
    trace = Trace(names=("one",), times_s=np.arange(3.0), values=np.array([[0.0], [1.0], [5.0]]))
    replay(trace, delta=0.5, model=AUTO)
