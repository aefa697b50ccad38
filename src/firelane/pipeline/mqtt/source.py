"""The source `mqtt` of Spark: a table of messages that grows.

Spark asks a process of its own, on the driver's machine, how far the log is, and tells it what is done; the first query
to find the log without a writer collects what the broker sends. Tasks read stretches of the log by themselves, so its
folder must be one that all machines of a cluster share.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes

from firelane.errors import FirelaneError, StoreError
from firelane.pipeline.mqtt import notes
from firelane.pipeline.mqtt.address import PORT, Address
from firelane.pipeline.mqtt.collector import Collector
from firelane.pipeline.mqtt.log import Log
from firelane.pipeline.mqtt.segments import farthest, messages, stretches
from firelane.pipeline.mqtt.session import Wishes
from firelane.units import DURATION, SIZE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SCHEMA = "topic STRING, payload BINARY, received TIMESTAMP"
PATIENCE_S, LOOK_S = 30.0, 0.1  # for another process to make the log
LEAST_CAP_BYTES = 100_000
TASK_BYTES = 8_000_000

Offset = dict[str, Any]  # {"log": its name, "position": bytes since it began}


def register(spark: SparkSession) -> None:
    """Make `spark.readStream.format("mqtt")` known to a session."""
    spark.dataSource.register(MqttDataSource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of the source (docs/watch.md)."""

    address: Address
    wishes: Wishes
    folder: Path
    reader: str
    readers: tuple[str, ...]
    cap_bytes: int
    batch_bytes: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """From Spark's options, which are all text; what is missing or wrong is told in one line."""
        given = {name.lower(): value for name, value in options.items()}
        missing = [name for name in ("host", "topic", "client_id", "folder") if not given.get(name)]
        if missing:
            raise FirelaneError(f"the source mqtt needs the option {missing[0]}")
        try:
            expiry_s = DURATION.parse(given.get("expiry", "7 d"))
            cap_bytes = SIZE.parse(given.get("cap", "1 GB"))
            batch_bytes = SIZE.parse(given.get("batch", "32 MB"))
            port = int(given.get("port", PORT))
        except ValueError as problem:
            raise FirelaneError(f"an option of the source mqtt is wrong: {problem}") from None
        reader = given.get("reader", "spark")
        return cls(
            address=Address(
                host=given["host"],
                port=port,
                user=given.get("user"),
                password=given.get("password"),
                tls=given.get("tls", "false").lower() == "true",
            ),
            wishes=Wishes(client_id=given["client_id"], filters=(given["topic"],), expiry_s=max(1, round(expiry_s))),
            folder=Path(given["folder"]).absolute(),
            reader=reader,
            readers=tuple(given["readers"].split(",")) if "readers" in given else (),
            cap_bytes=max(LEAST_CAP_BYTES, round(cap_bytes)),
            batch_bytes=round(batch_bytes),
        )


class MqttDataSource(DataSource):
    """Messages of a broker: topic, payload, and when they were received."""

    @classmethod
    def name(cls) -> str:
        """What the source is called."""
        return "mqtt"

    def schema(self) -> str:
        """The columns of a message."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> MqttStreamReader:  # noqa: N802 (Spark's name)
        """The one who reads."""
        return MqttStreamReader(Settings.of(self.options))


@dataclass
class Stretch(InputPartition):
    """A stretch of the log for one task."""

    start: int
    end: int


class MqttStreamReader(DataSourceStreamReader):
    """Reads the log, and writes it too if nobody else does. Nothing happens before the first question."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._collector: Collector | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """A new query begins with the oldest message that is there."""
        state = self._state()
        notes.done(self._settings.folder, self._settings.reader, state["start"])
        return {"log": state["log"], "position": state["start"]}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much to take at once."""
        return ReadMaxBytes(self._settings.batch_bytes)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """How far the log is on disk, or as far as is allowed at once."""
        state, folder = self._state(), self._settings.folder
        behind = state["position"] < start["position"]
        if state["log"] != start["log"] or (behind and self._collector is not None):
            raise StoreError(
                "this is not the log that the query has read so far; give back its folder, or begin with an empty "
                "folder and an empty checkpoint",
                path=str(folder),
            )
        if behind:
            return start  # the log's writer has just begun, and not said anything yet
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else state["position"]
        return {"log": state["log"], "position": farthest(folder, start["position"], state["position"], most)}

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """How far the log is, and what its writer says of itself: it is shown in the progress of the query."""
        return notes.state(self._settings.folder)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """What each task is to read."""
        folder = self._settings.folder
        return [Stretch(*one) for one in stretches(folder, start["position"], end["position"], TASK_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task's stretch, on whichever machine."""
        assert isinstance(partition, Stretch)
        return messages(self._settings.folder, partition.start, partition.end)

    def commit(self, end: Offset) -> None:
        """All before is done with."""
        notes.done(self._settings.folder, self._settings.reader, end["position"])

    def stop(self) -> None:
        """The query is over."""
        if self._collector is not None:
            self._collector.close()
            self._collector = None

    def _state(self) -> dict[str, Any]:
        """What the log's writer says; be the writer, if there is none."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            if self._collector is None:
                self._collect()
            else:
                self._collector.check()
            state = notes.state(self._settings.folder)
            if state is not None:
                return state
            if time.monotonic() > deadline_s:
                raise StoreError("its writer does not say how far it is", path=str(self._settings.folder))
            time.sleep(LOOK_S)

    def _collect(self) -> None:
        settings = self._settings
        log = Log.taken(settings.folder, cap_bytes=settings.cap_bytes)
        if log is None:
            return
        try:
            self._collector = Collector(log, settings.address, settings.wishes, readers=settings.readers)
        except BaseException:
            log.close()
            raise
