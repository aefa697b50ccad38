from __future__ import annotations

import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from firelane.errors import FirelaneError
from firelane.pipeline import city as cities
from firelane.pipeline import jobs
from firelane.pipeline.city import ALWAYS, SHAPE, City, trace, zone_weights
from firelane.pipeline.positions import Grid
from firelane.pipeline.schemas import NUMBERED_POSITIONS

SMALL = City(vehicles=300, zones=20, step_s=1200, hours=24, seed=7)


def rows(table):
    return sorted(map(tuple, table.collect()))


@pytest.fixture(scope="module")
def day(spark):
    """A day of 3000 vehicles in 100 zones, as numpy columns."""
    table = trace(spark, City(vehicles=3000, zones=100, step_s=1800, hours=24, seed=3)).toArrow()
    return {name: table[name].to_numpy() for name in table.column_names}


def at(day, hour):
    now = day["time_s"] == hour * 3600
    return {name: column[now] for name, column in day.items()}


def zones(seen, columns=10):
    return (seen["y_m"] // 250).astype(int) * columns + (seen["x_m"] // 250).astype(int)


def test_a_seed_says_it_all_however_the_work_is_divided(spark, monkeypatch):
    whole = rows(trace(spark, SMALL))
    monkeypatch.setattr(cities, "ROWS_IN_A_TASK", 999)
    assert rows(trace(spark, SMALL)) == whole
    assert len(whole) > 300 * 72 / 3
    other = City(vehicles=300, zones=20, step_s=1200, hours=24, seed=8)
    assert not set(rows(trace(spark, other))) & set(whole)


def test_columns_are_those_of_a_trace_and_rows_in_order_of_time(spark):
    table = trace(spark, SMALL)
    assert ", ".join(f"{one.name} {one.dataType.simpleString().upper()}" for one in table.schema) == NUMBERED_POSITIONS
    times = [row.time_s for row in table.coalesce(1).collect()]
    assert times == sorted(times)
    assert set(times) == {1200.0 * step for step in range(72)}


def test_zones_as_homes_and_as_places_of_work_are_pareto_sized():
    city = City(vehicles=1, zones=400)
    for weights in zone_weights(city):
        ranked = np.sort(weights)[::-1]
        middle = (np.arange(400) + 0.5) / 400  # shares of zones that are as large or larger
        assert np.polyfit(np.log(ranked), np.log(middle), 1)[0] == pytest.approx(-SHAPE)


def test_at_night_vehicles_are_in_zones_in_proportion_to_their_size(day):
    home, _ = zone_weights(City(vehicles=3000, zones=100, seed=3))
    night = at(day, 3)
    counted = np.bincount(zones(night), minlength=100)
    expected = home / home.sum() * len(night["vehicle"])
    frequent = expected > 5
    squares = np.sum((counted - expected)[frequent] ** 2 / expected[frequent])
    freedom = np.count_nonzero(frequent)
    assert squares < freedom + 4 * np.sqrt(2 * freedom)


def test_vehicles_drive_in_in_the_morning_and_out_in_the_evening(day):
    def from_centre(hour):
        seen = at(day, hour)
        return np.hypot(seen["x_m"] - 1250, seen["y_m"] - 1250).mean()

    def there(hour):
        return len(at(day, hour)["vehicle"])

    assert there(3) == pytest.approx(3000 * ALWAYS, abs=4 * np.sqrt(3000 * ALWAYS * (1 - ALWAYS)))
    assert there(12.5) == 3000
    assert there(3) < there(7) < there(9) <= there(12.5)
    assert there(12.5) > there(20) > there(23)
    assert from_centre(12.5) < 0.75 * from_centre(3)
    assert from_centre(23) > 1.2 * from_centre(12.5)


def test_nobody_leaves_the_city_or_is_seen_twice_at_once(day):
    for axis in ("x_m", "y_m"):
        assert day[axis].min() >= 0
        assert day[axis].max() <= 2500
    assert len(set(zip(day["vehicle"], day["time_s"], strict=True))) == len(day["vehicle"])


def test_speeds_are_those_at_which_positions_change(spark):
    table = trace(spark, City(vehicles=20, zones=25, zone_m=1000, step_s=1, hours=8.2, seed=1)).where("time_s > 27000")
    one = {name: table.toArrow()[name].to_numpy() for name in table.columns}
    for vehicle in range(20):
        own = one["vehicle"] == vehicle
        x, y, speed = (one[name][own][np.argsort(one["time_s"][own])] for name in ("x_m", "y_m", "speed_mps"))
        if len(x) < 100:
            continue
        driven = np.hypot(np.diff(x), np.diff(y))
        middle = (speed[1:] + speed[:-1]) / 2
        assert np.median(np.abs(driven - middle)) < 0.02  # positions and speeds are in hundredths
        assert np.mean(np.abs(driven - middle) > 0.1) < 0.01  # but where it sets out or arrives


def test_days_differ_and_repeat_in_kind(spark):
    two = City(vehicles=500, zones=16, step_s=3600, hours=48, seed=2)
    counts = dict(trace(spark, two).groupBy("time_s").count().collect())
    assert counts[12 * 3600.0] == counts[36 * 3600.0] == 500
    assert counts[7 * 3600.0] != counts[31 * 3600.0]
    assert abs(counts[7 * 3600.0] - counts[31 * 3600.0]) < 100


def test_the_job_writes_a_trace_by_the_hour_that_can_be_read_again(spark, tmp_path):
    done = jobs.city(spark, output=tmp_path / "city", city=SMALL)
    table = pq.read_table(tmp_path / "city")
    assert done.rows_out == {"positions": table.num_rows}
    assert set(table["hour"].to_pylist()) == set(range(24))
    assert done.line().startswith(f"city: {table.num_rows:,} positions, ")
    again = jobs.positions(spark, source=tmp_path / "city", output=tmp_path / "out", grid=Grid(window_s=1200))
    assert (again.rows_in, again.rejects) == (table.num_rows, {})
    assert sum(pq.read_table(tmp_path / "out" / "loads")["subscribers"].to_pylist()) == table.num_rows


def test_hours_in_which_nobody_is_there_are_one_line_and_leave_the_trace_of_before(spark, tmp_path):
    before = jobs.city(spark, output=tmp_path / "city", city=City(vehicles=50, zones=4, step_s=3600, seed=1))
    with pytest.raises(FirelaneError, match="no vehicle was on the road in these hours"):
        jobs.city(spark, output=tmp_path / "city", city=City(vehicles=1, hours=0.1, step_s=60, seed=1))
    assert pq.read_table(tmp_path / "city" / "positions").num_rows == before.rows_out["positions"] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"vehicles": 0},
        {"hours": 0.0},
        {"zones": 0},
        {"step_s": 0},
        {"zone_m": -1.0},
        {"seed": -1},
        {"hours": math.inf},
        {"zones": 99_999_999_999},
    ],
)
def test_sizes_that_make_no_sense_get_one_line(wrong):
    with pytest.raises(FirelaneError, match=next(iter(wrong))):
        City(**{"vehicles": 1} | wrong)


@pytest.mark.parametrize("vehicles", [2**60, 10**9])
def test_more_than_can_be_made_is_refused(vehicles):
    with pytest.raises(FirelaneError, match="make more than 1,000,000,000,000 positions; ask for fewer"):
        City(vehicles=vehicles, step_s=60)
