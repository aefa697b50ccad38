"""Sensors' readings that need not be sent: `sense`."""

from __future__ import annotations

from pathlib import Path

import click

from firelane.cli import options
from firelane.cli.group import main
from firelane.cli.output import print_json, tell


@main.group()
def sense() -> None:
    """Sensor readings sent only when a model that both ends share fails to predict them."""


@sense.command("replay")
@click.argument("trace", metavar="TRACE.csv", type=click.Path(dir_okay=False))
@options.sensor_model
@options.delta
@options.sensors
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Draw three of the sensors here (.png, .svg, .pdf)."
)
@options.as_json
def sense_replay(trace: str, model: str, delta: float, sensors: str, output: str | None, as_json: bool) -> None:
    """Send a recorded trace through models: how much need not be sent, and how far off a subscriber is.

    TRACE.csv has a row of names, then a row per time: seconds in the first column, a sensor in each of the others.

    \b
    Models:
      last-value  a reading is sent when it is delta or more from the one sent last
      kalman      the same from what a filter of value and slope predicts
      auto        either, sensor by sensor, whichever would have sent less lately
    """
    from firelane.sense import read_trace
    from firelane.sense import replay as run
    from firelane.sense.picture import draw
    from firelane.sense.screen import show_replay
    from firelane.show import plain_console, progress_bar

    read = read_trace(trace, sensors=sensors)
    with progress_bar(len(read.times_s), "replaying") as progress:
        result = run(read, delta=delta, model=model, progress=progress)
    if output is not None:
        draw(result, Path(output))
    if as_json:
        print_json(result.to_data())
        return
    show_replay(result, plain_console())
    if output is not None:
        click.echo(f"picture: {output}")


_broker = click.option(
    "--broker",
    metavar="URL",
    default="mqtt://127.0.0.1:1883",
    show_default=True,
    help="An MQTT 5 broker, also mqtts:// and, over UDP, mqtt-sn://.",
)


@sense.command("publish")
@click.argument("trace", metavar="TRACE.csv", type=click.Path(dir_okay=False))
@_broker
@click.option("--topic", default="building/temperature", show_default=True, help="Of the stream.")
@click.option(
    "--precision", type=options.Number(min=0, min_open=True), default=0.5, show_default=True, help="What is offered."
)
@options.sensor_model
@click.option("--sensors", metavar="PATTERN", default="*", show_default=True, help="Columns, as 'TC*'.")
@click.option(
    "--speed", type=options.Number(min=0, min_open=True), default=1.0, show_default=True, help="Times as fast."
)
@click.option(
    "--load",
    type=options.Number(min=0.01, max=0.95),
    help="Keep this process at this share of a core, by its precision.",
)
@click.option(
    "--record",
    metavar="SERIES.csv",
    type=click.Path(dir_okay=False),
    help="Change the precision on purpose instead, and write how the load answers, for `sense identify`.",
)
@click.option(
    "--period", type=options.Number(min=0.1), default=5.0, show_default=True, help="Seconds between looks at the load."
)
@options.as_json
def sense_publish(
    trace: str, broker: str, topic: str, precision: float, model: str, sensors: str, speed: float, load: float | None,
    record: str | None, period: float, as_json: bool,
) -> None:  # fmt: skip
    """Publish a recorded trace as if it were read now: only what the models fail to predict is sent.

    Follow it with `firelane sense watch`. At `firelane serve` subscribers say what error they can bear.
    """
    import asyncio

    from firelane.sense import read_trace
    from firelane.sense.live import publish_trace
    from firelane.show import progress_bar

    if load is not None and record is not None:
        raise click.UsageError("--load keeps a load and --record changes it on purpose; give one of them")
    read = read_trace(trace, sensors=sensors)
    with progress_bar(len(read.times_s), f"publishing on {topic}") as progress:
        done = asyncio.run(
            publish_trace(
                read, broker=broker, topic=topic, precision=precision, model=model, speed=speed, load=load,
                record=record, period_s=period, progress=progress, tell=tell,
            )
        )  # fmt: skip
    if as_json:
        print_json(done)
        return
    click.echo(
        f"{done['sent']:,} of {done['readings']:,} readings sent, {done['suppressed']:.1%} suppressed; "
        f"{done['messages']:,} messages, {done['bytes']:,} bytes"
    )


@sense.command("watch")
@click.argument("topic_filter", metavar="[FILTER]", default="#")
@_broker
@click.option("--tolerance", type=options.Number(min=0, min_open=True), help="The error that can be borne.")
@click.option("--for", "seconds", type=options.Number(min=0, min_open=True), help="Seconds, instead of until Ctrl-C.")
@options.as_json
def sense_watch(topic_filter: str, broker: str, tolerance: float | None, seconds: float | None, as_json: bool) -> None:
    """Follow streams of sensors: what they read now, how exactly that is known, and what was lost.

    FILTER is of the streams' topics, as building/+/temperature; all by default. --json prints what was known at the
    end.
    """
    import asyncio

    from firelane.sense.live import watch_streams
    from firelane.sense.screen import StreamsScreen
    from firelane.show import plain_console

    with StreamsScreen(plain_console(), quiet=as_json) as screen:
        done = asyncio.run(
            watch_streams(
                topic_filter, broker=broker, tolerance=tolerance, seconds=seconds, show=screen.show, tell=tell
            )
        )
    if as_json:
        print_json(done)


@sense.command("identify")
@click.argument("series", metavar="SERIES.csv", type=click.Path(dir_okay=False))
@click.option(
    "--target",
    type=options.Number(min=0.01, max=0.95),
    default=0.7,
    show_default=True,
    help="The load that the gains are to keep.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Draw measured and modelled load here (.png, .svg, .pdf)."
)
@options.as_json
def sense_identify(series: str, target: float, output: str | None, as_json: bool) -> None:
    """Find how a publisher's load answers to the factor on its precisions, and the gains that keep it on target.

    SERIES.csv has the columns time, load and gamma and a row per sample, recorded while gamma was changed on purpose.
    Gains are designed with python-control (`pip install 'firelane[identify]'`); without it only the plant is shown.
    """
    from importlib.util import find_spec

    from firelane.sense.design import design
    from firelane.sense.identification import identify
    from firelane.sense.report import draw_plant, show_plant
    from firelane.sense.series import read_series
    from firelane.show import plain_console

    read = read_series(series)
    plant = identify(read)
    designed = design(plant, target=target) if find_spec("control") else None
    if output is not None:
        draw_plant(read, plant, Path(output))
    if as_json:
        print_json({"plant": plant.to_data(), "gains": None if designed is None else designed.to_data()})
        return
    show_plant(plant, designed, len(read), plain_console())
    if output is not None:
        click.echo(f"picture: {output}")
