"""Delivery records as they come, live from a broker or as files, each judged before it is used.

Both ways lead to one table that grows: the columns of a record, and `fault`, `source` and `row` for the rejects.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DoubleType, StringType, StructType

from firelane.errors import FirelaneError, StoreError
from firelane.pipeline.files import to_read
from firelane.pipeline.mqtt.source import register
from firelane.pipeline.records import NOT_PARQUET, SHOWN
from firelane.pipeline.schemas import ARRIVED_REJECTS, DELIVERIES, fitted
from firelane.pipeline.telemetry import delivery_fault

AHEAD_S = 60  # by which a record may claim to be newer than we know it to be: clocks differ
FILES_AT_ONCE = 200
FILES = "*.parquet"
_HALF = "_not_whole"
_NOT_JSON = "not a record in JSON"
_DAMAGED = "damaged inside, so that some or all of its records are not read"


def from_broker(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Records in messages, one in a line; `options` are those of the source mqtt."""
    register(spark)
    messages = spark.readStream.format("mqtt").options(**options).load()
    text = sf.explode(sf.split(sf.col("payload").cast("string"), "\n"))
    lines = messages.select(sf.col("topic").alias("source"), "received", text.alias("row")).where("trim(row) != ''")
    schema = f"{DELIVERIES}, {_HALF} STRING"
    record = sf.from_json("row", schema, {"columnNameOfCorruptRecord": _HALF})
    read = lines.withColumn("record", record).select("source", "received", "row", "record.*")
    return _judged(read, sf.when(sf.col(_HALF).isNotNull(), _NOT_JSON))


def from_files(spark: SparkSession, folder: Path) -> DataFrame:
    """Records in Parquet files that appear in a folder; those that cannot be read are passed over (see `unusable`)."""
    wide = cast(StructType, StructType.fromDDL(DELIVERIES.replace(" INT,", " BIGINT,")))  # either kind is read as this
    files = (
        spark.readStream.schema(wide)
        .option("pathGlobFilter", FILES)
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", FILES_AT_ONCE)
        .option("ignoreMissingFiles", "true")  # an exchange removes its oldest files
        .option("ignoreCorruptFiles", "true")
        .parquet(to_read(folder))
    )
    read = files.select(
        sf.col("_metadata.file_path").alias("source"),
        sf.col("_metadata.file_modification_time").alias("received"),
        sf.to_json(sf.struct(*wide.names)).alias("row"),
        *wide.names,
    )
    return _judged(read, sf.lit(None).cast("string"))


def records_folder(folder: Path) -> Path:
    """Where the delivery records are in this folder, which may be all the data of an exchange."""
    inside = (folder / "telemetry" / "deliveries", folder / "deliveries")
    try:
        if not folder.is_dir():
            raise FirelaneError(f"{folder}: there is no such folder; name one with delivery records, or a broker")
        found = next((one for one in inside if one.is_dir()), folder)
        os.listdir(found)
    except OSError as problem:
        raise StoreError(f"cannot be read: {problem.strerror}", path=str(folder)) from None
    return found


def record_files(folder: Path) -> set[Path]:
    """The files in a folder that Spark reads too: names that begin with a dot or an underline are drafts."""
    return {
        file
        for file in folder.rglob(FILES)
        if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    }


def unusable(file: Path) -> str | None:
    """Why a file cannot be used, or not all of it; None if it can.

    Columns that it lacks are missing in each of its records.
    """
    try:
        columns = parquet.read_schema(file)
        wanted = cast(StructType, StructType.fromDDL(DELIVERIES))
        for field in wanted:
            place = columns.get_field_index(field.name)
            if place >= 0 and not _fits(columns.field(place).type, field.dataType):
                return f"{field.name} is of another type"
        return None if _whole(file, [name for name in wanted.names if name in columns.names]) else _DAMAGED
    except FileNotFoundError:
        return None  # an exchange removes its oldest files
    except (pa.ArrowException, OSError):
        return NOT_PARQUET


def _whole(file: Path, columns: list[str]) -> bool:
    try:
        for _ in parquet.ParquetFile(file).iter_batches(columns=columns):
            pass
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError):
        return False
    return True


def _fits(found: pa.DataType, wanted: DataType) -> bool:
    if isinstance(wanted, StringType):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_dictionary(found))
    if isinstance(wanted, DoubleType):
        return bool(pa.types.is_float64(found) or pa.types.is_float32(found))
    return bool(pa.types.is_int32(found) or pa.types.is_int64(found))


def good(judged: DataFrame) -> DataFrame:
    """The records that can be used."""
    return fitted(judged.where("fault IS NULL"), DELIVERIES)


def rejects(judged: DataFrame) -> DataFrame:
    """Those that cannot, and why, and when they came."""
    cut = judged.where("fault IS NOT NULL").withColumn("row", sf.substring("row", 1, SHOWN))
    return fitted(cut.withColumnRenamed("fault", "reason"), ARRIVED_REJECTS)


def _judged(read: DataFrame, unreadable: Column) -> DataFrame:
    """A time far ahead would move the watermark there, and everything else would be late."""
    ahead = sf.col("ingress_us") > sf.unix_micros("received") + AHEAD_S * 1_000_000
    future = sf.when(ahead, "ingress_us is in the future")
    return read.withColumn("fault", sf.coalesce(unreadable, delivery_fault(), future))
