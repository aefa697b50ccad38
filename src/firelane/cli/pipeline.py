"""Data jobs on Spark: `pipeline`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from firelane.cli import options, spark
from firelane.cli.group import main
from firelane.cli.output import print_json


@main.group()
def pipeline() -> None:
    """Data jobs on Spark: positions and telemetry to loads and Metrics, simulations and sensors' replays in bulk.

    Embedded in this process by default; --master takes a cluster (spark://HOST:7077) or Spark Connect (sc://HOST).
    Folders must then be ones that all machines share. A job run again replaces what it wrote before.
    """
    from firelane.pipeline.session import require_spark

    require_spark()


@pipeline.command("positions")
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.option("--zone", default="250m", show_default=True, help="The side of a zone.")
@click.option("--window", default="60s", show_default=True, help="How long a step is, in whole seconds.")
@click.option("--origin", default="0,0", show_default=True, metavar="X,Y", help="A corner of zones, in metres.")
@click.option("--city-bounds", metavar="WEST,SOUTH,EAST,NORTH", help="In metres; positions outside are refused.")
@click.option("--changes", is_flag=True, help="Also count who came into each zone and left it, which takes longer.")
@spark.tables
@spark.master
@options.as_json
def pipeline_positions(
    source: Path,
    zone: str,
    window: str,
    origin: str,
    city_bounds: str | None,
    changes: bool,
    output: Path,
    master: str | None,
    as_json: bool,
) -> None:
    """Vehicle positions to loads: the distinct vehicles (subscribers) in each zone (topic), per minute.

    INPUT is a file or a folder of them: lines of `time_s vehicle_id x_m y_m speed_mps` as of the Cologne trace, SUMO's
    floating-car XML, either of them also as .gz, or Parquet with these columns.
    """
    from firelane.pipeline.positions import Grid
    from firelane.pipeline.reading import Bounds

    west_m, south_m = options.numbers(origin, 2, "--origin")
    edges = None if city_bounds is None else Bounds(*options.numbers(city_bounds, 4, "--city-bounds"))
    side_m, window_s = options.length_m(zone, "--zone"), options.whole_seconds(window, "--window")
    grid = Grid(side_m=side_m, west_m=west_m, south_m=south_m, window_s=window_s)
    spark.run_job("positions", master, as_json, source=source, output=output, grid=grid, bounds=edges, changes=changes)


@pipeline.command("characteristics")
@click.argument("source", metavar="LOADS", type=click.Path(path_type=Path))
@spark.tables
@spark.master
@options.as_json
def pipeline_characteristics(source: Path, output: Path, master: str | None, as_json: bool) -> None:
    """What loads look like: topics' sizes over time, their distribution, and whether its tail is a Pareto one.

    LOADS is the output of `positions` or `subscriptions`. Tables are written as Parquet and as CSV, with two pictures.
    """
    spark.run_job("characteristics", master, as_json, source=source, output=output)


_telemetry = click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))


@pipeline.command("subscriptions")
@_telemetry
@spark.tables
@spark.master
@options.as_json
def pipeline_subscriptions(source: Path, output: Path, master: str | None, as_json: bool) -> None:
    """Membership records to loads: the distinct clients subscribed to each filter, per minute.

    INPUT is the data folder of an exchange, or a folder or file of its membership records.
    """
    spark.run_job("subscriptions", master, as_json, source=source, output=output)


@pipeline.command("deliveries")
@_telemetry
@click.option("--window", default="60s", show_default=True, help="How long a window is.")
@spark.tables
@spark.master
@options.as_json
def pipeline_deliveries(source: Path, window: str, output: Path, master: str | None, as_json: bool) -> None:
    """Delivery records to Metrics per subscription and class, and to loads of topics, per window.

    INPUT is the data folder of an exchange, or a folder or file of its delivery records.
    """
    spark.run_job("deliveries", master, as_json, source=source, output=output, window_s=options.window_s(window))


@pipeline.command("sense")
@_telemetry
@options.sensor_model
@options.delta
@options.sensors
@spark.tables
@spark.master
@options.as_json
def pipeline_sense(
    source: Path, model: str, delta: float, sensors: str, output: Path, master: str | None, as_json: bool
) -> None:
    """Thousands of traces of sensors through models, as `sense replay` does: a row per trace and sensor.

    INPUT is a folder of traces, a CSV file each, or Parquet with the columns trace, time_s, sensor and value.
    """
    from firelane.pipeline.replays import Sending

    how = Sending(delta=delta, model=model, sensors=sensors)
    spark.run_job("sense", master, as_json, source=source, output=output, how=how)


@pipeline.command("sweep")
@options.scenario
@click.option("--rates", default="1", show_default=True, help="Factors for the rates of all publishers: 0.5,0.8,1.")
@click.option("--bandwidths", help="Of the subscribers' links, instead of their own: 4 Mbps,8 Mbps.")
@click.option("--orders", default="all", show_default=True, help="Of categories by priority: 'a>b>c,b>a>c'.")
@click.option("--drops", multiple=True, help="Levels to try for every category, 0,0.2, or for one, analytics=0,0.5.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Simulations of each point.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first of the seeds.")
@click.option("--publications", type=click.IntRange(min=1), default=100_000, show_default=True, help="In each of them.")
@spark.tables
@spark.master
@options.as_json
def pipeline_sweep(
    scenario: str, publications: int, output: Path, master: str | None, as_json: bool, **varied: Any
) -> None:
    """Simulate and predict a scenario at every point of a grid: the performance data set.

    A sweep that was killed goes on where it was; a wider grid adds to what is there.
    """
    from firelane.pipeline.jobs import sweep
    from firelane.pipeline.sweep.grid import make_grid
    from firelane.scenario import load
    from firelane.show import progress_bar

    read = load(scenario)
    grid = make_grid(read, **varied)
    with spark.started(master) as session, progress_bar(grid.trials, "sweeping") as progress:
        result = sweep(session, scenario=read, grid=grid, output=output, publications=publications, progress=progress)
    spark.say(result, as_json)


@pipeline.command("watch")
@click.argument("source", metavar="mqtt://HOST:PORT|FOLDER")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Keep the tables here.")
@click.option("--scenario", help="Its bounds and links are checked, and its rates are expected.")
@click.option("--window", default="10s", show_default=True, help="How long a window of the tables is.")
@click.option("--late", default="30s", show_default=True, help="How far behind the newest a record may be.")
@click.option("--for", "seconds", type=options.Number(min=0), help="End after so many seconds.")
@click.option("--alerts-topic", default="$firelane/alerts", show_default=True, help="Where alerts are published.")
@spark.master
@options.as_json
def pipeline_watch(
    source: str,
    output: Path | None,
    scenario: str | None,
    window: str,
    late: str,
    seconds: float | None,
    alerts_topic: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Watch live telemetry: Metrics and loads of windows, and alerts when a bound is missed or load drifts.

    Records come from a broker, which must publish them (`firelane serve --set exchange.telemetry.topics=true`), or from
    Parquet files that appear in FOLDER. Ctrl-C and SIGTERM end it in order; started again with the same --output it
    goes on where it was.
    """
    from firelane.pipeline.watch.run import line, run

    facts = run(
        source,
        output=output,
        scenario=scenario,
        window_s=options.window_s(window),
        late_s=options.duration_s(late, "--late", least_s=1e-3),
        alerts_topic=alerts_topic,
        master=master,
        seconds=seconds,
        quiet=as_json,
    )
    if as_json:
        print_json(facts)
    else:
        click.echo(line(facts))
