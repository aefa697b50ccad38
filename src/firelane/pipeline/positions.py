"""Vehicle positions to loads: a zone of the city is a topic, a vehicle in it a subscriber.

Implements: broker-cluster, section V.
Differs:    zones are squares on a grid that begins at 0, 0; leaving the trace is an unsubscribe.
Symbols:    W_z, H_z -> side_m, K -> the zones that were ever visited, p_i -> subscribers.
Checked by: tests/pipeline/test_positions.py
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from firelane.errors import FirelaneError
from firelane.pipeline.reading import Bounds
from firelane.pipeline.schemas import CHANGES, LOADS, fitted

SMALLEST_M = 1.0
FARTHEST_M = 1e9  # of an origin: a double still tells millimetres there
LAST_S = 2**32  # no time is later: it is in the year 2106
_REFUSED = -1  # in the place of zone and step


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Square zones over the plane, and steps of time."""

    side_m: float = 250.0
    west_m: float = 0.0
    south_m: float = 0.0
    window_s: int = 60

    def __post_init__(self) -> None:
        if self.side_m < SMALLEST_M:
            raise FirelaneError(f"zones of {self.side_m:g} m are too small; make them {SMALLEST_M:g} m or more")
        if not 1 <= self.window_s <= LAST_S:
            raise FirelaneError(f"a window is from 1 to {LAST_S} seconds long")
        if max(abs(self.west_m), abs(self.south_m)) > FARTHEST_M:
            raise FirelaneError(f"the origin of zones is in metres, at most {FARTHEST_M:g} from 0, 0")

    def column(self) -> Column:
        """In which column of zones a position is, from west to east."""
        return sf.floor((sf.col("x_m") - self.west_m) / self.side_m)

    def row(self) -> Column:
        """In which row of zones a position is, from south to north."""
        return sf.floor((sf.col("y_m") - self.south_m) / self.side_m)

    def step(self) -> Column:
        """In which step of time a position is."""
        return sf.floor(sf.col("time_s") / self.window_s)

    @property
    def zone_bits(self) -> int:
        """How many bits of a place are for the column and how many for the row; the step has what it needs."""
        return (63 - (LAST_S // self.window_s).bit_length()) // 2

    @property
    def reach(self) -> Bounds:
        """How far zones go: further positions have no place."""
        far_m = (2 ** (self.zone_bits - 1) - 1) * self.side_m
        return Bounds(self.west_m - far_m, self.south_m - far_m, self.west_m + far_m, self.south_m + far_m, LAST_S)

    def place(self) -> Column:
        """Step, column and row in one whole number, by which Spark groups in half the time that it needs for three."""
        half, bits = 2 ** (self.zone_bits - 1), self.zone_bits
        column, row = self.column() + half, self.row() + half
        place: Column = sf.shiftleft(self.step(), 2 * bits) + sf.shiftleft(column, bits) + row
        return place

    def taken_apart(self, place: Column) -> list[Column]:
        """Step, column and row again."""
        half, bits = 2 ** (self.zone_bits - 1), self.zone_bits
        mask = sf.lit(2**bits - 1)
        column, row = sf.shiftright(place, bits).bitwiseAND(mask) - half, place.bitwiseAND(mask) - half
        return [sf.shiftright(place, 2 * bits).alias("step"), column.alias("column"), row.alias("row")]


def counted(judged: DataFrame, grid: Grid) -> DataFrame:
    """Positions within reach, counted by `place`: `rows`, and `subscribers`, the distinct vehicles among them.

    Those with a `reason` to refuse them are counted too, in one row, so that one look at a trace tells both. Sets of
    vehicles travel between machines, not positions.
    """
    good = sf.col("reason").isNull()
    placed = judged.select(
        sf.when(good, grid.place()).otherwise(_REFUSED).alias("place"),
        sf.when(good, sf.col("vehicle")).alias("vehicle"),
    )
    return placed.groupBy("place").agg(
        sf.count(sf.lit(1)).alias("rows"), sf.size(sf.collect_set("vehicle")).alias("subscribers")
    )


def passing() -> dict[str, Column]:
    """What can be observed of `counted`: how many rows there were, and how many were refused."""
    refused = sf.when(sf.col("place") == _REFUSED, sf.col("rows"))
    return {"rows": sf.coalesce(sf.sum("rows"), sf.lit(0)), "refused": sf.coalesce(sf.sum(refused), sf.lit(0))}


def loads(counted: DataFrame, grid: Grid) -> DataFrame:
    """How many vehicles were seen in each zone, in each step in which there were any."""
    placed = counted.where(sf.col("place") != _REFUSED).select(*grid.taken_apart(sf.col("place")), "subscribers")
    return fitted(placed.select(_time_s(grid), _topic(), "subscribers"), LOADS)


def changes(positions: DataFrame, grid: Grid) -> DataFrame:
    """How many vehicles entered (a subscribe) and left (an unsubscribe) each zone, in each step in which any did.

    A vehicle is in a zone until it is seen in another, or for the last time.
    """
    zone = sf.struct(grid.column().alias("column"), grid.row().alias("row"))
    travelled = Window.partitionBy("vehicle").orderBy("time_s", "zone")
    seen = positions.select("vehicle", "time_s", grid.step().alias("step"), zone.alias("zone")).select(
        "step", "zone", sf.lag("zone").over(travelled).alias("before"), sf.lead("step").over(travelled).alias("next")
    )
    appears, vanishes, moves = sf.col("before").isNull(), sf.col("next").isNull(), sf.col("before") != sf.col("zone")
    events = sf.array_compact(
        sf.array(
            sf.when(appears | moves, _event("zone", subscribes=1)),
            sf.when(moves, _event("before", subscribes=0)),
            sf.when(vanishes, _event("zone", subscribes=0)),
        )
    )
    counted = (
        seen.where(appears | moves | vanishes)
        .select("step", sf.inline(events))
        .groupBy("step", "zone.column", "zone.row")
        .agg(sf.sum("subscribes").alias("subscribes"), sf.sum("unsubscribes").alias("unsubscribes"))
    )
    return fitted(counted.select(_time_s(grid), _topic(), "subscribes", "unsubscribes"), CHANGES)


def _event(zone: str, *, subscribes: int) -> Column:
    counts = {"subscribes": subscribes, "unsubscribes": 1 - subscribes}
    return sf.struct(sf.col(zone).alias("zone"), *(sf.lit(count).alias(name) for name, count in counts.items()))


def by_day(table: DataFrame) -> DataFrame:
    """The table with the `day` of the trace that each row is in, by which its folders are partitioned."""
    return table.withColumn("day", sf.floor(sf.col("time_s") / 86_400).cast("int"))


def _time_s(grid: Grid) -> Column:
    return (sf.col("step") * grid.window_s).alias("time_s")


def _topic() -> Column:
    return sf.concat_ws("/", sf.lit("zone"), sf.col("column"), sf.col("row")).alias("topic")
