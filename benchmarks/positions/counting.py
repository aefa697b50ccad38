"""Counts the distinct vehicles of each zone and minute with one engine, twice, and prints how long that took.

    python counting.py ENGINE FOLDER [MASTER]

Each `counts` returns columns: the minute, the zone's column and row, and how many vehicles were in it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

SIDE_M, WINDOW_S = 250, 60

Columns = list[Any]  # of numbers, as long as each other


def spark(folder: str, master: str) -> Callable[[], Columns]:
    """As `firelane pipeline positions` counts, without its look for bad rows, which the others do not do."""
    from pyspark.sql import functions as sf

    from firelane.pipeline.positions import Grid, counted, loads
    from firelane.pipeline.session import start

    session, grid = start(master or None), Grid(side_m=SIDE_M, window_s=WINDOW_S)

    def counts() -> Columns:
        positions = session.read.parquet(folder).withColumn("reason", sf.lit(None).cast("string"))
        zone = sf.split("topic", "/")
        named = loads(counted(positions, grid), grid).select(
            "time_s", zone[1].cast("int").alias("column"), zone[2].cast("int").alias("row"), "subscribers"
        )
        return [column.to_numpy() for column in named.toArrow().columns]

    return counts


def duckdb(folder: str, _: str) -> Callable[[], Columns]:
    """In SQL."""
    import duckdb as engine

    connection = engine.connect()
    query = f"""
        SELECT CAST(floor(time_s / {WINDOW_S}) AS BIGINT) * {WINDOW_S} AS time_s,
               CAST(floor(x_m / {SIDE_M}) AS INTEGER) AS zone_column,
               CAST(floor(y_m / {SIDE_M}) AS INTEGER) AS zone_row,
               count(DISTINCT vehicle) AS vehicles
        FROM read_parquet('{folder}/*/*.parquet') GROUP BY 1, 2, 3
    """
    return lambda: list(connection.sql(query).fetchnumpy().values())


def polars(folder: str, _: str) -> Callable[[], Columns]:
    """By its lazy engine, which reads only what it needs."""
    import polars as pl

    def counts() -> Columns:
        positions = pl.scan_parquet(f"{folder}/*/*.parquet")
        placed = positions.select(
            (pl.col("time_s") // WINDOW_S).cast(pl.Int64).alias("step"),
            (pl.col("x_m") / SIDE_M).floor().cast(pl.Int32).alias("column"),
            (pl.col("y_m") / SIDE_M).floor().cast(pl.Int32).alias("row"),
            "vehicle",
        )
        counted = placed.group_by("step", "column", "row").agg(pl.col("vehicle").n_unique().alias("vehicles"))
        found = counted.select(pl.col("step") * WINDOW_S, "column", "row", "vehicles").collect(engine="streaming")
        return [column.to_numpy() for column in found.get_columns()]

    return counts


ENGINES = {"Spark": spark, "DuckDB": duckdb, "Polars": polars}


def main() -> None:
    """Start, count, count again."""
    engine, folder, master = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""
    began_s = perf_counter()
    counts = ENGINES[engine](folder, master)
    times_s = [perf_counter() - began_s]
    for _ in range(2):
        began_s = perf_counter()
        columns = counts()
        times_s.append(perf_counter() - began_s)
    start_s, first_s, second_s = times_s
    table = np.array([np.asarray(column, np.int64) for column in columns])
    ordered = table[:, np.lexsort(table[2::-1])]
    digest = hashlib.sha256(np.ascontiguousarray(ordered).tobytes()).hexdigest()
    found = {"start_s": start_s, "first_s": first_s, "second_s": second_s, "rows": table.shape[1], "digest": digest}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
