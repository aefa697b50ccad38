"""Records in, of telemetry and of loads: Parquet files, each record judged before it is used.

Files are looked at one by one first, as any may be cut short, or have been written by somebody else. One that is no
Parquet file is a reject as a whole. A column of another type is read as what it should be, as far as it goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import NumericType, StringType, StructType

from firelane.errors import FirelaneError
from firelane.pipeline.files import alike, files_in, to_read
from firelane.pipeline.schemas import REJECTS, fitted

SHOWN = 300  # characters of a row that is refused
NOT_PARQUET = "not a whole Parquet file"


def shown(row: Column) -> Column:
    """What is kept of a row that is refused."""
    return sf.left(row, sf.lit(SHOWN))


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records that can be used, those that cannot and why, and how many there are of both."""

    good: DataFrame
    rejects: DataFrame
    count: int


def read_records(spark: SparkSession, source: Path, kind: str, schema: str, fault: Column) -> Records:
    """The records of a kind under a folder (an exchange's data or a part of it) or in a file.

    `fault` says what is wrong with a record, null if nothing.
    """
    groups, unreadable, count = alike(_files(source, kind))
    wanted = spark.createDataFrame([], f"{schema}, source STRING, row STRING")
    parts = (_as_far_as_it_goes(spark.read.parquet(*map(to_read, files)), wanted.schema) for files in groups)
    judged = reduce(DataFrame.unionByName, parts, wanted).withColumn("reason", fault)
    wholes = spark.createDataFrame([(str(file), NOT_PARQUET, None) for file in unreadable], REJECTS)
    return Records(
        good=fitted(judged.where("reason IS NULL"), schema),
        rejects=fitted(judged.where("reason IS NOT NULL"), REJECTS).unionAll(wholes),
        count=count + len(unreadable),
    )


def place_of(source: Path, kind: str) -> Path:
    """Where the records of a kind are: in a folder of that name, or in the folder or file itself."""
    return next((one for one in (source / "telemetry" / kind, source / kind) if one.is_dir()), source)


def _files(source: Path, kind: str) -> list[Path]:
    if not source.exists():
        raise FirelaneError(f"{source}: there is no such file or folder; name one with {kind} in it")
    if source.is_file():
        return [source]
    found = [file for file in files_in(place_of(source, kind)) if file.suffix == ".parquet"]
    if not found:
        raise FirelaneError(f"{source}: there are no Parquet files with {kind} in them here; name another folder")
    return found


def _as_far_as_it_goes(read: DataFrame, wanted: StructType) -> DataFrame:
    """The columns of a record, null where the files have none or none that can be taken for it."""
    plain = {field.name for field in read.schema if isinstance(field.dataType, (NumericType, StringType))}
    given = {
        **{field.name: sf.col(field.name) for field in wanted if field.name in plain},
        "source": sf.col("_metadata.file_path"),
        "row": shown(sf.to_json(sf.struct("*"))),
    }
    return read.select(
        *(given.get(field.name, sf.lit(None)).try_cast(field.dataType).alias(field.name) for field in wanted)
    )
