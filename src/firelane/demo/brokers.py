"""The two brokers of the demo, each `firelane serve` in a process of its own that ends with this one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from firelane.errors import FirelaneError
from firelane.metrics import DROP_REASONS

HOST = "127.0.0.1"
START_S, STOP_S, ANSWER_S = 60.0, 10.0, 10.0
FIRST_PLAN_S = 300.0  # machine code may have to be made first
LOOK_EVERY_S = 0.1
SETTINGS = ("durability=memory", "telemetry.files=false", "system_interval=0")

# It stops when its standard input ends, so that nothing is left running even if this process is killed.
ATTACHED = """
import os, signal, threading
threading.Thread(target=lambda: (os.read(0, 1), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
from firelane.cli import main
main()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What an exchange says became of its deliveries."""

    due: int
    delivered: int
    dropped: dict[str, int]
    queued: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A running exchange: where its clients and its REST side are."""

    mqtt_port: int
    http_port: int
    pid: int

    async def counts(self) -> Counts:
        """The totals so far."""
        text = (await self._get("/metrics")).decode()
        found = {
            name: int(float(value)) for name, value in re.findall(r"^firelane_(deliveries_\S+) (\S+)$", text, re.M)
        }
        dropped = {one: found[f'deliveries_dropped_total{{reason="{one}"}}'] for one in DROP_REASONS}
        return Counts(
            due=found["deliveries_due_total"],
            delivered=found["deliveries_delivered_total"],
            dropped=dropped,
            queued=found["deliveries_owed"],
        )

    async def plan(self) -> dict[str, Any]:
        """The plan in force, as in its file; version 0 if there is none yet."""
        plan: dict[str, Any] = json.loads(await self._get("/api/v1/plan"))
        return plan

    async def planned(self) -> None:
        """Wait for the first plan."""
        deadline = time.monotonic() + FIRST_PLAN_S
        while not (await self.plan())["version"]:
            if time.monotonic() > deadline:
                raise FirelaneError(f"there is no plan after {FIRST_PLAN_S:g} s; is this machine busy? try it again")
            await asyncio.sleep(LOOK_EVERY_S)

    async def idle(self, most_s: float) -> None:
        """Wait until nothing is queued any more, but not longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                while (await self.counts()).queued:
                    await asyncio.sleep(LOOK_EVERY_S)

    async def _get(self, path: str) -> bytes:
        return await asyncio.to_thread(self._ask, path)

    def _ask(self, path: str) -> bytes:
        connection = HTTPConnection(HOST, self.http_port, timeout=ANSWER_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        except OSError as problem:
            raise FirelaneError(f"an exchange of the demo does not answer: {problem}") from None
        finally:
            connection.close()


@asynccontextmanager
async def broker(scenario: Path, data_dir: Path, *, plan: Path | None = None) -> AsyncIterator[Broker]:
    """An exchange for this scenario on free ports of this machine only; with a plan it makes none of its own."""
    arguments = ["serve", str(scenario), "--host", HOST, "--mqtt-port", "0", "--http-port", "0"]
    arguments += ["--data-dir", str(data_dir)]
    for setting in SETTINGS:
        arguments += ["--set", f"exchange.{setting}"]
    arguments += [] if plan is None else ["--plan", str(plan)]
    complaints = data_dir.with_suffix(".txt")
    with complaints.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ATTACHED, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env={name: value for name, value in os.environ.items() if not name.startswith("FIRELANE_")},
            start_new_session=True,  # Ctrl-C is for this process, which ends the brokers in order
        )
    try:
        yield await _ready(process, complaints)
    finally:
        await _stop(process)


async def _ready(process: asyncio.subprocess.Process, complaints: Path) -> Broker:
    assert process.stdout is not None
    with suppress(TimeoutError):
        line = (await asyncio.wait_for(process.stdout.readline(), START_S)).decode()
        ports = dict(re.findall(r"(mqtt|http)://[^:]+:(\d+)", line))
        if ports:
            return Broker(mqtt_port=int(ports["mqtt"]), http_port=int(ports["http"]), pid=process.pid)
    last = complaints.read_text(errors="replace").splitlines()[-1:] or [f"not ready within {START_S:g} s"]
    raise FirelaneError(f"an exchange of the demo did not start: {last[0].removeprefix('firelane: ')}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()
