"""A watch as people see it: a table that changes while it goes on, or lines where there is no terminal; a summary."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from firelane.pipeline.mqtt.address import SCHEMES, Address
from firelane.pipeline.session import session
from firelane.pipeline.watch.arriving import records_folder
from firelane.pipeline.watch.output import refuse_others
from firelane.pipeline.watch.watching import AWAY_S, SETTINGS, SHORT_AWAY_S, Watch, Watching, greet, watching
from firelane.scenario import load
from firelane.units import si

LOOK_S = 0.5
LINE_S = 10.0
SCANS = 2  # of the same rows, by the query of the tables: for windows and for rejects


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the query of the tables has told of itself so far."""

    rows: int = 0
    rows_hz: float = 0.0
    late: int = 0  # too late for their window, and left out
    newest: str | None = None  # time of a record
    waiting_bytes: int = 0  # in the log
    writer: dict[str, Any] = field(default_factory=dict)  # what the writer of the log says
    _looked: set[str] = field(default_factory=set)  # when that began which was looked at

    def look(self, running: Watching) -> None:
        """Add what is new: batches, and in silence now and then that there is none, under the next one's number."""
        recent = {one["timestamp"]: one for one in running.queries[0].recentProgress}
        for began, one in recent.items():
            if began not in self._looked:
                self._add(one)
        self._looked = set(recent)

    def _add(self, progress: Any) -> None:
        self.rows += progress["numInputRows"] // SCANS
        self.rows_hz = progress["processedRowsPerSecond"] / SCANS
        self.late += max((one["numRowsDroppedByWatermark"] for one in progress["stateOperators"]), default=0)
        self.newest = progress["eventTime"].get("max", self.newest)
        source = progress["sources"][0]
        latest, end = _offset(source["latestOffset"]), _offset(source["endOffset"])
        if "position" in latest:
            self.writer = latest
            self.waiting_bytes = latest["position"] - end["position"]


def run(
    source: str,
    *,
    output: Path | None,
    scenario: str | None,
    window_s: float,
    late_s: float,
    alerts_topic: str,
    master: str | None,
    seconds: float | None,
    quiet: bool,
) -> dict[str, Any]:
    """Watch for so long, or until a signal says to end; what came of it."""
    broker = source.partition("://")[0] in SCHEMES
    with _folder(output) as folder:
        watch = Watch(
            source=Address.parse(source) if broker else records_folder(Path(source)),
            output=folder,
            scenario=None if scenario is None else load(scenario),
            window_s=window_s,
            late_s=late_s,
            alerts_topic=alerts_topic,
            away_s=AWAY_S if output else SHORT_AWAY_S,
        )
        refuse_others(watch.output, watch.settings)  # before Spark, which takes its time
        greet(watch)
        facts = _watch(watch, master, seconds, quiet)
    return {**facts, "output": None if output is None else str(output)}


def _watch(watch: Watch, master: str | None, seconds: float | None, quiet: bool) -> dict[str, Any]:
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    tally, began_s = Tally(), time.monotonic()

    def complain(line: str) -> None:
        console.print(f"firelane: {line}", soft_wrap=True)

    with session(master, SETTINGS) as spark, _ended() as ended:
        with watching(spark, watch, complain=complain) as running, _shown(console, quiet) as show:
            until_s = None if seconds is None else time.monotonic() + seconds
            while not ended.wait(LOOK_S) and (until_s is None or time.monotonic() < until_s):
                running.check()
                tally.look(running)
                show(_facts(tally, running))
        tally.look(running)
        return {**_facts(tally, running), "seconds": round(time.monotonic() - began_s, 1)}


@contextmanager
def _folder(output: Path | None) -> Iterator[Path]:
    """The folder that was named, or one that goes when the watch ends."""
    if output is not None:
        yield output
        return
    with TemporaryDirectory(prefix="firelane-watch-") as made:
        yield Path(made)


def line(facts: dict[str, Any]) -> str:
    """All of it in one line, for people."""
    refused = ", ".join(f"{count} {reason}" for reason, count in facts["rejects"].items())
    return (
        f"{facts['read']:,} {facts['of']} read, {facts['windows']:,} windows of {facts['records']:,} records: "
        f"{facts['metrics']:,} metrics, {facts['loads']:,} loads; {facts['late']:,} late, "
        f"{sum(facts['rejects'].values()):,} rejects{f' ({refused})' if refused else ''}, "
        f"{facts['alerts']:,} alerts{_untold(facts)}{_trouble(facts)}"
    )


def _facts(tally: Tally, running: Watching) -> dict[str, Any]:
    counts = running.sink.counts
    return {
        "read": tally.rows,
        "read_hz": tally.rows_hz,
        "of": "messages" if tally.writer else "records",
        "windows": counts["windows"],
        "records": counts["records"],
        "metrics": counts["metrics"],
        "loads": counts["loads"],
        "late": tally.late,
        "rejects": dict(running.sink.reasons),
        "alerts": running.teller.found,
        "alerts_waiting": running.teller.waiting,
        "alerts_dropped": running.teller.dropped,
        "newest": tally.newest,
        "waiting_bytes": tally.waiting_bytes,
        **{
            name: tally.writer[name]
            for name in ("received", "repeated", "sessions_lost", "problem")
            if name in tally.writer
        },
    }


def _untold(facts: dict[str, Any]) -> str:
    counts = {"wait for the broker": facts["alerts_waiting"], "were not told": facts["alerts_dropped"]}
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f" ({said})" if said else ""


def _trouble(facts: dict[str, Any]) -> str:
    return f"; {facts['problem']}" if facts.get("problem") else ""


def _table(facts: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    newest = facts["newest"]
    behind_s = (datetime.now(UTC) - datetime.fromisoformat(newest)).total_seconds() if newest else None
    rows = {
        facts["of"]: f"{facts['read']:,}, {si(facts['read_hz'], '/s')}",
        "windows": f"{facts['windows']:,} of {facts['records']:,} records",
        "written": f"{facts['metrics']:,} metrics, {facts['loads']:,} loads",
        "behind": ("" if behind_s is None else f"{si(behind_s, 's')}, ") + f"{si(facts['waiting_bytes'], 'B')} waiting",
        "late": f"{facts['late']:,}",
        "rejects": f"{sum(facts['rejects'].values()):,}",
        "alerts": f"{facts['alerts']:,}{_untold(facts)}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    if facts.get("problem"):
        table.add_row("trouble", facts["problem"])
    return table


@contextmanager
def _shown(console: Console, quiet: bool) -> Iterator[Any]:
    """How to show the facts: on a terminal in place, else as a line now and then, or not at all."""
    if quiet:
        yield lambda facts: None
    elif console.is_terminal:
        with Live(console=console, transient=True, auto_refresh=False) as live:
            yield lambda facts: live.update(_table(facts), refresh=True)
    else:
        said_s = time.monotonic()

        def say(facts: dict[str, Any]) -> None:
            nonlocal said_s
            if time.monotonic() - said_s >= LINE_S:
                said_s = time.monotonic()
                console.print(line(facts), soft_wrap=True)

        yield say


@contextmanager
def _ended() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set."""
    ended = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    before = {one: signal.signal(one, lambda *_: ended.set()) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _offset(given: Any) -> dict[str, Any]:
    """What Spark shows of an offset: text, or read already."""
    read = json.loads(given) if isinstance(given, str) else given
    return read if isinstance(read, dict) else {}
