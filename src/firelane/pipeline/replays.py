"""Thousands of traces replayed through sensors' models: what need not be sent, a row per trace and sensor.

Traces are CSV files as `firelane sense replay` reads them, some for each task, or rows of Parquet files by trace.
Either way the compiled banks of `firelane.sense` get arrays: all sensors of a trace at a time, reading after reading.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.parquet import read_table
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from firelane.arrays import Floats, Ints
from firelane.errors import FirelaneError
from firelane.pipeline.files import files_in
from firelane.pipeline.records import SHOWN, Records, read_records, shown
from firelane.pipeline.schemas import READINGS, REJECTS, REPLAYS, fitted
from firelane.pipeline.telemetry import first_fault, known
from firelane.sense import ModelBank, SendingBank, TraceError, read_trace
from firelane.sense.trace import MOST_VALUE

CSV, PARQUET = ".csv", ".parquet"
NO_TRACE = "not a trace"
TWICE = "the sensor has another reading at this time"
FILES_A_TASK = 16  # a task in Python costs a tenth of a second by itself
_JUDGED = f"{REPLAYS}, source STRING, reason STRING, row STRING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How traces are sent: which of their sensors (`*` and `?` are wildcards), by which model, how precisely."""

    delta: float = 0.5
    model: str = "auto"
    sensors: str = "*"

    def __post_init__(self) -> None:
        one = np.ones(1, np.int64)
        _replayed(
            "", [""], one - 1, np.zeros(1), np.zeros(1), self
        )  # refuses what makes no sense; compiles, for all tasks


def traces_in(source: Path) -> dict[str, Path]:
    """The CSV files of a folder, or one, by the names of their traces; none if there are Parquet files instead."""
    if not source.exists():
        raise FirelaneError(f"{source}: there is no such file or folder; name one with traces in it")
    files = [source] if source.is_file() else files_in(source)
    traces = {_name(file, source): file for file in files if file.suffix == CSV}
    others = [file for file in files if file.suffix == PARQUET]
    if traces and others:
        mixed = f"{next(iter(traces.values())).name} and {others[0].name}"
        raise FirelaneError(f"{source}: there are files of several kinds here ({mixed}); name one kind of them")
    if not traces and not others:
        raise FirelaneError(f"{source}: there are no traces in it; name a folder with .csv or .parquet files")
    return traces


def _name(file: Path, source: Path) -> str:
    return file.stem if file == source else file.relative_to(source).with_suffix("").as_posix()


def _reading_fault() -> Column:
    """Why a reading cannot be used; null if it can."""
    return first_fault(
        {
            "no trace": ~known(sf.col("trace") != ""),
            "no sensor": ~known(sf.col("sensor") != ""),
            # To Spark, NaN is more than any number.
            "time_s is no number": ~known(sf.abs("time_s") <= MOST_VALUE),
            "value is no number": ~known(sf.abs("value") <= MOST_VALUE),
        }
    )


@contextmanager
def of_readings(spark: SparkSession, source: Path, how: Sending) -> Iterator[Records]:
    """Replays of the traces in Parquet files; where a sensor has two readings at a time, neither is used."""
    read = read_records(spark, source, "readings", READINGS, _reading_fault())
    wanted = read.good.where(sf.col("sensor").rlike(_as_regex(how.sensors)))
    same = Window.partitionBy("trace", "sensor", "time_s")
    counted = wanted.repartition("trace").withColumn("same", sf.count(sf.lit(1)).over(same))
    row = shown(sf.to_json(sf.struct(*_columns(READINGS))))
    twice = counted.where("same > 1").select(
        sf.col("trace").alias("source"), sf.lit(TWICE).alias("reason"), row.alias("row")
    )
    made = replays_of(fitted(counted.where("same = 1"), READINGS), how)
    yield Records(good=made, rejects=read.rejects.unionAll(fitted(twice, REJECTS)), count=read.count)


@contextmanager
def of_files(spark: SparkSession, traces: Mapping[str, Path], how: Sending) -> Iterator[Records]:
    """Replays of the traces in CSV files, each of which is used or refused as a whole."""
    judged = _judged_files(spark, traces, how).persist()  # they are read once, for two tables
    good, rejects = judged.where("reason IS NULL"), judged.where("reason IS NOT NULL")
    try:
        yield Records(good=fitted(good, REPLAYS), rejects=fitted(rejects, REJECTS), count=len(traces))
    finally:
        judged.unpersist()


def _as_regex(pattern: str) -> str:
    """A pattern of file names in Java's words."""
    return "^" + fnmatch.translate(pattern).removesuffix(r"\Z").removesuffix(r"\z") + r"\z"


