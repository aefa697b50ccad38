"""Telemetry in: the Parquet files that exchanges write, each record judged before it is used.

Files are looked at one by one first, as any may be cut short, or have been written by somebody else. One that is no
Parquet file is a reject as a whole. A column of another type is read as what it should be, as far as it goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import NumericType, StringType, StructType

from firelane.errors import FirelaneError
from firelane.pipeline.schemas import REJECTS, fitted

SHOWN = 300  # characters of a row that is refused
NOT_PARQUET = "not a whole Parquet file"


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
    alike, unreadable, count = _looked_at(_files(source, kind))
    wanted = spark.createDataFrame([], f"{schema}, source STRING, row STRING")
    parts = (_as_far_as_it_goes(spark.read.parquet(*files), wanted.schema) for files in alike)
    judged = reduce(DataFrame.unionByName, parts, wanted).withColumn("reason", fault)
    wholes = spark.createDataFrame([(str(file), NOT_PARQUET, None) for file in unreadable], REJECTS)
    return Records(
        good=fitted(judged.where("reason IS NULL"), schema),
        rejects=fitted(judged.where("reason IS NOT NULL"), REJECTS).unionAll(wholes),
        count=count + len(unreadable),
    )


def _files(source: Path, kind: str) -> list[Path]:
    """The Parquet files in a folder, or in its folder of this kind; names that begin with a dot are drafts."""
    if source.is_file():
        return [source]
    inside = next((one for one in (source / "telemetry" / kind, source / kind) if one.is_dir()), source)
    found = [
        file
        for file in sorted(inside.rglob("*.parquet"))
        if not any(part.startswith((".", "_")) for part in file.relative_to(inside).parts)
    ]
    if not found:
        raise FirelaneError(f"{source}: there are no Parquet files with {kind} records here; name another folder")
    return found


def _looked_at(files: Iterable[Path]) -> tuple[list[list[str]], list[Path], int]:
    """The files in groups of the same columns, those that cannot be read, and how many records the others hold."""
    groups: dict[str, list[str]] = {}
    unreadable = []
    count = 0
    for file in files:
        try:
            about = parquet.read_metadata(file)
            columns = str(about.schema.to_arrow_schema().remove_metadata())
        except (pa.ArrowException, OSError):
            unreadable.append(file)
            continue
        groups.setdefault(columns, []).append(f"file://{file.absolute()}")
        count += about.num_rows
    return list(groups.values()), unreadable, count


def _as_far_as_it_goes(read: DataFrame, wanted: StructType) -> DataFrame:
    """The columns of a record, null where the files have none or none that can be taken for it."""
    plain = {field.name for field in read.schema if isinstance(field.dataType, (NumericType, StringType))}
    given = {
        "source": sf.col("_metadata.file_path"),
        "row": sf.substring(sf.to_json(sf.struct(*read.columns)), 1, SHOWN),
        **{name: sf.col(name) for name in plain},
    }
    return read.select(
        *(given.get(field.name, sf.lit(None)).try_cast(field.dataType).alias(field.name) for field in wanted)
    )
