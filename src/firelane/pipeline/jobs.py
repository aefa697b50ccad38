"""The jobs of `firelane pipeline`, one function each: read, transform, write, count.

A job gets a session, its input, the folder for its tables (one folder in it per table) and its settings, and returns
what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from firelane.pipeline import writing
from firelane.pipeline.schemas import DELIVERIES, LOADS, MEMBERSHIP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firelane.pipeline.city import City
    from firelane.pipeline.positions import Grid as ZoneGrid
    from firelane.pipeline.reading import Bounds
    from firelane.pipeline.records import Records
    from firelane.pipeline.replays import Sending
    from firelane.pipeline.sweep.grid import Grid
    from firelane.pipeline.writing import Output
    from firelane.scenario.model import Scenario

REFUSED = "rejects"  # the table of what a job could not use


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job did: rows read, rows of each table written, rows refused by reason, how long and where.

    `notes` are sentences on what its reader should know.
    """

    job: str
    output: Path
    rows_in: int | None = None
    rows_out: Mapping[str, int]
    rejects: Mapping[str, int] = field(default_factory=dict)
    seconds: float
    notes: tuple[str, ...] = ()

    def line(self) -> str:
        """All of it in one line, for people."""
        written = ", ".join(f"{rows:,} {table}" for table, rows in self.rows_out.items())
        refused = ", ".join(f"{rows:,} {reason}" for reason, rows in self.rejects.items())
        rejects = _counted(sum(self.rejects.values()), "reject") + (f" ({refused})" if refused else "")
        counts = (written,) if self.rows_in is None else (_counted(self.rows_in, "row") + " in", written, rejects)
        done = f"{self.job}: {', '.join(counts)}, {self.seconds:.1f} s; in {self.output}"
        return "; ".join((done, *self.notes))

    def to_data(self) -> dict[str, Any]:
        """All of it as plain data, for machines."""
        return {
            "job": self.job,
            "output": str(self.output),
            "rows_in": self.rows_in,
            "rows_out": dict(self.rows_out),
            "rejects": dict(self.rejects),
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }


def positions(
    spark: SparkSession,
    *,
    source: Path,
    output: Path,
    grid: ZoneGrid,
    bounds: Bounds | None = None,
    changes: bool = False,
) -> JobResult:
    """Vehicle positions to loads: the distinct vehicles in each zone in each step; and how many came and went."""
    from pyspark.sql import Observation

    from firelane.pipeline import positions as zones
    from firelane.pipeline import reading

    began_s = perf_counter()
    writing.refuse_inside(output, source)
    judged = reading.read_positions(spark, source, grid.reach.within(bounds) if bounds else grid.reach)
    seen = Observation()
    counted = zones.counted(judged, grid).observe(seen, *(one.alias(name) for name, one in zones.passing().items()))
    tables = {"loads": zones.loads(counted, grid)}
    if changes:
        tables["changes"] = zones.changes(reading.good(judged), grid)
    refused = reading.rejects(judged)  # a second look at the trace, if there are any
    with writing.reserved(output, "positions", ("loads", "changes", REFUSED)) as out:
        rows_out = {name: out.write(name, zones.by_day(table), partition_by=["day"]) for name, table in tables.items()}
        rejects = _written_rejects(refused if seen.get["refused"] else refused.limit(0), out)
    return JobResult(
        job="positions",
        output=output,
        rows_in=seen.get["rows"],
        rows_out=rows_out,
        rejects=rejects,
        seconds=perf_counter() - began_s,
    )


def city(spark: SparkSession, *, output: Path, city: City) -> JobResult:
    """A trace of a city of any size, by the hour."""
    from firelane.pipeline.city import by_hour, trace

    began_s = perf_counter()
    with writing.reserved(output, "city", ("positions",)) as out:
        nobody = "no vehicle was on the road in these hours; ask for more vehicles, or more hours"
        rows = out.write("positions", by_hour(trace(spark, city)), partition_by=["hour"], if_empty=nobody)
    return JobResult(job="city", output=output, rows_out={"positions": rows}, seconds=perf_counter() - began_s)


def characteristics(spark: SparkSession, *, source: Path, output: Path) -> JobResult:
    """What loads look like, as tables and pictures: sizes over time, their distribution, a Pareto tail fitted to it."""
    from firelane.pipeline import characteristics as looks
    from firelane.pipeline.records import place_of, read_records
    from firelane.pipeline.tails import fits

    began_s = perf_counter()
    writing.refuse_inside(output, place_of(source, "loads"))
    read = read_records(spark, source, "loads", LOADS, looks.load_fault())
    loads = read.good
    counted = looks.sizes(loads)
    made = fits(counted)
    tables = {
        "over_time": looks.over_time(loads).toArrow(),
        "largest": looks.largest(loads).toArrow(),
        "distribution": looks.distribution(counted, made),
        "fits": looks.fit_table(made),
    }
    with writing.reserved(output, "characteristics", (*tables, REFUSED), looks.files(tables)) as out:
        rejects = _written_rejects(read.rejects, out)
        rows_out = {name: looks.write_small(spark, table, name, out) for name, table in tables.items()}
        looks.draw_over_time(tables["over_time"], tables["largest"], output / looks.OVER_TIME_PICTURE)
        looks.draw_distribution(tables["distribution"], made, output / looks.DISTRIBUTION_PICTURE)
    return JobResult(
        job="characteristics",
        output=output,
        rows_in=read.count,
        rows_out=rows_out,
        rejects=rejects,
        seconds=perf_counter() - began_s,
        notes=(looks.in_short(made), *looks.twice(loads)),
    )


