"""A process that plays a part in one run after the other: a line with a setting comes in, a line with results goes out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar

import numpy as np
import uvloop

from firelane.errors import FirelaneError
from firelane.sense import Trace, replay
from firelane.sense.bank import AUTO

START_S, END_S = 60.0, 10.0
PATIENCE_S = 60.0  # beyond the end of a run
Results = dict[str, Any]
Told = TypeVar("Told")


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
            raise FirelaneError(f"{self._name}: {results['failed']}")
        return results


@contextmanager
def worker(module: str, name: str, *words: str) -> Iterator[Worker]:
    """A process of one of the modules here, until the block ends; it ends with this one, too."""
    command = [sys.executable, "-m", f"firelane.reproduce.rdds.{module}", *words]
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
            results = uvloop.run(part(kind(**told | {"fires": Path(told["fires"])})))
        except* FirelaneError as problems:
            results = {"failed": str(problems.exceptions[0])}
        _say(results)


def _say(results: Results) -> None:
    sys.stdout.write(json.dumps(results, allow_nan=False) + "\n")
    sys.stdout.flush()


def _warm_up() -> None:
    """Have the compiled parts ready before anything is measured."""
    trace = Trace(names=("one",), times_s=np.arange(3.0), values=np.array([[0.0], [1.0], [5.0]]))
    replay(trace, delta=0.5, model=AUTO)
