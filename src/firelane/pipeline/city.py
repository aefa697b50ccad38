"""Traces of a city from a seed, of any size: commuters who drive in in the morning and out in the evening.

Every column of a row follows from the vehicle's number, the time and the seed by hashes, so any part of a trace can be
made anywhere, in any order, and comes out the same.

The size of zones follows a Pareto distribution: as places to live they are spread over the city, as places to work the
large ones are in the middle. A vehicle drives in circles within the zone where it lives or works, and straight from one
to the other. One in ten is always there; the others appear before they set out and are gone some time after they
are home.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from firelane.arrays import Floats
from firelane.errors import FirelaneError
from firelane.pipeline.schemas import NUMBERED_POSITIONS, fitted
from firelane.simulate.kernel import alias_table

SHAPE = 1.16  # of the Pareto distribution: a fifth of 400 zones has 70 % of the vehicles
ALWAYS = 0.1  # the share of vehicles that are there day and night
COMMUTE_MPS, CIRCLE_MPS = 8.0, 2.0
MORNING_S, MORNING_SPREAD_S = 8 * 3600.0, 3600.0
EVENING_S, EVENING_SPREAD_S = 17.5 * 3600.0, 4500.0
EARLY_S, LATE_S = 2 * 3600.0, 3 * 3600.0  # the most that one is there before it sets out and after it is back
DAY_S = 86_400
MOST_ZONES = 100_000
MOST_SEED = 2**63 - 1
ROWS_IN_A_TASK = 2_000_000
MOST_ROWS = 10**12  # as many tasks as Spark's driver can still look after

# What is drawn for a vehicle, once or for each day; the numbers keep the draws apart.
_HOME, _WORK, _EAST, _NORTH, _RADIUS, _PHASE, _ALWAYS, _EARLY, _LATE, _MORNING, _EVENING = range(11)


@dataclass(frozen=True, slots=True, kw_only=True)
class City:
    """How large a trace is to be; zones are squares on a grid that begins at 0, 0."""

    vehicles: int
    hours: float = 23.0
    zones: int = 400
    zone_m: float = 250.0
    step_s: int = 60
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("vehicles", "hours", "zones", "zone_m", "step_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise FirelaneError(
                    f"{name}: {getattr(self, name):g} makes no city; it must be more than 0, and finite"
                )
        if self.zones > MOST_ZONES:
            raise FirelaneError(f"zones: {self.zones} are too many; there may be {MOST_ZONES}")
        if not 0 <= self.seed <= MOST_SEED:
            raise FirelaneError(f"seed: {self.seed} is out of range; it goes from 0 to {MOST_SEED}")
        if self.vehicles * self.steps > MOST_ROWS:
            raise FirelaneError(f"so many vehicles for so long make more than {MOST_ROWS:,} positions; ask for fewer")

    @property
    def steps(self) -> int:
        """How often each vehicle may be seen."""
        return math.ceil(self.hours * 3600 / self.step_s)

    @property
    def columns(self) -> int:
        """How many zones there are from west to east; the northernmost row may be shorter."""
        return math.ceil(math.sqrt(self.zones))


def trace(spark: SparkSession, city: City) -> DataFrame:
    """Where every vehicle is at every step at which it is there, in order of time."""
    candidates = city.vehicles * city.steps
    numbers = spark.range(0, candidates, 1, math.ceil(candidates / ROWS_IN_A_TASK))
    time_s = sf.call_function("div", sf.col("id"), sf.lit(city.vehicles)) * city.step_s
    asked = numbers.select((sf.col("id") % city.vehicles).alias("vehicle"), time_s.cast("double").alias("time_s"))
    there = _timed(_placed(asked, city), city).where("clock_s BETWEEN first_s AND last_s")
    return fitted(_moved(there, city), NUMBERED_POSITIONS)


def by_hour(table: DataFrame) -> DataFrame:
    """The trace with the `hour` each row is in, by which its folders are partitioned."""
    return table.withColumn("hour", sf.floor(sf.col("time_s") / 3600).cast("int"))


def zone_weights(city: City) -> tuple[Floats, Floats]:
    """How many live and how many work in each zone, in proportion: quantiles of a Pareto distribution."""
    size = ((np.arange(city.zones) + 0.5) / city.zones) ** (-1 / SHAPE)  # the largest first
    chance = np.random.default_rng(city.seed)
    home, work = np.empty(city.zones), np.empty(city.zones)
    home[chance.permutation(city.zones)] = size
    north, east = np.divmod(np.arange(city.zones), city.columns)
    from_centre = np.hypot(north - north.mean(), east - east.mean())
    work[np.argsort(from_centre * chance.uniform(0.5, 1.5, city.zones), kind="stable")] = size
    return home, work


def _placed(asked: DataFrame, city: City) -> DataFrame:
    """With the place where each vehicle lives, and how far east and north of it and away in time the one of work is."""
    home, work = zone_weights(city)
    zones = asked.withColumns({"home": _drawn(city, _HOME, home), "work": _drawn(city, _WORK, work)})

    def corner(zone: str) -> tuple[Column, Column]:
        return sf.col(zone) % city.columns, sf.floor(sf.col(zone) / city.columns)

    (home_x, home_y), (work_x, work_y) = corner("home"), corner("work")
    # At most a fifth of a zone from its centre and in circles no wider than that, no vehicle leaves its zone unasked.
    inside = [0.3 + 0.4 * _uniform(city, draw, "vehicle") for draw in (_EAST, _NORTH)]
    at_home = zones.withColumns(
        {
            "x_m": (home_x + inside[0]) * city.zone_m,
            "y_m": (home_y + inside[1]) * city.zone_m,
            "east_m": (work_x - home_x) * city.zone_m,
            "north_m": (work_y - home_y) * city.zone_m,
        }
    )
    distance_m = sf.greatest(sf.hypot("east_m", "north_m"), sf.lit(1.0))
    return at_home.withColumn("commute_s", distance_m / COMMUTE_MPS)


def _timed(placed: DataFrame, city: City) -> DataFrame:
    """With the time of day, when the vehicle sets out in the morning and in the evening, and when it is there."""
    day = sf.call_function("div", sf.col("time_s").cast("bigint"), sf.lit(DAY_S))
    dated = placed.withColumn("day", day).withColumn("clock_s", sf.col("time_s") - sf.col("day") * DAY_S)
    out = dated.withColumns(
        {
            "morning_s": MORNING_S + MORNING_SPREAD_S * _bell(city, _MORNING),
            "evening_s": EVENING_S + EVENING_SPREAD_S * _bell(city, _EVENING),
            "always": _uniform(city, _ALWAYS, "vehicle") < ALWAYS,
        }
    )
    early_s, late_s = EARLY_S * _uniform(city, _EARLY, "vehicle"), LATE_S * _uniform(city, _LATE, "vehicle")
    first_s, last_s = sf.col("morning_s") - early_s, sf.col("evening_s") + sf.col("commute_s") + late_s
    return out.withColumns(
        {
            "first_s": sf.when(sf.col("always"), 0.0).otherwise(first_s),
            "last_s": sf.when(sf.col("always"), float(DAY_S)).otherwise(last_s),
        }
    )


def _moved(there: DataFrame, city: City) -> DataFrame:
    """With position and speed: on the way to work by `way`, and on a circle at `angle`."""

    def way(since_s: str) -> Column:
        gone = (sf.col("clock_s") - sf.col(since_s)) / sf.col("commute_s")
        return sf.least(sf.greatest(gone, sf.lit(0.0)), sf.lit(1.0))

    out, back = way("morning_s"), way("evening_s")
    radius_m = (0.05 + 0.15 * _uniform(city, _RADIUS, "vehicle")) * city.zone_m
    turning = there.withColumns({"way": out - back, "radius_m": radius_m})
    turned = sf.col("time_s") * CIRCLE_MPS / sf.col("radius_m") + 2 * math.pi * _uniform(city, _PHASE, "vehicle")
    turning = turning.withColumn("angle", turned)
    drives = ((out > 0) & (out < 1)) | ((back > 0) & (back < 1))
    speed = sf.hypot(
        sf.when(drives, sf.col("east_m") / sf.col("commute_s")).otherwise(0.0) - CIRCLE_MPS * sf.sin("angle"),
        sf.when(drives, sf.col("north_m") / sf.col("commute_s")).otherwise(0.0) + CIRCLE_MPS * sf.cos("angle"),
    )
    return turning.select(
        "time_s",
        "vehicle",
        _hundredths(sf.col("x_m") + sf.col("way") * sf.col("east_m") + sf.col("radius_m") * sf.cos("angle")).alias(
            "x_m"
        ),
        _hundredths(sf.col("y_m") + sf.col("way") * sf.col("north_m") + sf.col("radius_m") * sf.sin("angle")).alias(
            "y_m"
        ),
        _hundredths(speed).alias("speed_mps"),
    )


def _drawn(city: City, draw: int, weights: Floats) -> Column:
    """A zone for each vehicle, in proportion to these weights, by the alias method."""
    keep, other = alias_table(weights)
    place = _uniform(city, draw, "vehicle") * city.zones
    zone = sf.least(sf.floor(place), sf.lit(city.zones - 1)).cast("int")
    return sf.when(place - zone < sf.get(sf.lit(keep), zone), zone).otherwise(sf.get(sf.lit(other), zone).cast("int"))


def _uniform(city: City, draw: int, *who: str) -> Column:
    """A number from 0 to 1 that follows from the seed, what it is for and whom."""
    hashed = sf.xxhash64(sf.lit(city.seed).cast("bigint"), sf.lit(draw), *who)
    return sf.shiftrightunsigned(hashed, 11) * 2.0**-53


def _bell(city: City, draw: int) -> Column:
    """A number of mean 0 and deviation 1 within ±3 for a vehicle and day: three uniform ones, added up."""
    parts = [_uniform(city, 100 * draw + part, "vehicle", "day") for part in range(3)]
    return 2 * (parts[0] + parts[1] + parts[2] - 1.5)


def _hundredths(number: Column) -> Column:
    """Rounded to hundredths; Spark's own `round` goes through decimal numbers, slowly."""
    return sf.floor(number * 100 + 0.5) / 100