def replays_of(readings: DataFrame, how: Sending) -> DataFrame:
    """A row per trace and sensor."""
    kinds = to_arrow_schema(readings.sparkSession.createDataFrame([], REPLAYS).schema)

    # Python, as the banks are; it gets a whole trace as arrays, and no row by itself.
    def run(group: pa.Table) -> pa.Table:
        sensors = group["sensor"].combine_chunks().dictionary_encode()
        names, number = sensors.dictionary.to_pylist(), sensors.indices.to_numpy().astype(np.int64)
        trace = group["trace"][0].as_py()
        columns = _replayed(trace, names, number, group["time_s"].to_numpy(), group["value"].to_numpy(), how)
        return pa.table(columns, schema=kinds)

    return readings.groupBy("trace").applyInArrow(run, REPLAYS)


def _judged_files(spark: SparkSession, traces: Mapping[str, Path], how: Sending) -> DataFrame:
    """A row per trace and sensor, and one with the `reason` for each file that is no trace."""
    kinds = to_arrow_schema(spark.createDataFrame([], _JUDGED).schema)
    named = [(name, str(path.absolute())) for name, path in sorted(traces.items())]
    tasks = -(-len(named) // FILES_A_TASK)

    # Python, as the banks are, and as every file has columns of its own; a file is read whole, as arrays.
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name, path in zip(batch["trace"].to_pylist(), batch["path"].to_pylist(), strict=True):
                yield pa.RecordBatch.from_pydict(_of_file(name, path, how), kinds)

    return spark.createDataFrame(named, "trace STRING, path STRING").repartition(tasks).mapInArrow(run, _JUDGED)


def _of_file(name: str, path: str, how: Sending) -> dict[str, object]:
    try:
        trace = read_trace(path, sensors=how.sensors)
    except TraceError as problem:
        nothing: dict[str, object] = {column: [None] for column in _columns(REPLAYS)}
        return nothing | {"source": [path], "reason": [NO_TRACE], "row": [problem.problem[:SHOWN]]}
    rows, sensors = trace.values.shape
    times_s, number = np.tile(trace.times_s, sensors), np.repeat(np.arange(sensors), rows)
    found = _replayed(name, list(trace.names), number, times_s, trace.values.T.ravel(), how)
    return found | {column: [None] * sensors for column in ("source", "reason", "row")}


def _columns(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(",")]


def _replayed(
    trace: str, names: list[str], number: Ints, times_s: Floats, values: Floats, how: Sending
) -> dict[str, object]:
    """The columns of the result, of one trace: readings in any order, those of sensors at times of their own."""
    order = np.lexsort((times_s, number))
    count = np.bincount(number, minlength=len(names))
    publisher, subscriber = SendingBank(len(names), delta=how.delta, model=how.model), ModelBank(len(names))
    sent, error = _errors(publisher, subscriber, count, times_s[order], values[order])
    of_sensor = np.split(error, np.cumsum(count)[:-1])
    return {
        "trace": [trace] * len(names),
        "sensor": names,
        "model": [how.model] * len(names),
        "delta": [how.delta] * len(names),
        "readings": count,
        "sent": sent,
        "suppressed": 1 - sent / count,
        "max_error": [float(one.max()) for one in of_sensor],
        "rmse": [float(np.sqrt(np.mean(one * one))) for one in of_sensor],
    }


def _errors(
    publisher: SendingBank, subscriber: ModelBank, count: Ints, times_s: Floats, values: Floats
) -> tuple[Ints, Floats]:
    """The updates of each sensor, and how far off a subscriber is at each reading; readings by sensor, then time."""
    sent, error = np.zeros(len(count), np.int64), np.empty(len(values))
    begin = np.cumsum(count) - count
    by_length = np.argsort(-count, kind="stable")
    for step in range(int(count.max())):
        sensors = by_length[: np.count_nonzero(count > step)]
        rows = begin[sensors] + step
        updates = publisher.observe(times_s[rows], values[rows], sensors)
        subscriber.apply(updates)
        sent[updates.sensor] += 1
        error[rows] = np.abs(subscriber.predict(times_s[rows], sensors) - values[rows])
    return sent, error


def totals(folder: Path) -> tuple[int, int]:
    """The readings and updates of a finished table."""
    table = read_table(folder, columns=["readings", "sent"])
    return int(pc.sum(table["readings"]).as_py() or 0), int(pc.sum(table["sent"]).as_py() or 0)


def in_short(readings: int, sent: int, how: Sending) -> tuple[str, ...]:
    """What came of it, for people."""
    if not readings:
        return ()
    share = 1 - sent / readings
    return (f"{sent:,} of {readings:,} readings sent, {share:.1%} suppressed ({how.model}, delta {how.delta:g})",)
