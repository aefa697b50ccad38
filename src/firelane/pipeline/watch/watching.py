"""A watch from its beginning to its end: the queries are started, looked after, and ended in order."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from firelane.errors import FirelaneError, StoreError
from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.session import BrokerSession, Wishes
from firelane.pipeline.watch import arriving, queries
from firelane.pipeline.watch.alerts import CHECKS, checks
from firelane.pipeline.watch.drift import Drift, expected_hz
from firelane.pipeline.watch.telling import TOPIC, Teller
from firelane.scenario.model import Scenario
from firelane.scenario.save import write_whole

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

RECORDS = "$firelane/telemetry/deliveries"
TABLES, ALERTS = "tables", "alerts"
EVERY_S = {TABLES: 5.0, ALERTS: 1.0}
AWAY_S, SHORT_AWAY_S = 7 * 86_400.0, 60.0
PATIENCE_S = 60.0  # for another watch to end
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

    @property
    def kept(self) -> Path:
        """The folder of what is needed to go on."""
        return self.output / ".watch"

    @property
    def settings_file(self) -> Path:
        """The file of the settings that it was begun with."""
        return self.kept / "settings.json"

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
        """Raise what ended a query, if anything did."""
        for query in self.queries:
            problem = query.exception()
            if problem is not None:
                raise _told(problem) from problem

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
    prepare(watch)
    with _claimed(spark, watch):
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


def prepare(watch: Watch) -> None:
    """Raise what keeps a watch from beginning: an output that is not its own, or a broker that cannot be had."""
    _refuse_others(watch)
    _same_settings(watch)
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
        .option("checkpointLocation", f"file://{(watch.kept / name).absolute()}")
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


@contextmanager
def _claimed(spark: SparkSession, watch: Watch) -> Iterator[None]:
    """Have the output for oneself, with the settings it was begun with.

    Spark's Java process holds the lock: when its driver is killed it goes on for a moment, and so may its queries.
    """
    try:
        watch.kept.mkdir(parents=True, exist_ok=True)
        if not watch.settings_file.exists():
            write_whole(watch.settings_file, json.dumps(watch.settings))
    except OSError as problem:
        raise FirelaneError(f"{watch.output}: cannot be written: {problem.strerror or problem}") from None
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:  # Spark Connect: the queries do not depend on this process
        yield
        return
    file = jvm.java.io.RandomAccessFile(str(watch.kept / "lock"), "rw")
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not _locked(file):
            if time.monotonic() > deadline_s:
                raise StoreError("another watch is using this folder; end it, or name another", path=str(watch.output))
            time.sleep(LOOK_S)
        yield
    finally:
        file.close()


def _locked(file: Any) -> bool:
    try:
        return file.getChannel().tryLock() is not None
    except Py4JJavaError:  # it is this very process that has locked it
        return False


def _forget_alerts(watch: Watch) -> None:
    """Without a scenario nobody reads for alerts, and where that was does not matter any more."""
    if ALERTS not in watch.queries:
        shutil.rmtree(watch.kept / ALERTS, ignore_errors=True)
        (watch.kept / "log" / "readers" / ALERTS).unlink(missing_ok=True)


def _refuse_others(watch: Watch) -> None:
    """Rows of two jobs in one table could not be told apart."""
    try:
        if watch.kept.exists():
            return
        there = [name for name in queries.TABLES if (watch.output / name).exists()]
    except OSError as problem:
        raise StoreError(f"cannot be used: {problem.strerror}", path=str(watch.output)) from None
    if there:
        raise StoreError(
            f"the table {there[0]} is here, but no .watch: it is of another job; name another folder",
            path=str(watch.output),
        )


def _same_settings(watch: Watch) -> None:
    """Windows that are half done cannot be finished with other settings."""
    before = _settings_before(watch)
    for name, now in watch.settings.items():
        if before.get(name) != now:
            raise FirelaneError(
                f"{watch.output}: was begun with {name} {before.get(name)}, not {now}; "
                "go on with that, or name another folder"
            )


def _settings_before(watch: Watch) -> dict[str, Any]:
    """Those that it was begun with, which are those of now if it has not begun."""
    path = watch.settings_file
    try:
        return dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return watch.settings
    except OSError as problem:
        raise StoreError(f"cannot be read: {problem.strerror}", path=str(path)) from None
    except (ValueError, TypeError):
        raise StoreError(
            "is not whole; name another folder, or remove this file if --window and --late are as before",
            path=str(path),
        ) from None


def _told(problem: StreamingQueryException) -> Exception:
    """An error of ours that comes back through Spark, in one line; or what Spark says."""
    lines = str(problem).splitlines()
    ours = [line.partition(": ")[2] for line in lines if line.startswith("firelane.")]
    return FirelaneError(ours[-1]) if ours else problem
