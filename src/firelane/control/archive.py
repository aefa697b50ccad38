"""Decisions as Parquet under the data dir, written by a thread of their own.

    day=2026-05-09/part-....parquet

A row is added when a decision is made and another when it is judged: the last of an id counts. A file is written whole
with every further row, under another name until it is on disk, so what was written survives a crash at any moment.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from firelane.control.decisions import Entry
from firelane.errors import printable
from firelane.exchange.telemetry.folder import Folder

MOST_WAITING = 1000
ROWS_A_FILE = 500
DAY_S = 86_400
KEPT_BYTES = 20_000_000

_EFFECT = pa.struct(
    [
        pa.field("utility_rate", pa.float64()),
        pa.field("missed", pa.int64()),
        pa.field("delay_mean_s", pa.float64()),
        pa.field("loss", pa.float64()),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("cause", pa.string(), nullable=False),
        pa.field("phase", pa.string()),
        pa.field("subscriptions", pa.int64(), nullable=False),
        pa.field("topics", pa.int64(), nullable=False),
        pa.field("rate_hz", pa.float64(), nullable=False),
        pa.field("bandwidths_bps", pa.map_(pa.string(), pa.float64()), nullable=False),
        pa.field("version_before", pa.int64(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("predicted", _EFFECT),
        pa.field("predicted_before", _EFFECT),
        pa.field("measured", _EFFECT),
        pa.field("model_error", pa.float64()),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("why", pa.list_(pa.string()), nullable=False),
    ]
)


class Archive:
    """Writes decisions below a folder until the block ends; what cannot be written is told once, and lost."""

    def __init__(self, folder: Path, *, tell: Callable[[str], None]) -> None:
        self._folder = Folder(folder, boot=secrets.randbits(64), cap_bytes=KEPT_BYTES)
        self._tell = tell
        self._troubled = False
        self._waiting: queue.Queue[Entry | None] = queue.Queue(MOST_WAITING)
        self._rows: list[dict[str, Any]] = []
        self._path: Path | None = None
        self._began_s = 0.0
        self._thread = threading.Thread(target=self._run, name="firelane-decisions", daemon=True)

    def put(self, entry: Entry) -> None:
        """One more row; never waits."""
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            self._complain("they cannot be written as fast as they come")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            taken = [self._waiting.get()]
            while not self._waiting.empty():
                taken.append(self._waiting.get())
            ended = None in taken
            if entries := [one for one in taken if one is not None]:
                self._write(entries)

    def _write(self, entries: list[Entry]) -> None:
        now = time.time()
        if len(self._rows) >= ROWS_A_FILE or now // DAY_S != self._began_s // DAY_S:
            self._rows, self._path, self._began_s = [], None, now
        self._rows += [asdict(one) | {"bandwidths_bps": list(one.bandwidths_bps.items())} for one in entries]
        try:
            table = pa.Table.from_pylist(self._rows, SCHEMA)
            self._path = self._folder.write(table, self._began_s, instead_of=self._path)
            self._troubled = False
        except OSError as problem:
            self._complain(f"{self._folder.path} cannot be written ({problem.strerror or problem})")

    def _complain(self, why: str) -> None:
        if not self._troubled:
            self._tell(printable(f"decisions are not kept on disk: {why}"))
        self._troubled = True
