"""Vehicle traces in: Cologne's text, SUMO's floating-car XML or Parquet; every row is used or refused with a reason.

A gzip file is one stream that only one task can unpack; its rows are dealt out to all before they are taken apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegralType, NullType, NumericType, StringType

from firelane.errors import FirelaneError
from firelane.pipeline.files import alike, to_read
from firelane.pipeline.formats import FCD, PARQUET, TEXT, Input, cut_off, look
from firelane.pipeline.records import NOT_PARQUET, shown
from firelane.pipeline.schemas import REJECTS, fitted

HALF = "half a line"
TOO_LONG = "more than five fields"
NO_VEHICLE = "no vehicle"
NOT_A_NUMBER = "not a number"
NOT_FINITE = "not finite"
NEGATIVE_TIME = "negative time"
NO_TIME = "no time of this world"
OUTSIDE = "outside the city"

FEW = 8  # gzip files, too few for every task to have one

MOST_IN_A_STEP = 2**31 - 1

REQUIRED = ("time_s", "x_m", "y_m")
FIELDS = ("time_s", "vehicle", "x_m", "y_m", "speed_mps")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The city, borders included, and the last time of the trace."""

    west_m: float
    south_m: float
    east_m: float
    north_m: float
    last_s: float = math.inf

    def __post_init__(self) -> None:
        if not (self.west_m < self.east_m and self.south_m < self.north_m):
            raise FirelaneError("the city's bounds enclose nothing; write west,south,east,north in metres")

    def within(self, other: Bounds) -> Bounds:
        """What is inside both."""
        return Bounds(
            max(self.west_m, other.west_m),
            max(self.south_m, other.south_m),
            min(self.east_m, other.east_m),
            min(self.north_m, other.north_m),
            min(self.last_s, other.last_s),
        )


def read_positions(spark: SparkSession, source: Path, city: Bounds) -> DataFrame:
    """The trace in a file, or in all files of a folder, with the `reason` why a row cannot be used, null if it can.

    `vehicle` is text, but whole numbers of a Parquet file stay what they are, as they are faster to compare.
    """
    given = look(source)
    if given.format == PARQUET:
        return _parquet(spark, given, city)
    return _judged({TEXT: _text, FCD: _fcd}[given.format](spark, given), city)


def good(judged: DataFrame) -> DataFrame:
    """The positions that can be used."""
    return judged.where("reason IS NULL").select(*FIELDS)


def rejects(judged: DataFrame) -> DataFrame:
    """The rows that cannot, and why."""
    return fitted(judged.where("reason IS NOT NULL"), REJECTS)


def _text(spark: SparkSession, given: Input) -> DataFrame:
    """Cologne's format: five fields a line, with any white space between them."""
    lines = _dealt_out(spark.read.text([*map(to_read, given.files)]), given)
    split = lines.withColumn("field", sf.split(sf.trim("value"), r"\s+"))
    fields = (sf.get("field", sf.lit(number)).alias(name) for number, name in enumerate(FIELDS))
    return split.select(*fields, sf.size("field").alias("fields"), "source", sf.col("value").alias("row"))


def _fcd(spark: SparkSession, given: Input) -> DataFrame:
    """SUMO's format: vehicles inside timesteps. Taken for text, cut before each timestep, it can be read in parts."""
    reader = spark.read.option("lineSep", "<timestep")
    steps = _dealt_out(reader.text([*map(to_read, given.files)]), given)
    vehicles = steps.select(
        _attribute("time", sf.substring_index("value", ">", 1)).alias("time_s"),
        sf.explode(sf.slice(sf.split("value", r"<vehicle\s"), 2, MOST_IN_A_STEP)).alias("rest"),
        "source",
    ).withColumn("row", sf.substring_index("rest", ">", 1))
    whole = sf.contains("rest", sf.lit(">"))
    read = vehicles.select(
        "time_s",
        _unescaped(_attribute("id", sf.col("row"))).alias("vehicle"),
        *(_attribute(name.split("_")[0], sf.col("row")).alias(name) for name in ("x_m", "y_m", "speed_mps")),
        sf.when(whole, len(FIELDS)).otherwise(0).alias("fields"),
        "source",
        "row",
    )
    halves = [(str(file), 0, "the end of the file is missing") for file in given.files if cut_off(file)]
    if not halves:
        return read
    return read.unionByName(
        spark.createDataFrame(halves, "source STRING, fields INT, row STRING"), allowMissingColumns=True
    )


