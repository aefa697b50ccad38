from __future__ import annotations

import gzip
import json
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firelane.errors import FirelaneError
from firelane.pipeline import jobs
from firelane.pipeline.positions import Grid, changes, counted, loads
from firelane.pipeline.reading import Bounds
from firelane.pipeline.schemas import POSITIONS
from trace_data import BOLOGNA, needs_bologna

# Vehicle a drives east through two zones and back, b stands still, c blinks past, d is there once in the south-west.
DRIVEN = [
    (0.0, "a", 10.0, 10.0, 0.0),
    (30.0, "a", 249.9, 10.0, 0.0),
    (59.9, "a", 250.0, 10.0, 0.0),
    (60.0, "a", 260.0, 10.0, 0.0),
    (130.0, "a", 10.0, 249.9, 0.0),
    (0.0, "b", 1.0, 1.0, 0.0),
    (5.0, "b", 1.0, 1.0, 0.0),
    (60.0, "b", 1.0, 1.0, 0.0),
    (61.0, "c", 10.0, 250.0, 0.0),
    (0.0, "d", -0.1, -0.1, 0.0),
]


@pytest.fixture(scope="module")
def driven(spark):
    return spark.createDataFrame(DRIVEN, POSITIONS).cache()


def loads_of(positions, grid):
    return loads(counted(positions.selectExpr("*", "CAST(NULL AS STRING) AS reason"), grid), grid)


def test_a_vehicle_counts_once_in_every_zone_and_minute_in_which_it_is_seen(driven):
    assert sorted(tuple(row)[:3] for row in loads_of(driven, Grid()).collect()) == [
        (0, "zone/-1/-1", 1),
        (0, "zone/0/0", 2),
        (0, "zone/1/0", 1),
        (60, "zone/0/0", 1),
        (60, "zone/0/1", 1),
        (60, "zone/1/0", 1),
        (120, "zone/0/0", 1),
    ]


def test_a_zone_change_is_a_subscribe_and_whoever_is_seen_no_more_has_left(driven):
    assert sorted(map(tuple, changes(driven, Grid()).collect())) == [
        (0, "zone/-1/-1", 1, 1),  # d, all in one
        (0, "zone/0/0", 2, 1),  # a and b appear; a leaves at 59.9 s
        (0, "zone/1/0", 1, 0),
        (60, "zone/0/0", 0, 1),  # b is seen last
        (60, "zone/0/1", 1, 1),  # c
        (120, "zone/0/0", 1, 1),  # a is back, and seen last
        (120, "zone/1/0", 0, 1),
    ]


def test_the_grid_may_begin_elsewhere_with_other_zones_and_steps(driven):
    grid = Grid(side_m=1000.0, west_m=-0.5, south_m=-1000.0, window_s=100)
    assert sorted(tuple(row)[:3] for row in loads_of(driven, grid).collect()) == [
        (0, "zone/0/0", 1),
        (0, "zone/0/1", 3),
        (100, "zone/0/1", 1),
    ]