def deliveries(spark: SparkSession, *, source: Path, output: Path, window_s: float = 60.0) -> JobResult:
    """Delivery records to Metrics per subscription and class, and to loads of topics, per window."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    from firelane.pipeline import telemetry
    from firelane.pipeline.records import place_of, read_records

    began_s = perf_counter()
    writing.refuse_inside(output, place_of(source, "deliveries"))
    read = read_records(spark, source, "deliveries", DELIVERIES, telemetry.delivery_fault())
    records = telemetry.once(telemetry.timed(read.good))
    passing = Observation()
    counted = records.observe(passing, sf.count(sf.lit(1)).alias("records"))
    tables = {
        "metrics": telemetry.metrics(telemetry.buckets(counted, window_s=window_s)),
        "loads": telemetry.topic_loads(records, window_s=window_s),
    }
    result = _telemetry_result("deliveries", read, tables, output, began_s)
    records_seen = passing.get["records"] if result.rows_out["metrics"] else 0  # of no rows Spark observes nothing
    twins = read.count - sum(result.rejects.values()) - records_seen
    return replace(result, notes=telemetry.twins_note(twins))


def subscriptions(spark: SparkSession, *, source: Path, output: Path) -> JobResult:
    """Membership records to loads: the distinct clients subscribed to each filter, per minute."""
    from firelane.pipeline import membership
    from firelane.pipeline.records import place_of, read_records
    from firelane.pipeline.telemetry import once

    began_s = perf_counter()
    writing.refuse_inside(output, place_of(source, "membership"))
    plausible = read_records(spark, source, "membership", MEMBERSHIP, membership.membership_fault()).good
    fault = membership.membership_fault(membership.middle_us(plausible))
    read = read_records(spark, source, "membership", MEMBERSHIP, fault)
    notes = membership.notes(read.good)
    tables = {"loads": membership.subscribers(once(read.good))}
    return replace(_telemetry_result("subscriptions", read, tables, output, began_s), notes=notes)


def sense(spark: SparkSession, *, source: Path, output: Path, how: Sending) -> JobResult:
    """Traces of sensors replayed through models: what need not be sent of each sensor."""
    from firelane.pipeline import replays

    began_s = perf_counter()
    writing.refuse_inside(output, source)
    traces = replays.traces_in(source)
    reading = replays.of_files(spark, traces, how) if traces else replays.of_readings(spark, source, how)
    with writing.reserved(output, "sense", ("replays", REFUSED)) as out, reading as read:
        rows = out.write("replays", read.good)
        rejects = _written_rejects(read.rejects, out)
    readings, sent = replays.totals(output / "replays")
    return JobResult(
        job="sense",
        output=output,
        rows_in=readings + sum(rejects.values()) if traces else read.count,
        rows_out={"replays": rows},
        rejects=rejects,
        seconds=perf_counter() - began_s,
        notes=replays.in_short(readings, sent, how),
    )


def sweep(
    spark: SparkSession,
    *,
    scenario: Scenario,
    grid: Grid,
    output: Path,
    publications: int,
    progress: Callable[[int], None] = lambda _: None,
) -> JobResult:
    """Simulations and predictions at every point of a grid; those that are there are not done again."""
    from firelane.pipeline.sweep.run import sweep as run

    began_s = perf_counter()
    done = run(spark, scenario, grid, output / "sweep", publications=publications, progress=progress)
    return JobResult(
        job="sweep",
        output=output,
        rows_out={"sweep": done.rows},
        seconds=perf_counter() - began_s,
        notes=(f"{_counted(done.trials, 'trial')}, {done.found:,} of them there before",),
    )


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _telemetry_result(
    job: str, read: Records, tables: Mapping[str, DataFrame], output: Path, began_s: float
) -> JobResult:
    """Write tables by day, and the rejects."""
    from firelane.pipeline.telemetry import with_day

    with writing.reserved(output, job, (*tables, REFUSED)) as out:
        rows_out = {name: out.write(name, with_day(table), partition_by=["day"]) for name, table in tables.items()}
        rejects = _written_rejects(read.rejects, out)
    return JobResult(
        job=job,
        output=output,
        rows_in=read.count,
        rows_out=rows_out,
        rejects=rejects,
        seconds=perf_counter() - began_s,
    )


def _written_rejects(rejects: DataFrame, output: Output) -> dict[str, int]:
    """Write what could not be used; how many there are of each reason."""
    from pyarrow.parquet import read_table

    output.write(REFUSED, rejects)
    counted = read_table(output.folder / REFUSED, columns=["reason"])["reason"].value_counts().to_pylist()
    return {one["values"]: one["counts"] for one in sorted(counted, key=lambda one: one["values"])}
