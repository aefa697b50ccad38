"""The thread that makes tables of what was noted: rolling Parquet files, and messages for those who follow live.

A file is written when it has enough records, or enough bytes in memory, or is old enough, or the day is over. What
cannot be written is lost, counted, and told in one line; so is what comes faster than it can be written. Nothing waits.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa

from firelane.errors import printable
from firelane.exchange.telemetry import tables
from firelane.exchange.telemetry.folder import Folder
from firelane.exchange.telemetry.payloads import payloads
from firelane.exchange.telemetry.recorder import Taken
from firelane.exchange.telemetry.records import DELIVERIES_TOPIC, MEMBERSHIP_TOPIC
from firelane.scenario.telemetry_settings import TelemetrySettings

MOST_WAITING = 4  # takes
ROLL_BYTES = 16_000_000  # of Arrow's, which is what a file holds before it is compressed
MEMBERSHIP_SHARE = 0.1  # of the bytes on disk: a flood of deliveries cannot push out who subscribed
DAY_S = 86_400


@dataclass(slots=True)
class Losses:
    """Records lost for one reason, told when it begins and when it is over."""

    tell: Callable[[str], None]
    count: int = 0
    since: int | None = None  # the count when it began

    def lose(self, records: int, why: str) -> None:
        """So many more are lost."""
        if self.since is None:
            self.since = self.count
            self.tell(printable(f"telemetry: {why}; records are lost"))
        self.count += records

    def end(self) -> None:
        """All is well."""
        if self.since is not None:
            lost, self.since = self.count - self.since, None
            self.tell(f"telemetry is recorded again; {lost} records were lost")


class Rolling:
    """Batches of one kind that become a file together."""

    def __init__(self, folder: Folder, settings: TelemetrySettings, tell: Callable[[str], None]) -> None:
        self.losses = Losses(tell)
        self.files = 0
        self._folder = folder
        self._settings = settings
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._begun_s = 0.0
        self._wall_s = 0.0

    def open(self) -> None:
        """Tidy up after the last run; what fails now is tried again with the first file."""
        try:
            self._folder.open()
        except OSError as problem:
            self._lose(problem)

    def add(self, batch: pa.RecordBatch, now_s: float, wall_s: float) -> None:
        """One more batch, taken at `now_s` on a clock that is never set and at `wall_s` by the one on the wall."""
        if self._batches and wall_s // DAY_S != self._wall_s // DAY_S:
            self.flush()
        if not self._batches:
            self._begun_s, self._wall_s = now_s, wall_s
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._settings.roll_rows or self._bytes >= ROLL_BYTES:
            self.flush()

    def roll(self, now_s: float) -> None:
        """Write the file if it is old enough."""
        if self._batches and now_s - self._begun_s >= self._settings.roll_s:
            self.flush()

    def flush(self) -> None:
        """Write what there is."""
        if not self._batches:
            return
        try:
            self._folder.write(pa.Table.from_batches(self._batches), self._wall_s)
        except OSError as problem:
            self._lose(problem)
        else:
            self.files += 1
            self.losses.end()
        self._batches, self._rows, self._bytes = [], 0, 0

    def _lose(self, problem: OSError) -> None:
        why = problem.strerror or str(problem)
        self.losses.lose(self._rows, f"{self._folder.path} cannot be written ({why})")


class Writer:
    """Writes what is put into files below `folder`, and hands it to `publish(topic, payload)` if there is one.

    Both `tell` (a line) and `publish` are called by the writer's thread, `tell` also by `put`.
    """

    def __init__(
        self,
        folder: Path,
        settings: TelemetrySettings,
        *,
        exchange: str,
        boot: int,
        tell: Callable[[str], None],
        publish: Callable[[bytes, bytes], None] | None = None,
    ) -> None:
        self._exchange = exchange
        self._boot = boot
        self._publish = publish if settings.topics else None
        self._late = Losses(tell)
        self._crowded = Losses(tell)
        self._waiting: queue.Queue[Taken | None] = queue.Queue(MOST_WAITING)
        self._deliveries = self._membership = None
        if settings.files:
            of_membership = round(settings.keep_bytes * MEMBERSHIP_SHARE)
            files = Folder(folder / "deliveries", boot=boot, cap_bytes=settings.keep_bytes - of_membership)
            self._deliveries = Rolling(files, settings, tell)
            files = Folder(folder / "membership", boot=boot, cap_bytes=of_membership)
            self._membership = Rolling(files, settings, tell)
        self._thread = threading.Thread(target=self._run, name="firelane-telemetry", daemon=True)

    @property
    def lost(self) -> int:
        """Records that are in no file; of those of membership also what the recorder had no room for."""
        losses = [self._late, self._crowded, *(rolling.losses for rolling in self._rolling)]
        return sum(one.count for one in losses)

    @property
    def files(self) -> int:
        """Files written."""
        return sum(rolling.files for rolling in self._rolling)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, taken: Taken) -> None:
        """Hand records over; never waits. To be called once a second, also with nothing: files roll by it."""
        try:
            self._waiting.put_nowait(taken)
        except queue.Full:
            self._late.lose(len(taken) + taken.membership_lost, "it cannot be written as fast as it comes")
        else:
            if self._waiting.qsize() <= 1:
                self._late.end()

    def close(self) -> None:
        """Write what is left and end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _rolling(self) -> list[Rolling]:
        return [one for one in (self._deliveries, self._membership) if one is not None]

    def _run(self) -> None:
        for rolling in self._rolling:
            rolling.open()
        while (taken := self._waiting.get()) is not None:
            self._keep(taken, tables.deliveries(taken, self._exchange, self._boot), self._deliveries, DELIVERIES_TOPIC)
            self._keep(taken, tables.membership(taken, self._exchange, self._boot), self._membership, MEMBERSHIP_TOPIC)
            if taken.membership_lost:
                self._crowded.lose(taken.membership_lost, "too many clients subscribe and unsubscribe")
            else:
                self._crowded.end()
        for rolling in self._rolling:
            rolling.flush()

    def _keep(self, taken: Taken, batches: Iterable[pa.RecordBatch], rolling: Rolling | None, topic: bytes) -> None:
        kept = list(batches)
        if rolling is not None:
            for batch in kept:
                rolling.add(batch, taken.now_s, taken.now_s + taken.ahead_s)
            rolling.roll(taken.now_s)
        if self._publish is not None:
            for payload in payloads(kept):
                self._publish(topic, payload)
