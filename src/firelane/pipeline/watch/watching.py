"""A watch from its beginning to its end: the queries are started, looked after, and ended in order."""

from __future__ import annotations

import hashlib
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from firelane.errors import FirelaneError
from firelane.mqtt import topic_problem
from firelane.pipeline.files import to_write
from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.session import BrokerSession, Wishes
from firelane.pipeline.watch import arriving, queries
from firelane.pipeline.watch.alerts import CHECKS, checks
from firelane.pipeline.watch.drift import Drift, expected_hz
from firelane.pipeline.watch.output import claimed, kept_in
from firelane.pipeline.watch.telling import TOPIC, Teller
from firelane.pipeline.writing import refuse_inside
from firelane.scenario.model import Scenario

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

RECORDS = "$firelane/telemetry/deliveries"
TABLES, ALERTS = "tables", "alerts"
EVERY_S = {TABLES: 5.0, ALERTS: 1.0}
AWAY_S, SHORT_AWAY_S = 7 * 86_400.0, 60.0
QUIET_S, LOOK_S = 20.0, 0.02  # for a batch to end, before it is interrupted
SETTINGS = {  # Spark's own, for a session that watches
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.driver.defaultJavaOptions": "-Xss16m",  # a query that is stopped looks at why with a deep expression
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What to watch, and how."""

    source: Address | Path
    output: Path
    scenario: Scenario | None = None
    window_s: float = 10.0
    late_s: float = 30.0
    topic: str = RECORDS
    alerts_topic: str = TOPIC
    away_s: float = AWAY_S  # for which the broker keeps what comes

    def __post_init__(self) -> None:
        if isinstance(self.source, Path):
            refuse_inside(self.output, self.source)  # or what it writes would come in again, without end
        if problem := topic_problem(self.alerts_topic):
            raise FirelaneError(f'"{self.alerts_topic}" is no topic for alerts: {problem}')

    @property
    def kept(self) -> Path:
        """The folder of what is needed to go on."""
        return kept_in(self.output)

    @property
    def settings(self) -> dict[str, Any]:
        """What cannot change for an output."""
        source = str(self.source.absolute()) if isinstance(self.source, Path) else "mqtt"
        return {"source": source, "window_s": self.window_s, "late_s": self.late_s, "topic": self.topic}

    @property
    def client_id(self) -> str:
        """The same for the same output and for no other: by it the broker knows what it keeps for whom."""
        place = f"{socket.gethostname()} {self.output.absolute()}"
        return f"firelane-watch-{hashlib.sha256(place.encode()).hexdigest()[:12]}"

    @property
    def queries(self) -> tuple[str, ...]:
        """Without a scenario there is nothing to check."""
        return (TABLES,) if self.scenario is None else (TABLES, ALERTS)


class Watching:
    """A watch that is going on."""

    def __init__(self, sink: queries.TablesSink, teller: Teller) -> None:
        self.queries: list[StreamingQuery] = []
        self.sink = sink
        self.teller = teller

    def check(self) -> None:
        """Raise what ended a query, if anything did; tell the broker what waits, should it be back."""
        for query in self.queries:
            problem = query.exception()
            if problem is not None:
                raise _told(problem) from problem
        self.teller.retry()

    def end(self) -> None:
        """End all queries in order, each after the batch it is at, and tell what waits."""
        for query in self.queries:
            deadline_s = time.monotonic() + QUIET_S
            while query.status["isTriggerActive"] and time.monotonic() < deadline_s:
                time.sleep(LOOK_S)
            query.stop()
        self.teller.flush()


@contextmanager
def watching(spark: SparkSession, watch: Watch, *, complain: Callable[[str], None]) -> Iterator[Watching]:
    """Watch until the block ends."""
    greet(watch)
    with claimed(spark, watch.output, watch.settings):
        _forget_alerts(watch)
        teller = Teller(
            watch.output / "alerts",
            watch.kept / "untold.parquet",
            address=watch.source if isinstance(watch.source, Address) else None,
            topic=watch.alerts_topic,
            client_id=f"{watch.client_id}-alerts",
            complain=complain,
        )
        teller.flush()
        drift = Drift(expected_hz={} if watch.scenario is None else expected_hz(watch.scenario))
        files = queries.FilesLooked(watch.source, watch.output / "rejects") if isinstance(watch.source, Path) else None
        sink = queries.TablesSink(watch.output, window_s=watch.window_s, drift=drift, teller=teller, files=files)
        running = Watching(sink, teller)
        try:
            for name in watch.queries:
                running.queries.append(
                    _start(spark, watch, name, sink if name == TABLES else queries.AlertsSink(teller))
                )
            yield running
        finally:
            running.end()


def greet(watch: Watch) -> None:
    """A BrokerError, if there is a broker and it cannot be had."""
    if isinstance(watch.source, Address):
        BrokerSession(watch.source, Wishes(client_id=f"{watch.client_id}-hello")).close()


def _start(spark: SparkSession, watch: Watch, name: str, sink: Callable[[DataFrame, int], None]) -> StreamingQuery:
    judged = _judged(spark, watch, name)
    if name == TABLES:
        table = queries.tables(judged, window_s=watch.window_s, late_s=watch.late_s)
    else:
        assert watch.scenario is not None
        table = queries.alerts(judged, spark.createDataFrame(checks(watch.scenario), CHECKS), late_s=watch.late_s)
    return (
        table.writeStream.queryName(f"firelane-{name}")
        .outputMode("append" if name == TABLES else "update")
        .option("checkpointLocation", to_write(watch.kept / name))
        .trigger(processingTime=f"{round(EVERY_S[name] * 1000)} milliseconds")
        .foreachBatch(sink)
        .start()
    )


def _judged(spark: SparkSession, watch: Watch, name: str) -> DataFrame:
    if isinstance(watch.source, Path):
        return arriving.from_files(spark, watch.source)
    address = watch.source
    options = {
        "host": address.host,
        "port": str(address.port),
        "user": address.user,
        "password": address.password,
        "tls": str(address.tls),
        "topic": watch.topic,
        "client_id": watch.client_id,
        "folder": str((watch.kept / "log").absolute()),
        "reader": name,
        "readers": ",".join(watch.queries),
        "expiry": str(watch.away_s),
    }
    return arriving.from_broker(spark, {key: value for key, value in options.items() if value is not None})


def _forget_alerts(watch: Watch) -> None:
    """Without a scenario nobody reads for alerts, and where that was does not matter any more."""
    if ALERTS not in watch.queries:
        shutil.rmtree(watch.kept / ALERTS, ignore_errors=True)
        (watch.kept / "log" / "readers" / ALERTS).unlink(missing_ok=True)


def _told(problem: StreamingQueryException) -> Exception:
    """An error of ours that comes back through Spark, in one line; or what Spark says."""
    lines = str(problem).splitlines()
    ours = [line.partition(": ")[2] for line in lines if line.startswith("firelane.")]
    return FirelaneError(ours[-1]) if ours else problem
