"""Alerts on their way: into a table, and back to the broker with QoS 1."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from firelane.errors import StoreError
from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.session import BrokerError, BrokerSession, Wishes
from firelane.pipeline.records import NOT_PARQUET
from firelane.pipeline.schemas import ALERTS, in_arrow
from firelane.pipeline.watch.batches import batch_files, write_batch, write_file

TOPIC = "$firelane/alerts"
MOST_KNOWN = 100_000  # alerts that are not told again
MOST_WAITING = 10_000  # that the broker did not take yet
PAUSE_S = 5.0  # before it is asked again


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that is not as it should be."""

    id: str
    window_start: datetime
    window_end: datetime
    kind: str
    subject: str
    measured: float
    bound: float
    n: int

    def payload(self) -> bytes:
        """The alert as a message."""
        return json.dumps(asdict(self), default=datetime.isoformat, ensure_ascii=False).encode()


def alert_id(kind: str, subject: str, window_start: datetime, window_end: datetime) -> str:
    """The same for the same subject in the same window, whenever it is found (and wherever: see `alerts`)."""
    micros = (round(one.timestamp() * 1e6) for one in (window_start, window_end))
    return hashlib.sha256("\n".join((kind, subject, *map(str, micros))).encode()).hexdigest()[:16]


class Teller:
    """Tells every alert: writes it down once, and publishes it at least once if there is a broker.

    What the broker has not taken yet is in the file `kept`, so it is told after a crash too; `complain` says so, once
    for each cause. Several threads may tell.
    """

    def __init__(
        self,
        folder: Path,
        kept: Path,
        *,
        address: Address | None,
        topic: str,
        client_id: str,
        complain: Callable[[str], None],
    ) -> None:
        self.found = 0
        self.dropped = 0  # that were not told, as too many waited
        self._folder = folder
        self._kept = kept
        self._address = address
        self._topic = topic
        self._wishes = Wishes(client_id=client_id)
        self._complain = complain
        self._complaint = ""
        self._known = OrderedDict.fromkeys(_ids(sorted(folder.glob("day=*/[!.]*.parquet"))))
        self._waiting = {one.id: one for one in _read([kept] if kept.exists() else [])}
        self._again_s = 0.0
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many the broker has not taken yet."""
        return len(self._waiting)

    def tell(self, found: Iterable[Alert], *, query: str, batch: int) -> None:
        """Tell those that were not found before; `query` and `batch` say who found them."""
        with self._lock:
            new = [one for one in found if one.id not in self._known]
            if new:
                self._wait(new)  # first: what is in the table is not found again
                self._write(new, query, batch)
            self._publish_if_due()

    def retry(self) -> None:
        """Publish what waits, if it is time to ask the broker again."""
        with self._lock:
            self._publish_if_due()

    def flush(self) -> None:
        """Publish what waits, if the broker takes it now."""
        with self._lock:
            self._publish()

    def _wait(self, new: list[Alert]) -> None:
        if self._address is None:
            return
        self._waiting |= {one.id: one for one in new}
        oldest = list(self._waiting)[:-MOST_WAITING]
        if oldest and not self.dropped:
            self._complain(f"over {MOST_WAITING:,} alerts wait: the oldest are not told, and only in the table")
        for one in oldest:
            del self._waiting[one]
        self.dropped += len(oldest)
        self._keep()

    def _write(self, new: list[Alert], query: str, batch: int) -> None:
        before = _read(batch_files(self._folder, query=query, batch=batch))
        write_batch(_table([*before, *new]), self._folder, query=query, batch=batch, time="window_start")
        self.found += len(new)
        self._known |= dict.fromkeys(one.id for one in new)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def _publish_if_due(self) -> None:
        if monotonic() >= self._again_s:
            self._publish()

    def _publish(self) -> None:
        if self._address is None or not self._waiting:
            return
        try:
            with BrokerSession(self._address, self._wishes) as session:
                session.publish([(self._topic, one.payload()) for one in self._waiting.values()])
        except BrokerError as problem:
            self._again_s = monotonic() + PAUSE_S
            if str(problem) != self._complaint:
                self._complaint = str(problem)
                self._complain(f"alerts wait: {problem}")
        else:
            self._complaint = ""
            self._waiting.clear()
            self._keep()

    def _keep(self) -> None:
        try:
            if self._waiting:
                write_file(_table(self._waiting.values()), self._kept)
            else:
                self._kept.unlink(missing_ok=True)
        except OSError as problem:
            raise StoreError(f"cannot be written: {problem.strerror or problem}", path=str(self._kept)) from None


def _table(alerts: Iterable[Alert]) -> pa.Table:
    return pa.Table.from_pylist([asdict(one) for one in alerts], schema=in_arrow(ALERTS))


def _read(files: Iterable[Path]) -> list[Alert]:
    return [Alert(**row) for file in files for row in _rows(file)]


def _ids(files: Iterable[Path]) -> Iterator[str]:
    return (row["id"] for file in files for row in _rows(file, ["id"]))


def _rows(file: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = parquet.ParquetFile(file).read(columns).to_pylist()
    except (pa.ArrowException, OSError):
        raise StoreError(f"{NOT_PARQUET}; remove it to go on without the alerts in it", path=str(file)) from None
    return rows
