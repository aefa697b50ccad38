"""An exchange to try things on: `firelane serve` in a process of its own, which ends with this one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import IO, Any

from firelane.errors import FirelaneError
from firelane.metrics import DROP_REASONS
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan
from firelane.scenario.save import save

HOST = "127.0.0.1"
START_S, STOP_S, ANSWER_S = 60.0, 10.0, 300.0  # machine code may have to be made for the first answer
PAGE = 1000
PROCESSOR_TIME = 2  # of clocks that Linux has of every process (clock_getcpuclockid), to the nanosecond
SETTINGS = ("durability=memory", "system_interval=0")
UNRECORDED, RECORDED = ("telemetry.files=false",), ("telemetry.files=true", "telemetry.sampling=100 %")

# It stops when its standard input ends, so that nothing is left running even if this process is killed.
ATTACHED = """
import os, signal, threading
threading.Thread(target=lambda: (os.read(0, 1), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
from firelane.cli import main
main()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of all deliveries since the exchange began: due = delivered + dropped + queued."""

    due: int
    delivered: int
    dropped: dict[str, int]  # by reason
    queued: int

    @property
    def dropped_total(self) -> int:
        """Dropped for whatever reason."""
        return sum(self.dropped.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Where a running exchange can be reached, and what it says when it is asked."""

    pid: int
    mqtt_port: int
    http_port: int

    def counts(self) -> Counts:
        """The totals so far."""
        text = self.ask("GET", "/metrics").decode()
        found = {name: int(float(n)) for name, n in re.findall(r"^firelane_deliveries_(\S+) (\S+)$", text, re.M)}
        return Counts(
            due=found["due_total"],
            delivered=found["delivered_total"],
            dropped={one: found[f'dropped_total{{reason="{one}"}}'] for one in DROP_REASONS},
            queued=found["owed"],
        )

    def plan(self) -> dict[str, Any]:
        """The plan in force, as in its file; version 0 if there is none yet."""
        plan: dict[str, Any] = json.loads(self.ask("GET", "/api/v1/plan"))
        return plan

    def apply(self, plan: Plan) -> None:
        """Put a plan into force, as the next version; Metrics count anew from there."""
        document = {key: value for key, value in plan.to_data().items() if key != "version"}
        self.ask("POST", "/api/v1/plan", json.dumps(document))

    def metrics(self) -> dict[str, Any]:
        """Metrics since the plan in force was applied, with all subscriptions."""
        found: dict[str, Any] = {"subscriptions": [], "next_offset": 0}
        while (offset := found["next_offset"]) is not None:
            page = json.loads(self.ask("GET", f"/api/v1/metrics?limit={PAGE}&offset={offset}"))
            found = page | {"subscriptions": found["subscriptions"] + page["subscriptions"]}
        return found

    def processor_s(self) -> float | None:
        """Processor time that it has used; None where that cannot be known."""
        with suppress(OSError):
            return time.clock_gettime(~self.pid << 3 | PROCESSOR_TIME)
        return None

    def ask(self, method: str, path: str, body: str | None = None) -> bytes:
        """What it answers over HTTP."""
        connection = HTTPConnection(HOST, self.http_port, timeout=ANSWER_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, HTTPException) as problem:
            raise FirelaneError(f"an exchange does not answer: {problem}") from None
        finally:
            connection.close()
        if answer.status != 200:
            raise FirelaneError(f"an exchange refused {method} {path}: {said.decode(errors='replace')}")
        return said


@contextmanager
def served(
    scenario: Scenario,
    plan: Plan | None = None,
    *,
    data_dir: Path | None = None,
    host: str = HOST,
    settings: Sequence[str] = (),
) -> Iterator[Exchange]:
    """An exchange on free ports of this machine only, until the block ends; with a plan it makes none of its own.

    With a `data_dir`, every delivery is recorded there. `settings` are as after `--set exchange.`.
    """
    with starting(scenario, plan, data_dir=data_dir, host=host, settings=settings) as ready:
        yield ready()


@contextmanager
def starting(
    scenario: Scenario,
    plan: Plan | None = None,
    *,
    data_dir: Path | None = None,
    host: str = HOST,
    settings: Sequence[str] = (),
) -> Iterator[Callable[[], Exchange]]:
    """The same without waiting for it: a function that does."""
    with TemporaryDirectory(prefix="firelane-served-") as name:
        folder = Path(name)
        save(scenario, folder / "scenario.yaml")
        if plan is not None:
            plan.save(folder / "plan.json")
        complaints = folder / "complaints.txt"
        more = (*SETTINGS, *(UNRECORDED if data_dir is None else RECORDED), *settings)
        arguments = ["--data-dir", str(data_dir or folder / "data"), "--host", host]
        arguments += ["--plan", str(folder / "plan.json")] if plan is not None else []
        arguments += [word for one in more for word in ("--set", f"exchange.{one}")]
        command = ["serve", str(folder / "scenario.yaml"), "--mqtt-port", "0", "--http-port", "0", *arguments]
        with complaints.open("wb") as stderr, launch(command, stderr) as process:
            try:
                yield lambda: Exchange(pid=process.pid, **ports_of(process, complaints))
            finally:
                end(process)


def launch(command: list[str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    """`firelane` with this verb and options, in a process that ends with this one."""
    return subprocess.Popen(
        [sys.executable, "-c", ATTACHED, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={name: value for name, value in os.environ.items() if not name.startswith("FIRELANE_")},
        start_new_session=True,  # Ctrl-C is for this process, which ends the exchange in order
    )


def ports_of(process: subprocess.Popen[bytes], complaints: Path) -> dict[str, int]:
    """`mqtt_port` and `http_port`, once it says that it is ready; what it said instead is in the file."""
    assert process.stdout is not None
    too_long = Timer(START_S, process.kill)
    too_long.start()
    try:
        line = process.stdout.readline().decode()
    finally:
        too_long.cancel()
    ports = dict(re.findall(r"(mqtt|http)://[^:]+:(\d+)", line))
    if not ports:
        last = complaints.read_text(errors="replace").splitlines()[-1:] or [f"not ready within {START_S:g} s"]
        raise FirelaneError(f"an exchange did not start: {last[0].removeprefix('firelane: ')}")
    return {"mqtt_port": int(ports["mqtt"]), "http_port": int(ports["http"])}


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to stop; insist when it does not."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