def test_random_traffic_is_counted_as_by_hand_and_who_comes_goes(spark):
    chance = np.random.default_rng(5)
    rows = [
        (float(t), f"v{v}", float(x), float(y), 0.0)
        for t, v, x, y in zip(
            chance.uniform(0, 600, 2000),
            chance.integers(0, 40, 2000),
            chance.uniform(-500, 500, 2000),
            chance.uniform(-500, 500, 2000),
            strict=True,
        )
    ]
    table = spark.createDataFrame(rows, POSITIONS).repartition(3)
    seen = defaultdict(set)
    for t, v, x, y, _ in rows:
        seen[int(t // 60) * 60, f"zone/{int(x // 250)}/{int(y // 250)}"].add(v)
    assert {(r.time_s, r.topic): r.subscribers for r in loads_of(table, Grid()).collect()} == {
        place: len(who) for place, who in seen.items()
    }
    entered, moved = defaultdict(int), defaultdict(int)
    last = {}
    for t, v, x, y, _ in sorted(rows):
        zone = f"zone/{int(x // 250)}/{int(y // 250)}"
        if last.get(v) != zone:
            entered[int(t // 60) * 60, zone] += 1
        last[v] = zone
    counted = changes(table, Grid()).collect()
    assert {(r.time_s, r.topic): r.subscribes for r in counted if r.subscribes} == entered
    for row in counted:
        moved[row.topic] += row.subscribes - row.unsubscribes
    assert set(moved.values()) == {0}


@pytest.mark.parametrize("grid", [Grid(), Grid(side_m=1.0, window_s=1), Grid(side_m=1e5, west_m=-7.5, window_s=10**6)])
def test_what_is_within_reach_keeps_its_place_to_the_farthest_corner(spark, grid):
    reach = grid.reach
    corners = [
        (0.0, "a", reach.west_m, reach.south_m, 0.0),
        (0.0, "a", reach.east_m, reach.south_m, 0.0),
        (float(reach.last_s), "a", reach.west_m, reach.north_m, 0.0),
        (float(reach.last_s), "a", reach.east_m, reach.north_m, 0.0),
    ]
    last = reach.last_s // grid.window_s * grid.window_s
    far = 2 ** (grid.zone_bits - 1) - 1
    assert sorted(tuple(row)[:3] for row in loads_of(spark.createDataFrame(corners, POSITIONS), grid).collect()) == [
        (0, f"zone/-{far}/-{far}", 1),
        (0, f"zone/{far}/-{far}", 1),
        (last, f"zone/-{far}/{far}", 1),
        (last, f"zone/{far}/{far}", 1),
    ]
    assert reach.east_m - grid.west_m >= 16_000 * grid.side_m


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(FirelaneError, match="too small"):
        Grid(side_m=0.5)
    for window_s in (0, 99_999_999_999):
        with pytest.raises(FirelaneError, match="a window is from 1 to 4294967296 seconds"):
            Grid(window_s=window_s)
    for origin in ({"west_m": 1e308}, {"south_m": -1e10}):
        with pytest.raises(FirelaneError, match="the origin of zones is in metres, at most 1e\\+09"):
            Grid(**origin)


# -------------------------------------------------------------------------------------------- the job


def tables(output):
    return {
        folder.name: sorted(map(json.dumps, pq.read_table(folder).to_pylist()))
        for folder in output.iterdir()
        if folder.is_dir()
    }


def test_the_job_writes_tables_and_rejects_and_again_the_same(spark, tmp_path):
    lines = [" ".join(map(str, row)) for row in DRIVEN]
    with gzip.open(tmp_path / "some.tr.gz", "wt") as packed:
        packed.write("\n".join([*lines, "90000 e 1 1 1", "7 f 1", "-1 g 1 1 1", "0 h 9999 1 1"]))
    asked = {"source": tmp_path / "some.tr.gz", "output": tmp_path / "out", "grid": Grid()}
    asked |= {"bounds": Bounds(-1, -1, 1000, 1000)}
    done = jobs.positions(spark, **asked, changes=True)
    assert (done.rows_in, done.rows_out) == (14, {"loads": 8, "changes": 8})
    assert done.rejects == {"half a line": 1, "negative time": 1, "outside the city": 1}
    assert done.line().startswith(
        "positions: 14 rows in, 8 loads, 8 changes, 3 rejects (1 half a line, 1 negative time, 1 outside the city), "
    )
    assert {one.name for one in (tmp_path / "out" / "loads").iterdir() if one.is_dir()} == {"day=0", "day=1"}
    first = tables(tmp_path / "out")
    assert sorted(json.loads(row)["row"] for row in first["rejects"]) == ["-1 g 1 1 1", "0 h 9999 1 1", "7 f 1"]
    assert jobs.positions(spark, **asked, changes=True).rows_out == done.rows_out
    assert tables(tmp_path / "out") == first
    (tmp_path / "less.tr").write_text("0 a 1 1 1\n")
    again = jobs.positions(spark, **asked | {"source": tmp_path / "less.tr"})
    assert (again.rows_in, again.rows_out, again.rejects) == (1, {"loads": 1}, {})
    left = tables(tmp_path / "out")
    assert left.keys() == {"loads", "rejects"}
    assert left["rejects"] == []


def test_a_trace_without_a_good_row_is_empty_tables_and_rejects(spark, tmp_path):
    (tmp_path / "some.csv").write_text("time,vehicle,x,y\n0,1,2,3\n")
    done = jobs.positions(spark, source=tmp_path / "some.csv", output=tmp_path / "out", grid=Grid(), changes=True)
    assert (done.rows_in, done.rows_out, done.rejects) == (2, {"loads": 0, "changes": 0}, {"half a line": 2})


def test_a_run_that_fails_leaves_the_changes_of_the_run_before(spark, tmp_path):
    (tmp_path / "some.tr").write_text("0 a 1 1 1\n")
    (tmp_path / "cut.tr.gz").write_bytes(gzip.compress(b"0 1 2 3 4\n" * 9_999_999)[:-100])
    asked = {"output": tmp_path / "out", "grid": Grid()}
    jobs.positions(spark, source=tmp_path / "some.tr", **asked, changes=True)
    before = tables(tmp_path / "out")
    with pytest.raises(Exception, match=r"cut\.tr\.gz"):
        jobs.positions(spark, source=tmp_path / "cut.tr.gz", **asked)
    assert tables(tmp_path / "out") == before
    assert before.keys() == {"loads", "changes", "rejects"}


def test_tables_are_not_written_where_the_trace_is(spark, tmp_path):
    (tmp_path / "some.tr").write_text("0 a 1 1 1\n")
    with pytest.raises(FirelaneError, match="this is where the input is"):
        jobs.positions(spark, source=tmp_path, output=tmp_path / "out", grid=Grid())


def test_an_empty_parquet_file_is_no_rows_in(spark, tmp_path):
    columns = {"time_s": pa.float64(), "vehicle": pa.string(), "x_m": pa.float64(), "y_m": pa.float64()}
    pq.write_table(pa.schema(list(columns.items())).empty_table(), tmp_path / "some.parquet")
    done = jobs.positions(spark, source=tmp_path / "some.parquet", output=tmp_path / "out", grid=Grid())
    assert done.line().startswith("positions: 0 rows in, 0 loads, 0 rejects, ")


# ------------------------------------------------------------------------------------------- Bologna


def gini(values):
    ranked = np.sort(values)
    n = len(ranked)
    return 2 * np.sum(np.arange(1, n + 1) * ranked) / (n * ranked.sum()) - (n + 1) / n


@pytest.mark.slow
@needs_bologna
def test_bologna_has_the_loads_that_its_description_gives(spark, tmp_path):
    """Figures of the zone check in the README beside the trace, which another program made."""
    done = jobs.positions(spark, source=BOLOGNA, output=tmp_path, grid=Grid(), bounds=Bounds(0, 0, 2250, 2000))
    assert done.rows_in == 850_238
    assert done.rejects == {"outside the city": 111}  # x from -0.30 m on
    table = pq.read_table(tmp_path / "loads")
    assert len(set(table["topic"].to_pylist())) == 55
    size, time_s = table["subscribers"].to_numpy(), table["time_s"].to_numpy()
    for until, steps, mean, median, p95, empty, unequal in (
        (3600, 60, 43.6, 34, 124, 0.015, 0.461),
        (9999, 86, 34.6, 23, 117, 0.131, 0.558),
    ):
        sizes = np.zeros(55 * steps)
        sizes[: np.count_nonzero(time_s < until)] = size[time_s < until]
        assert sizes.mean() == pytest.approx(mean, abs=0.05)
        assert (np.median(sizes), np.percentile(sizes, 95), sizes.max()) == (median, p95, 183)
        assert np.mean(sizes == 0) == pytest.approx(empty, abs=0.0005)
        assert gini(sizes) == pytest.approx(unequal, abs=0.0005)
