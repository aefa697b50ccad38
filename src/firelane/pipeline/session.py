"""A Spark session: embedded in this process by default, or on the cluster that `--master` names."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from firelane.errors import FirelaneError
from firelane.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMBEDDED = "local[*]"
CONNECT = "sc://"
MASTERS = ("local", "spark://", "yarn", "k8s://", CONNECT)  # how the address of one begins

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # as the exchange writes it
    "spark.sql.caseSensitive": "true",  # as files are: they may have columns that only differ in it
}
_EMBEDDED_SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
_QUIETLY = Path(__file__).with_name("log4j2.properties").as_uri()
_DRIVER_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIETLY}",
}
GONE = "Spark's Java process has ended by itself or was killed, perhaps for lack of memory; free some and run it again"
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")  # they tell every error, with the stacks of Java
# A Java exception as it is printed, without its class and Spark's own classification.
_THROWN = re.compile(r"(?:: |Caused by: )?[\w.$]+(?:Exception|Error): (?:\[[A-Z_.]+\] )?(.*?)(?: SQLSTATE: \w+)?$")
_READING = re.compile(r"error while reading file (file:\S+?)\.?(?:\s|$)")


@contextmanager
def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block; `settings` are Spark's own, and come before ours.

    What goes wrong inside Spark is told in one line.
    """
    spark = start(master, settings)
    try:
        yield spark
    except Exception as problem:
        if _java_has_ended():
            raise FirelaneError(GONE) from problem
        if _by_spark(problem):
            raise FirelaneError(_told(problem)) from problem
        raise
    finally:
        if not _java_has_ended():
            spark.stop()


def start(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session that the caller ends."""
    require_spark()
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for name in _TALKATIVE:
        PySparkLogger.getLogger(name).disabled = True
    where = master or EMBEDDED
    if not where.startswith(MASTERS):
        raise FirelaneError(f"--master: {where} is none; write {', '.join(MASTERS)} and what Spark wants after it")
    builder = SparkSession.builder.appName("firelane")
    if where.startswith(CONNECT):
        builder = builder.remote(where)
    else:
        _prepare(where)
        builder = builder.master(where)
    for name, value in _chosen(where, settings or {}).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as problem:  # Java's own errors come as py4j's, one class for each way to fail
        raise FirelaneError(f"Spark did not start on {where}: {_in_short(problem)}") from problem


def require_spark() -> None:
    """An error in one line, if Spark is not installed."""
    if find_spec("pyspark") is None:
        raise FirelaneError("the pipeline runs on Spark; install it with `pip install 'firelane[pipeline]'`")


def _chosen(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    chosen = dict(_SETTINGS)
    if not master.startswith(CONNECT):
        chosen |= _DRIVER_SETTINGS
    if master.startswith("local"):
        cores = len(os.sched_getaffinity(0))
        chosen |= _EMBEDDED_SETTINGS | {"spark.sql.shuffle.partitions": str(2 * cores)}
    return chosen | dict(settings)


def _prepare(master: str) -> None:
    """What Spark reads from the environment before it starts."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local") or "127.0.0.1" in master or "localhost" in master:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = java_home()


def _java_has_ended() -> bool:
    """Whether the Java that was started here is gone: then all that is asked of it fails, in words that say little."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _by_spark(problem: Exception) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(problem, (Py4JError, PySparkException))


def _told(problem: Exception) -> str:
    """What went wrong inside Spark, and with which of the files that it read if it says so."""
    reading = _READING.search(str(problem))
    if reading is None:
        return f"Spark failed: {_in_short(problem)}"
    cause = _first_and_cause(problem)[1]
    return f"{unquote(urlsplit(reading[1]).path)}: this cannot be read: {cause}; mend it, or leave it out"


def _in_short(problem: BaseException) -> str:
    return ": ".join(dict.fromkeys(_first_and_cause(problem)))


def _first_and_cause(problem: BaseException) -> tuple[str, str]:
    """What was said first, and the cause at the bottom of it, out of a text with the stacks of two languages."""
    lines = [line.strip() for line in str(problem).splitlines()]
    thrown = [found[1] for line in lines if (found := _THROWN.match(line))]
    said = thrown or [line for line in lines if line] or [type(problem).__name__]
    return said[0].rstrip(" ."), (said[-1] if thrown else said[0]).rstrip(" .")
