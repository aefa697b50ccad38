"""The two queries of `watch`: what each computes of records that come, and what it does with the outcome.

Both drop what came twice and leave out what is later than the watermark. `tables` emits a window when it is complete,
so every batch has all there is of some windows, and writes them down under its number. `alerts` emits what has changed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from firelane.pipeline import telemetry
from firelane.pipeline.schemas import ARRIVED_REJECTS, in_arrow
from firelane.pipeline.watch import arriving
from firelane.pipeline.watch.alerts import check_sums, failed
from firelane.pipeline.watch.batches import write_batch
from firelane.pipeline.watch.drift import Count, Drift, Drifted
from firelane.pipeline.watch.folding import folded, topic_counts
from firelane.pipeline.watch.telling import Alert, Teller, alert_id

RECORDS, REJECTS = "records", "rejects"


def records(judged: DataFrame, *, late_s: float) -> DataFrame:
    """The good records, each once, as long as they are not later than `late_s` behind the newest."""
    timed = telemetry.timed(arriving.good(judged)).withWatermark("time", f"{round(late_s * 1e6)} microseconds")
    return timed.dropDuplicatesWithinWatermark(["record_id"])


def tables(judged: DataFrame, *, window_s: float, late_s: float) -> DataFrame:
    """Folded records of complete windows, and rejects at once: one column for each, of which one is not null."""
    parts = {
        RECORDS: folded(records(judged, late_s=late_s), window_s=window_s),
        REJECTS: arriving.rejects(judged),
    }
    one, other = (table.select(sf.struct("*").alias(name)) for name, table in parts.items())
    return one.unionByName(other, allowMissingColumns=True)


class TablesSink:
    """Writes batches of `tables`, and tells what has drifted.

    `counts` has the rows of each table, the windows that were completed and the records in them.
    """

    def __init__(
        self, output: Path, *, window_s: float, drift: Drift, teller: Teller, files: FilesLooked | None = None
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self._output = output
        self._window_s = window_s
        self._drift = drift
        self._teller = teller
        self._files = files

    def __call__(self, batch: DataFrame, number: int) -> None:
        """One batch, perhaps again."""
        if self._files is not None:
            self.reasons.update(self._files.look())
        batch.persist()  # or every question would compute it anew
        try:
            there = batch.agg(*(sf.count(name).alias(name) for name in batch.columns)).first()
            assert there is not None
            if there[RECORDS]:
                self._windows(batch.where(f"{RECORDS} IS NOT NULL").select(f"{RECORDS}.*"), number)
            if there[REJECTS]:
                self._rejects(batch.where(f"{REJECTS} IS NOT NULL").select(f"{REJECTS}.*").toArrow(), number)
        finally:
            batch.unpersist()

    def _windows(self, whole: DataFrame, number: int) -> None:
        partials = telemetry.buckets(whole, window_s=self._window_s)
        self._keep(telemetry.metrics(partials).toArrow(), "metrics", number, time="window_start")
        loads = telemetry.topic_loads(whole, window_s=self._window_s)
        self._keep(loads.toArrow(), "loads", number, time="time_s")
        self._teller.tell(self._drifted(topic_counts(whole).toArrow()), query="drift", batch=number)

    def _rejects(self, rejects: pa.Table, number: int) -> None:
        self.reasons.update(rejects.column("reason").to_pylist())
        self._keep(rejects, REJECTS, number, time="received")

    def _keep(self, table: pa.Table, name: str, number: int, *, time: str) -> None:
        write_batch(table, self._output / name, query="watch", batch=number, time=time, keep=time != "received")
        self.counts[name] += table.num_rows

    def _drifted(self, counts: pa.Table) -> list[Alert]:
        found = []
        for start in sorted(set(counts.column("window_start").to_pylist())):
            rows = counts.filter(pc.equal(counts.column("window_start"), pa.scalar(start, counts.schema.field(0).type)))
            by_topic = {
                one["topic"]: Count(records=one["records"], messages=one["messages"], squares=one["squares"])
                for one in rows.to_pylist()
                if one["topic"] is not None
            }
            end = start + timedelta(seconds=self._window_s)
            found += [_alert(one, start, end) for one in self._drift.look(by_topic, self._window_s)]
            self.counts["windows"] += 1
            self.counts["records"] += pc.sum(rows.column("records")).as_py()
        return found


def _alert(drifted: Drifted, start: datetime, end: datetime) -> Alert:
    return Alert(
        id=alert_id("drift", drifted.topic, start, end),
        window_start=start,
        window_end=end,
        kind="drift",
        subject=drifted.topic,
        measured=drifted.measured,
        bound=drifted.expected,
        n=drifted.records,
    )


def alerts(judged: DataFrame, checks: DataFrame, *, late_s: float) -> DataFrame:
    """The checks that have failed."""
    return failed(check_sums(records(judged, late_s=late_s), checks))


class FilesLooked:
    """Looks at every file of a folder once, and writes those down that cannot be used.

    Spark passes over them without a word. Each is written under its own name, so it is there once however often it is
    looked at.
    """

    def __init__(self, folder: Path, output: Path) -> None:
        self._folder = folder
        self._output = output
        self._looked: set[Path] = set()

    def look(self) -> list[str]:
        """What is wrong with the new ones."""
        found = []
        for file in sorted(arriving.record_files(self._folder) - self._looked):
            self._looked.add(file)
            reason = arriving.unusable(file)
            if reason is not None:
                with suppress(FileNotFoundError):  # gone since
                    self._write(file, reason)
                    found.append(reason)
        return found

    def _write(self, file: Path, reason: str) -> None:
        name = hashlib.sha256(str(file.absolute()).encode()).hexdigest()[:16]
        when = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        row = {"source": file.absolute().as_uri(), "reason": reason, "row": None, "received": when}
        rows = pa.Table.from_pylist([row], schema=in_arrow(ARRIVED_REJECTS))
        write_batch(rows, self._output, query=f"file-{name}", batch=0, time="received", keep=False)


class AlertsSink:
    """Tells what batches of `alerts` have found."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    def __call__(self, batch: DataFrame, number: int) -> None:
        """One batch, perhaps again."""
        self._teller.tell([Alert(**one) for one in batch.toArrow().to_pylist()], query="alerts", batch=number)