def _parquet(spark: SparkSession, given: Input, city: Bounds) -> DataFrame:
    """Files of the same columns are read together; numbers and text for vehicles become text."""
    groups, unreadable, _ = alike(given.files)
    if unreadable:
        raise FirelaneError(f"{unreadable[0]}: this is {NOT_PARQUET}; name another trace")
    if not groups:
        raise FirelaneError(f"{given.place}: there is nothing in it; name a trace with at least one row")
    parts = [_judged(_columns(spark.read.parquet(*map(to_read, files)), files[0]), city) for files in groups]
    if len({part.schema["vehicle"].dataType for part in parts}) > 1:
        parts = [part.withColumn("vehicle", sf.col("vehicle").cast("string")) for part in parts]
    return reduce(DataFrame.unionByName, parts)


def _columns(read: DataFrame, file: Path) -> DataFrame:
    """Columns of our own names; speed may be missing, and vehicle be called vehicle_id."""
    there = {field.name: field.dataType for field in read.schema}
    called = {name: name for name in FIELDS} | ({} if "vehicle" in there else {"vehicle": "vehicle_id"})
    for name in FIELDS:
        kind = there.get(called[name], NullType() if name == "speed_mps" else None)
        if kind is None:
            columns = ", ".join(there) or "none"
            raise FirelaneError(f"{file}: the column {name} is missing; it has {columns}")
        if not isinstance(kind, (NumericType, StringType, NullType)):
            raise FirelaneError(f"{file}: the column {name} holds {kind.simpleString()}, not numbers or text")
    numbered = isinstance(there[called["vehicle"]], IntegralType)
    speed = sf.col("speed_mps") if "speed_mps" in there else sf.lit(None).cast("double")
    return read.select(
        *REQUIRED,
        sf.col(called["vehicle"]).cast("bigint" if numbered else "string").alias("vehicle"),
        speed.alias("speed_mps"),
        sf.lit(len(FIELDS)).alias("fields"),
        sf.col("_metadata.file_path").alias("source"),
        sf.to_json(sf.struct("*")).alias("row"),
    )


def _judged(raw: DataFrame, city: Bounds) -> DataFrame:
    """The rows as positions, with the first of the reasons that holds."""
    texts = {field.name for field in raw.schema if isinstance(field.dataType, StringType)}
    numbers = {
        name: (_decimal(sf.col(name)) if name in texts else sf.col(name)).try_cast("double")
        for name in (*REQUIRED, "speed_mps")
    }
    time_s, x_m, y_m, speed_mps = numbers.values()
    nameless = sf.col("vehicle").isNull() | ((sf.col("vehicle") == "") if "vehicle" in texts else sf.lit(False))
    speedless = (sf.col("speed_mps").isNotNull() & speed_mps.isNull()) if "speed_mps" in texts else sf.lit(False)
    faults = {
        HALF: sf.col("fields") < len(FIELDS),
        TOO_LONG: sf.col("fields") > len(FIELDS),
        NO_VEHICLE: nameless,
        NOT_A_NUMBER: time_s.isNull() | x_m.isNull() | y_m.isNull() | speedless,
        # To Spark, NaN is more than infinity. A speed may be unknown.
        NOT_FINITE: (sf.abs(time_s) >= math.inf) | (sf.abs(x_m) >= math.inf) | (sf.abs(y_m) >= math.inf),
        NEGATIVE_TIME: time_s < 0,
        NO_TIME: time_s > city.last_s,
        OUTSIDE: (x_m < city.west_m) | (x_m > city.east_m) | (y_m < city.south_m) | (y_m > city.north_m),
    }
    return raw.select(
        *(numbers.get(name, sf.col(name)).alias(name) for name in FIELDS),
        sf.coalesce(*(sf.when(holds, reason) for reason, holds in faults.items())).alias("reason"),
        "source",
        shown(sf.col("row")).alias("row"),
    )


def _dealt_out(read: DataFrame, given: Input) -> DataFrame:
    """The same rows with their file's name, on as many tasks as there are."""
    rows = read.select("value", sf.col("_metadata.file_path").alias("source"))
    return rows.repartition("value") if given.zipped and len(given.files) < FEW else rows


def _decimal(text: Column) -> Column:
    """The text, null if only Java takes it for a number: 1d, 1f, 0x1p3."""
    return sf.when(~text.rlike(r"[0-9.][dDfF]\s*$|[xX]"), text)


def _attribute(name: str, tag: Column) -> Column:
    """The value of an attribute, null if it is not there; it ends with the kind of quote it began with."""
    found = sf.regexp_extract(tag, rf"""(?s)(?:^|\s){name}\s*=\s*(["'])(.*?)\1""", 2)
    return sf.when(found != "", found)


def _unescaped(text: Column) -> Column:
    for escape, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        text = sf.replace(text, sf.lit(escape), sf.lit(sign))
    return text
