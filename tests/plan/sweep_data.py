"""Data sets as `firelane pipeline sweep` makes them, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from firelane.pipeline.sweep.grid import make_grid
from firelane.pipeline.sweep.trial import Trial


def swept(scenario, folder, *, publications=20_000, simulated=True, **varied):
    """Rows of every point of a grid, in a folder like the job's."""
    grid = make_grid(scenario, **varied)
    rows = []
    for point in grid.points():
        trial = Trial(scenario, point)
        rows += trial.predicted()
        if simulated:
            rows += [row for seed in grid.seeds for row in trial.simulated(seed, publications)]
    for row in rows:
        row["delay_histogram"] = None if row["delay_histogram"] is None else row["delay_histogram"].tolist()
    target = folder / "sweep" / "chunk=0"
    target.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), target / "part.parquet")
    (folder / "sweep" / "_about.json").write_text("{}")
    return folder
