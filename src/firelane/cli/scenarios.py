"""Scenario files, and what else can be made up: `check`, `generate` and `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from firelane.cli import options, spark
from firelane.cli.group import main
from firelane.cli.output import print_json, tell
from firelane.errors import printable


@main.command()
@options.scenario
@options.as_json
def check(scenario: str, as_json: bool) -> None:
    """Read a scenario, refuse what is wrong with it, and count what is in it."""
    from firelane.scenario import load

    read = load(scenario)
    subscriptions = sum(len(one.subscribes) for one in read.subscribers.values())
    counts = {
        "topics": len(read.topics),
        "publishers": len(read.publishers),
        "subscribers": len(read.subscribers),
        "subscriptions": subscriptions,
        "links": len(read.links),
    }
    if as_json:
        print_json({"scenario": read.name, "digest": read.digest(), **counts})
    else:
        click.echo(f"{printable(read.name)}: good; " + ", ".join(_counted(*one) for one in counts.items()))


def _counted(things: str, count: int) -> str:
    return f"{count} {things.removesuffix('s') if count == 1 else things}"


_output = click.option(
    "-o", "--output", type=click.Path(dir_okay=False), default="-", help="The YAML file to write, instead of stdout."
)


@main.group()
def generate() -> None:
    """Write scenario files (the FireDeX paper's, a city's radio cells, an office on fire), a city's traffic, a fire."""


def _generate(make: Any, output: str, **sizes: Any) -> None:
    scenario = make(**sizes)
    _write(scenario, output, comment=f"{scenario.name}, made by `{_command_again()}`")


def _write(scenario: Any, output: str, *, comment: str) -> None:
    from firelane.scenario.save import save, to_text

    if output == "-":
        click.echo(to_text(scenario, comment=comment), nl=False)
    else:
        save(scenario, output, comment=comment)
        click.echo(f"written to {output}")


def _command_again() -> str:
    """The command that makes the same file again: what differs from the defaults, and the seed."""
    context = click.get_current_context()
    words = ["firelane generate", context.info_name or ""]
    for option in context.command.params:
        value = context.params[option.name or ""]
        if option.name == "seed" or (option.name != "output" and value != option.default):
            words.append(option.opts[0] if value is True else f"{option.opts[0]} {value}")
    return " ".join(words)


@generate.command("firedex")
@options.seed
@_output
@click.option("--subscribers", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--publishers", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--telemetry-topics", type=click.IntRange(min=1), default=140, show_default=True)
@click.option("--async-topics", type=click.IntRange(min=1), default=60, show_default=True)
@click.option("--telemetry-subscriptions", type=click.IntRange(min=0), default=70, show_default=True)
@click.option("--async-subscriptions", type=click.IntRange(min=0), default=42, show_default=True)
@click.option("--priorities", type=click.IntRange(min=1, max=16), default=9, show_default=True)
@click.option("--flows", type=click.IntRange(min=1), default=9, show_default=True)
@click.option("--async-weight-factor", type=options.Number(min=0), default=1.0, show_default=True)
@click.option("--shared", is_flag=True, help="One link for all subscribers instead of one each.")
def generate_firedex(output: str, **sizes: Any) -> None:
    """Table 2 of the FireDeX paper; every size of its sweeps can be asked for."""
    from firelane.scenario.generate import firedex

    _generate(firedex, output, **sizes)


@generate.command("city-cells")
@options.seed
@_output
@click.option("--zones", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--vehicles", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--cells", type=click.IntRange(min=1), default=20, show_default=True)
def generate_city_cells(output: str, **sizes: Any) -> None:
    """Vehicles that want the news of their zone and its neighbours, over shared radio cells."""
    from firelane.scenario.generate import city

    _generate(city, output, **sizes)


@generate.command("city")
@click.option("--vehicles", type=click.IntRange(min=1), default=20_000, show_default=True)
@click.option("--hours", type=options.Number(min=0, min_open=True), default=23, show_default=True)
@click.option("--step", default="60s", show_default=True, help="Between two positions of a vehicle.")
@click.option("--zones", type=click.IntRange(min=1), default=400, show_default=True)
@click.option("--zone", default="250m", show_default=True, help="The side of a zone.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
@spark.tables
@spark.master
@options.as_json
def generate_city(
    vehicles: int,
    hours: float,
    step: str,
    zones: int,
    zone: str,
    seed: int,
    output: Path,
    master: str | None,
    as_json: bool,
) -> None:
    """A trace of vehicles for `pipeline positions`: commuters, in in the morning and out in the evening.

    Written by Spark as a folder of Parquet files, of any size: 60000 vehicles make 50 million positions. A few zones
    have most of the vehicles, as of a Pareto distribution.
    """
    from firelane.pipeline.session import require_spark

    require_spark()
    from firelane.pipeline.city import City

    step_s, zone_m = options.whole_seconds(step, "--step"), options.length_m(zone, "--zone")
    city = City(vehicles=vehicles, hours=hours, zones=zones, zone_m=zone_m, step_s=step_s, seed=seed)
    spark.run_job("city", master, as_json, output=output, city=city)


@generate.command("office-fire")
@options.seed
@_output
@click.option("--floors", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--rooms", type=click.IntRange(min=1), default=6, show_default=True, help="On each floor.")
@click.option("--load", type=options.Number(min=0, min_open=True), default=1.7, show_default=True)
def generate_office_fire(output: str, **sizes: Any) -> None:
    """A building on fire, its responders, and one thin link to the command post."""
    from firelane.scenario.generate import office_fire

    _generate(office_fire, output, **sizes)


@generate.command("fire")
@click.option("--rooms", type=click.IntRange(min=1), default=6, show_default=True)
@click.option("--sensors", type=click.IntRange(min=1), default=4, show_default=True, help="In each room.")
@click.option("--seconds", type=options.Number(min=0, min_open=True), default=600, show_default=True)
@click.option("--step", default="1s", show_default=True, help="Between two readings of a sensor.")
@click.option("--noise", type=options.Number(min=0), default=0.1, show_default=True, help="Of a reading, in C.")
@options.seed
@click.option("-o", "--output", type=click.Path(dir_okay=False), required=True, help="The CSV file to write.")
def generate_fire(output: str, step: str, **sizes: Any) -> None:
    """Temperatures of a building on fire, for `sense replay`: a growing fire, a zone of hot gas per room, vents.

    TIME is in seconds from ignition; the columns are thermometers, in C, T1_1 the one at the first room's ceiling.
    """
    from firelane.sense import Fire, fire_trace
    from firelane.show import working

    with working("burning"):
        trace = fire_trace(Fire(step_s=options.duration_s(step, "--step", least_s=0.001), **sizes))
        trace.save(output)
    click.echo(f"written to {output}")


@main.group("import")
def import_() -> None:
    """Other systems' files as scenarios."""


@import_.command("planiot")
@click.argument("specification", metavar="SPEC.json", type=click.Path(dir_okay=False))
@_output
def import_planiot(specification: str, output: str) -> None:
    """A specification of PlanIoT or PlanEMQX: devices, topics, applications of categories, and one link for them.

    What has no place in a scenario is named. Add bounds under `categories`, then `firelane plan` it.
    """
    from firelane.scenario.planiot import read_planiot

    read = read_planiot(specification)
    for line in read.unused:
        tell(f"not as in the file: {printable(line)}")
    name = Path(specification).name
    _write(read.scenario, output, comment=f"{read.scenario.name}, from {name} by `firelane import planiot`")
