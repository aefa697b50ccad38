"""The command line: one function per verb, no logic."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from firelane import __version__
from firelane.errors import FirelaneError, printable

PRIORITIES = ("none", "random", "information", "bandwidth-adjusted", "delay-adjusted")
DROPS = ("none", "flat", "linear", "exponential", "optimised")
PLANNERS = ("search", "enhsp")
BALANCE_METHODS = (
    "bounded-moves", "long-term", "long-term-causal", "threshold", "greedy", "naive-move", "exact",
)  # fmt: skip
SENSOR_MODELS = ("last-value", "kalman", "auto")


class _Number(click.FloatRange):
    """A number in a range. Not-a-number is in none, though it compares as if it were in all."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


REGISTRY_WITHIN_S, TOLD_AFTER_S = 3.0, 0.5  # of one that is asked: when it must answer, and whoever waits is told so
YEAR_S = 366 * 86_400  # the longest window

_scenario = click.argument("scenario", metavar="SCENARIO")
_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, for machines.")
_per_subscription = click.option(
    "--per-subscription", is_flag=True, help="A row per subscription, however many (tables show up to 25 unasked)."
)
_plan = click.option("--plan", "plan_file", type=click.Path(dir_okay=False), help="A plan from `firelane tune -o`.")
_table = click.option("-o", "--output", type=click.Path(), help="Write the Metrics table here, as Parquet.")
_tables = click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder for the job's tables.",
)
_master = click.option("--master", metavar="URL", help="A Spark master, instead of one embedded here (local[*]).")
_sensor_model = click.option("--model", type=click.Choice(SENSOR_MODELS), default="auto", show_default=True)
_delta = click.option(
    "--delta",
    type=_Number(min=0, min_open=True),
    default=0.5,
    show_default=True,
    help="Subscribers are less than this off.",
)
_sensors = click.option(
    "--sensors", metavar="PATTERN", default="*", show_default=True, help="Those named so, as 'TC*'."
)
_seed = click.option("--seed", type=click.IntRange(min=0), help="Makes chance repeatable.")


class _OneLine(click.Group):
    """Shows a FirelaneError in one line and exits 1, Ctrl-C 130; bugs keep their traceback only with --debug."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            over_the_caret = "\r" if sys.stderr.isatty() else ""
            click.echo(f"{over_the_caret}firelane: interrupted", err=True)
            ctx.exit(130)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal that cannot show µ gets a question mark
        try:
            return super().main(*args, **kwargs)
        except FirelaneError as problem:
            if "--debug" in sys.argv:
                raise
            click.echo(f"firelane: {' '.join(str(problem).split())}", err=True)
        except BrokenPipeError:
            sys.stderr.close()
        except Exception as bug:
            if "--debug" in sys.argv:
                raise
            what = f"a bug, sorry: {type(bug).__name__}: {' '.join(str(bug).split())}; see it whole with --debug"
            if isinstance(bug, OSError) and bug.strerror:  # a time that is over has none
                what = f"{bug.strerror}; is there room for the output?"
            click.echo(f"firelane: {what}", err=True)
        sys.exit(1)


@click.group(cls=_OneLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="firelane %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def main(debug: bool) -> None:
    """Get the data that matters through first.

    SCENARIO is a YAML file, or the name of one that ships with Firelane: office-fire, firedex, firedex-shared, city,
    planemqx.

    \b
    A first tour:
      firelane demo                                  a building on fire, live
      firelane predict office-fire                   what will happen, in closed form
      firelane tune office-fire -o plan.json         decide priorities and drop rates
      firelane predict office-fire --plan plan.json  what the plan changes
      firelane simulate office-fire --plan plan.json and check it by simulation
    """


@main.command()
@click.option("--seconds", type=_Number(2, 600), default=20, show_default=True, help="How long the fire takes.")
@click.option("--picture", type=click.Path(dir_okay=False), default="firelane-demo.png", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@_json
def demo(seconds: float, picture: str, seed: int, as_json: bool) -> None:
    """A building on fire behind one thin link, live: a plain broker and Firelane side by side.

    Both are real exchanges on this machine with real MQTT clients and the same readings, 1.7 times what the link
    carries. The plain one is an ideal plain broker: first in, first out, on a link that is paced alike.
    """
    from rich.console import Console

    from firelane.demo import demo as run
    from firelane.demo.screen import Screen, show_outcome

    console = Console(stderr=as_json, markup=False, emoji=False, highlight=False)
    result = run(seconds=seconds, seed=seed, picture=Path(picture), screen=Screen(console, quiet=as_json))
    if as_json:
        _print_json(result.to_data())
        return
    show_outcome(result, console)
    click.echo(f"picture: {result.picture}")


@main.command()
@_scenario
@_json
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
        _print_json({"scenario": read.name, "digest": read.digest(), **counts})
    else:
        click.echo(f"{printable(read.name)}: good; " + ", ".join(_counted(*one) for one in counts.items()))


@main.command()
@_scenario
@_plan
@click.option(
    "--arrivals",
    type=click.Choice(["fan-out", "independent", "paper"]),
    default="fan-out",
    show_default=True,
    help="Model of the link: batches (exact), Cobham, or the paper's Eq. 4-5.",
)
@_per_subscription
@_table
@_json
def predict(
    scenario: str, plan_file: str | None, arrivals: Any, per_subscription: bool, output: str | None, as_json: bool
) -> None:
    """What will happen, in closed form: load, success, delay and utility per class.

    Without --plan everything is in one class and nothing is dropped on purpose: a plain broker. A class that
    the link cannot keep up with is shown as saturated; its success is what remains for it in the long run.
    """
    from firelane.predict import predict as run
    from firelane.scenario import load
    from firelane.show import working

    with working("predicting"):
        read = load(scenario)
        metrics = run(read, _read_plan(plan_file, read), arrivals=arrivals)
    _show(metrics, per_subscription, output, as_json)


@main.command()
@_scenario
@_plan
@click.option("--publications", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="In each run.")
@click.option(
    "--replications", type=click.IntRange(min=1, max=10_000), default=4, show_default=True, help="Independent runs."
)
@_seed
@click.option("--independent", is_flag=True, help="No fan-out: every subscription its own Poisson stream.")
@_per_subscription
@_table
@_json
def simulate(
    scenario: str,
    plan_file: str | None,
    publications: int,
    replications: int,
    seed: int | None,
    independent: bool,
    per_subscription: bool,
    output: str | None,
    as_json: bool,
) -> None:
    """What happens, by simulation: as predict, with percentiles and standard errors.

    Standard errors come from the spread between replications. More publications shrink them; long queues
    (loads near 1) need more. The seed is printed, so any run can be had again.
    """
    from firelane.scenario import load
    from firelane.show import progress_bar
    from firelane.simulate import simulate as run

    read = load(scenario)
    plan = _read_plan(plan_file, read)
    with progress_bar(publications * replications, "simulating") as progress:
        metrics = run(
            read,
            plan,
            publications=publications,
            replications=replications,
            seed=seed,
            independent=independent,
            progress=progress,
        )
    _show(metrics, per_subscription, output, as_json)


@main.command()
@_scenario
@click.option("--priorities", type=click.Choice(PRIORITIES), default="delay-adjusted", show_default=True)
@click.option("--drops", type=click.Choice(DROPS), default="optimised", show_default=True)
@click.option("--headroom", help="Share of every link to keep free, instead of the scenario's; e.g. 10 %.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For --priorities random.")
@_per_subscription
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan here, as JSON.")
@_json
def tune(
    scenario: str,
    priorities: str,
    drops: str,
    headroom: str | None,
    seed: int,
    per_subscription: bool,
    output: str | None,
    as_json: bool,
) -> None:
    """Give every subscription a priority and a drop rate, for the most value the links can carry.

    \b
    Priorities: which subscriptions go first?
      delay-adjusted      most value per second of link used after drops, over the whole link
      bandwidth-adjusted  most utility per bandwidth, per subscriber (the FireDeX paper's choice)
      information         most utility, whatever it costs
      random, none        for comparison
    Drops: what gives way when the load exceeds 1 - headroom?
      optimised           the shares with the most utility in total
      exponential, linear more, the lower the class (delay-adjusted ranks anew after the drops)
      flat                the same for all
      none                nothing on purpose; full buffers decide

    min_share and max_loss in the scenario are kept by every method but none. Where there is a tolerance nothing is
    dropped: its precision gives way, up to exchange.sense.widen times.
    """
    from firelane.scenario import load
    from firelane.show import show_plan, working
    from firelane.tune import tune as run

    free = None if headroom is None else _share(headroom, "--headroom")
    with working("planning"):
        plan = run(load(scenario), priorities=priorities, drops=drops, seed=seed, headroom=free)
    if output is not None:
        plan.save(output)
    if as_json:
        _print_json(plan.to_data())
    else:
        show_plan(plan, per_subscription=per_subscription)
        if output is not None:
            click.echo(f"written to {output}")


@main.command("plan")
@_scenario
@click.option("--data", type=click.Path(), help="A data set of `firelane pipeline sweep`, instead of predictions.")
@click.option("--planner", type=click.Choice(PLANNERS), default="search", show_default=True)
@click.option("--pddl", type=click.Path(file_okay=False), help="Write domain.pddl and problem.pddl to this folder.")
@click.option(
    "--time-limit",
    type=_Number(min=0, min_open=True),
    default=24,
    show_default=True,
    help="Seconds after which the best so far is taken (search), or none (enhsp).",
)
@click.option("--spare", metavar="SHARE", default="0 %", show_default=True, help="Drop less; see above.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan here, as JSON.")
@_json
def plan_(
    scenario: str,
    data: str | None,
    planner: str,
    pddl: str | None,
    time_limit: float,
    spare: str,
    output: str | None,
    as_json: bool,
) -> None:
    """Rank the categories of subscriptions and drop of them so that bounds on delay and loss are met.

    Bounds are those of needs (max_delay, max_loss, min_share) and of `categories` in SCENARIO. The best plan misses the
    fewest bounds, then has the least sum of weight x delay/bound, then the least sum of weight x drop rate. A category
    that bears no loss is never dropped. If no plan meets all bounds, it says which of them conflict.

    So all is dropped that may be, if that makes anything faster. With --spare 10 %, less is dropped as long as no delay
    gets longer by more than 10 % of its bound.

    \b
    Planners:
      search  all plans if they are few, else branch and bound: with proof, or a lower bound
      enhsp   the problem in PDDL, on a coarse grid of drops, by ENHSP (`pip install 'firelane[planners]'`)
    """
    from firelane.plan import plan as run
    from firelane.plan.screen import show_planned
    from firelane.scenario import load
    from firelane.show import plain_console, working

    with working("planning"):
        result = run(
            load(scenario),
            data=data,
            planner=planner,
            pddl_folder=pddl,
            spare=_share(spare, "--spare"),
            seconds=time_limit,
        )
    if output is not None:
        result.to_plan().save(output)
    if as_json:
        _print_json(result.to_data())
        return
    show_planned(result, plain_console())
    if pddl is not None:
        click.echo(f"PDDL written to {pddl}")
    if output is not None:
        click.echo(f"written to {output}")


@main.command()
@click.argument("loads", metavar="LOADS", type=click.Path())
@click.option("--brokers", type=click.IntRange(min=1), required=True, help="How many share the topics.")
@click.option("--method", type=click.Choice(BALANCE_METHODS), default="bounded-moves", show_default=True)
@click.option("--load", type=click.Choice(["subscribers", "messages", "bytes"]), help="The column to go by.")
@click.option("--reconfigurations", type=click.IntRange(min=0), help="For long-term and long-term-causal.")
@click.option("--threshold", metavar="LOAD", help="As 500, or '5 %' of a broker's mean load.")
@click.option("--max-moves", type=click.IntRange(min=0), help="Switches a step, for bounded-moves and naive-move.")
@click.option("--objective", type=click.Choice(["difference", "pairwise", "moves"]), help="For exact.")
@click.option("--time-limit", "time_limit_s", type=_Number(min=0, min_open=True), help="Seconds a step.")
@click.option("--current", type=click.Path(dir_okay=False), help="A plan with the placement to start from.")
@click.option("--dry-run", is_flag=True, help="Show before, after and the moves; write nothing.")
@click.option("--series", is_flag=True, help="With --json: the numbers of every step too.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan here, as JSON.")
@_json
def balance(
    loads: str,
    load: str | None,
    current: str | None,
    dry_run: bool,
    series: bool,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Place topics on brokers, step by step, so that none carries much more than another and few topics move.

    LOADS is a Parquet file or folder, or a CSV file, with the columns time_s, topic, and one or more of subscribers,
    messages_hz and bytes_hz.

    \b
    Methods:
      bounded-moves     moves or swaps at most --max-moves topics when brokers are more than --threshold apart
      long-term         one placement for each of --reconfigurations + 1 periods, each known beforehand (the paper's)
      long-term-causal  the same by the period before
      threshold         places all topics anew when that gains more than --threshold (the paper's baseline)
      greedy            places all topics anew at every step
      naive-move        from the fullest to the emptiest broker, the best single topic
      exact             proved by HiGHS: the least difference, the least pairwise (Eq. 3), or the fewest moves
    """
    from firelane.balance import balance as run
    from firelane.balance import read_loads
    from firelane.balance.screen import show_balance
    from firelane.scenario.plan import load_plan
    from firelane.show import plain_console, working

    if series and not as_json:
        raise FirelaneError("--series goes with --json; add it")
    before = None if current is None else load_plan(current)
    if before is not None and not before.placement:
        raise FirelaneError(f"{current}: it places no topics; give a plan that `firelane balance -o` wrote")
    with working("balancing"):
        result = run(read_loads(loads, load=load), current=before.placement if before else None, **options)
    plan = result.to_plan(version=before.version + 1 if before else 1)
    if output is not None and not dry_run:
        plan.save(output)
    if as_json:
        _print_json(result.to_data(series=series, moves=dry_run))
    else:
        show_balance(result, plain_console(), moves=dry_run)
        if output is not None:
            click.echo("dry run: nothing written" if dry_run else f"written to {output}")


@main.group()
def generate() -> None:
    """Write scenario files (the FireDeX paper's, a city's radio cells, an office on fire), a city's traffic, a fire."""


def _generate(make: Any, output: str, **sizes: Any) -> None:
    from firelane.scenario.save import save, to_text

    scenario = make(**sizes)
    comment = f"{scenario.name}, made by `{_command_again()}`"
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


_out = click.option(
    "-o", "--output", type=click.Path(dir_okay=False), default="-", help="The YAML file to write, instead of stdout."
)
_generator_seed = click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)


@generate.command("firedex")
@_generator_seed
@_out
@click.option("--subscribers", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--publishers", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--telemetry-topics", type=click.IntRange(min=1), default=140, show_default=True)
@click.option("--async-topics", type=click.IntRange(min=1), default=60, show_default=True)
@click.option("--telemetry-subscriptions", type=click.IntRange(min=0), default=70, show_default=True)
@click.option("--async-subscriptions", type=click.IntRange(min=0), default=42, show_default=True)
@click.option("--priorities", type=click.IntRange(min=1, max=16), default=9, show_default=True)
@click.option("--flows", type=click.IntRange(min=1), default=9, show_default=True)
@click.option("--async-weight-factor", type=_Number(min=0), default=1.0, show_default=True)
@click.option("--shared", is_flag=True, help="One link for all subscribers instead of one each.")
def generate_firedex(output: str, **sizes: Any) -> None:
    """Table 2 of the FireDeX paper; every size of its sweeps can be asked for."""
    from firelane.scenario.generate import firedex

    _generate(firedex, output, **sizes)


@generate.command("city-cells")
@_generator_seed
@_out
@click.option("--zones", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--vehicles", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--cells", type=click.IntRange(min=1), default=20, show_default=True)
def generate_city_cells(output: str, **sizes: Any) -> None:
    """Vehicles that want the news of their zone and its neighbours, over shared radio cells."""
    from firelane.scenario.generate import city

    _generate(city, output, **sizes)


@generate.command("city")
@click.option("--vehicles", type=click.IntRange(min=1), default=20_000, show_default=True)
@click.option("--hours", type=_Number(min=0, min_open=True), default=23, show_default=True)
@click.option("--step", default="60s", show_default=True, help="Between two positions of a vehicle.")
@click.option("--zones", type=click.IntRange(min=1), default=400, show_default=True)
@click.option("--zone", default="250m", show_default=True, help="The side of a zone.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
@_tables
@_master
@_json
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

    step_s, zone_m = _whole_seconds(step, "--step"), _length(zone, "--zone")
    city = City(vehicles=vehicles, hours=hours, zones=zones, zone_m=zone_m, step_s=step_s, seed=seed)
    _run_job("city", master, as_json, output=output, city=city)


@generate.command("office-fire")
@_generator_seed
@_out
@click.option("--floors", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--rooms", type=click.IntRange(min=1), default=6, show_default=True, help="On each floor.")
@click.option("--load", type=_Number(min=0, min_open=True), default=1.7, show_default=True)
def generate_office_fire(output: str, **sizes: Any) -> None:
    """A building on fire, its responders, and one thin link to the command post."""
    from firelane.scenario.generate import office_fire

    _generate(office_fire, output, **sizes)


@generate.command("fire")
@click.option("--rooms", type=click.IntRange(min=1), default=6, show_default=True)
@click.option("--sensors", type=click.IntRange(min=1), default=4, show_default=True, help="In each room.")
@click.option("--seconds", type=_Number(min=0, min_open=True), default=600, show_default=True)
@click.option("--step", default="1s", show_default=True, help="Between two readings of a sensor.")
@click.option("--noise", type=_Number(min=0), default=0.1, show_default=True, help="Of a reading, in C.")
@_generator_seed
@click.option("-o", "--output", type=click.Path(dir_okay=False), required=True, help="The CSV file to write.")
def generate_fire(output: str, step: str, **sizes: Any) -> None:
    """Temperatures of a building on fire, for `sense replay`: a growing fire, a zone of hot gas per room, vents.

    TIME is in seconds from ignition; the columns are thermometers, in C, T1_1 the one at the first room's ceiling.
    """
    from firelane.sense import Fire, fire_trace
    from firelane.show import working

    with working("burning"):
        trace = fire_trace(Fire(step_s=_duration(step, "--step", least_s=0.001), **sizes))
        trace.save(output)
    click.echo(f"written to {output}")


@main.group("import")
def import_() -> None:
    """Other systems' files as scenarios."""


@import_.command("planiot")
@click.argument("specification", metavar="SPEC.json", type=click.Path(dir_okay=False))
@_out
def import_planiot(specification: str, output: str) -> None:
    """A specification of PlanIoT or PlanEMQX: devices, topics, applications of categories, and one link for them.

    What has no place in a scenario is named. Add bounds under `categories`, then `firelane plan` it.
    """
    from firelane.scenario.planiot import read_planiot
    from firelane.scenario.save import save, to_text

    read = read_planiot(specification)
    comment = f"{read.scenario.name}, from {Path(specification).name} by `firelane import planiot`"
    for line in read.unused:
        click.echo(f"firelane: not as in the file: {printable(line)}", err=True)
    if output == "-":
        click.echo(to_text(read.scenario, comment=comment), nl=False)
    else:
        save(read.scenario, output, comment=comment)
        click.echo(f"written to {output}")


@main.group()
def pipeline() -> None:
    """Data jobs on Spark: positions and telemetry to loads and Metrics, simulations and sensors' replays in bulk.

    Embedded in this process by default; --master takes a cluster (spark://HOST:7077) or Spark Connect (sc://HOST).
    Folders must then be ones that all machines share. A job run again replaces what it wrote before.
    """
    from firelane.pipeline.session import require_spark

    require_spark()


def _run_job(job: str, master: str | None, as_json: bool, **settings: Any) -> None:
    """Start Spark, do the job of this name in `firelane.pipeline.jobs`, say in one line what happened."""
    from contextlib import ExitStack

    from firelane.pipeline import jobs
    from firelane.pipeline.progress import progress
    from firelane.pipeline.session import session
    from firelane.show import working

    with ExitStack() as stack:
        with working("starting Spark"):
            spark = stack.enter_context(session(master))
        with progress(spark, job):
            result = getattr(jobs, job)(spark, **settings)
    _say(result, as_json)


def _say(result: Any, as_json: bool) -> None:
    if as_json:
        _print_json(result.to_data())
    else:
        click.echo(result.line())


@pipeline.command("positions")
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.option("--zone", default="250m", show_default=True, help="The side of a zone.")
@click.option("--window", default="60s", show_default=True, help="How long a step is, in whole seconds.")
@click.option("--origin", default="0,0", show_default=True, metavar="X,Y", help="A corner of zones, in metres.")
@click.option("--city-bounds", metavar="WEST,SOUTH,EAST,NORTH", help="In metres; positions outside are refused.")
@click.option("--changes", is_flag=True, help="Also count who came into each zone and left it, which takes longer.")
@_tables
@_master
@_json
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

    west_m, south_m = _numbers(origin, 2, "--origin")
    edges = None if city_bounds is None else Bounds(*_numbers(city_bounds, 4, "--city-bounds"))
    side_m, window_s = _length(zone, "--zone"), _whole_seconds(window, "--window")
    grid = Grid(side_m=side_m, west_m=west_m, south_m=south_m, window_s=window_s)
    _run_job("positions", master, as_json, source=source, output=output, grid=grid, bounds=edges, changes=changes)


@pipeline.command("characteristics")
@click.argument("source", metavar="LOADS", type=click.Path(path_type=Path))
@_tables
@_master
@_json
def pipeline_characteristics(source: Path, output: Path, master: str | None, as_json: bool) -> None:
    """What loads look like: topics' sizes over time, their distribution, and whether its tail is a Pareto one.

    LOADS is the output of `positions` or `subscriptions`. Tables are written as Parquet and as CSV, with two pictures.
    """
    _run_job("characteristics", master, as_json, source=source, output=output)


_telemetry = click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))


@pipeline.command("subscriptions")
@_telemetry
@_tables
@_master
@_json
def pipeline_subscriptions(source: Path, output: Path, master: str | None, as_json: bool) -> None:
    """Membership records to loads: the distinct clients subscribed to each filter, per minute.

    INPUT is the data folder of an exchange, or a folder or file of its membership records.
    """
    _run_job("subscriptions", master, as_json, source=source, output=output)


@pipeline.command("deliveries")
@_telemetry
@click.option("--window", default="60s", show_default=True, help="How long a window is.")
@_tables
@_master
@_json
def pipeline_deliveries(source: Path, window: str, output: Path, master: str | None, as_json: bool) -> None:
    """Delivery records to Metrics per subscription and class, and to loads of topics, per window.

    INPUT is the data folder of an exchange, or a folder or file of its delivery records.
    """
    _run_job("deliveries", master, as_json, source=source, output=output, window_s=_window(window))


@pipeline.command("sense")
@_telemetry
@_sensor_model
@_delta
@_sensors
@_tables
@_master
@_json
def pipeline_sense(
    source: Path, model: str, delta: float, sensors: str, output: Path, master: str | None, as_json: bool
) -> None:
    """Thousands of traces of sensors through models, as `sense replay` does: a row per trace and sensor.

    INPUT is a folder of traces, a CSV file each, or Parquet with the columns trace, time_s, sensor and value.
    """
    from firelane.pipeline.replays import Sending

    how = Sending(delta=delta, model=model, sensors=sensors)
    _run_job("sense", master, as_json, source=source, output=output, how=how)


@pipeline.command("sweep")
@_scenario
@click.option("--rates", default="1", show_default=True, help="Factors for the rates of all publishers: 0.5,0.8,1.")
@click.option("--bandwidths", help="Of the subscribers' links, instead of their own: 4 Mbps,8 Mbps.")
@click.option("--orders", default="all", show_default=True, help="Of categories by priority: 'a>b>c,b>a>c'.")
@click.option("--drops", multiple=True, help="Levels to try for every category, 0,0.2, or for one, analytics=0,0.5.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Simulations of each point.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first of the seeds.")
@click.option("--publications", type=click.IntRange(min=1), default=100_000, show_default=True, help="In each of them.")
@_tables
@_master
@_json
def pipeline_sweep(
    scenario: str, publications: int, output: Path, master: str | None, as_json: bool, **varied: Any
) -> None:
    """Simulate and predict a scenario at every point of a grid: the performance data set.

    A sweep that was killed goes on where it was; a wider grid adds to what is there.
    """
    from contextlib import ExitStack

    from firelane.pipeline.jobs import sweep
    from firelane.pipeline.session import session
    from firelane.pipeline.sweep.grid import make_grid
    from firelane.scenario import load
    from firelane.show import progress_bar, working

    read = load(scenario)
    grid = make_grid(read, **varied)
    with ExitStack() as stack:
        with working("starting Spark"):
            spark = stack.enter_context(session(master))
        with progress_bar(grid.trials, "sweeping") as progress:
            result = sweep(spark, scenario=read, grid=grid, output=output, publications=publications, progress=progress)
    _say(result, as_json)


@pipeline.command("watch")
@click.argument("source", metavar="mqtt://HOST:PORT|FOLDER")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Keep the tables here.")
@click.option("--scenario", help="Its bounds and links are checked, and its rates are expected.")
@click.option("--window", default="10s", show_default=True, help="How long a window of the tables is.")
@click.option("--late", default="30s", show_default=True, help="How far behind the newest a record may be.")
@click.option("--for", "seconds", type=_Number(min=0), help="End after so many seconds.")
@click.option("--alerts-topic", default="$firelane/alerts", show_default=True, help="Where alerts are published.")
@_master
@_json
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
    from firelane.pipeline.session import require_spark

    require_spark()
    from firelane.pipeline.watch.run import line, run

    facts = run(
        source,
        output=output,
        scenario=scenario,
        window_s=_window(window),
        late_s=_duration(late, "--late", least_s=1e-3),
        alerts_topic=alerts_topic,
        master=master,
        seconds=seconds,
        quiet=as_json,
    )
    if as_json:
        _print_json(facts)
    else:
        click.echo(line(facts))


@main.group()
def sense() -> None:
    """Sensor readings sent only when a model that both ends share fails to predict them."""


@sense.command("replay")
@click.argument("trace", metavar="TRACE.csv", type=click.Path(dir_okay=False))
@_sensor_model
@_delta
@_sensors
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Draw three of the sensors here (.png, .svg, .pdf)."
)
@_json
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
        _print_json(result.to_data())
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
    "--precision", type=_Number(min=0, min_open=True), default=0.5, show_default=True, help="What is offered."
)
@click.option("--model", type=click.Choice(SENSOR_MODELS), default="auto", show_default=True)
@click.option("--sensors", metavar="PATTERN", default="*", show_default=True, help="Columns, as 'TC*'.")
@click.option("--speed", type=_Number(min=0, min_open=True), default=1.0, show_default=True, help="Times as fast.")
@click.option(
    "--load", type=_Number(min=0.01, max=0.95), help="Keep this process at this share of a core, by its precision."
)
@click.option(
    "--record",
    metavar="SERIES.csv",
    type=click.Path(dir_okay=False),
    help="Change the precision on purpose instead, and write how the load answers, for `sense identify`.",
)
@click.option(
    "--period", type=_Number(min=0.1), default=5.0, show_default=True, help="Seconds between looks at the load."
)
@_json
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
                record=record, period_s=period, progress=progress, tell=_tell,
            )
        )  # fmt: skip
    if as_json:
        _print_json(done)
        return
    click.echo(
        f"{done['sent']:,} of {done['readings']:,} readings sent, {done['suppressed']:.1%} suppressed; "
        f"{done['messages']:,} messages, {done['bytes']:,} bytes"
    )


@sense.command("watch")
@click.argument("topic_filter", metavar="[FILTER]", default="#")
@_broker
@click.option("--tolerance", type=_Number(min=0, min_open=True), help="The error that can be borne.")
@click.option("--for", "seconds", type=_Number(min=0, min_open=True), help="Seconds, instead of until Ctrl-C.")
@_json
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
                topic_filter, broker=broker, tolerance=tolerance, seconds=seconds, show=screen.show, tell=_tell
            )
        )
    if as_json:
        _print_json(done)


def _tell(line: str) -> None:
    click.echo(f"firelane: {line}", err=True)


@sense.command("identify")
@click.argument("series", metavar="SERIES.csv", type=click.Path(dir_okay=False))
@click.option(
    "--target",
    type=_Number(min=0.01, max=0.95),
    default=0.7,
    show_default=True,
    help="The load that the gains are to keep.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Draw measured and modelled load here (.png, .svg, .pdf)."
)
@_json
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
        _print_json({"plant": plant.to_data(), "gains": None if designed is None else designed.to_data()})
        return
    show_plant(plant, designed, len(read), plain_console())
    if output is not None:
        click.echo(f"picture: {output}")


@main.command()
@click.argument("paper", type=click.Choice(["brokers", "firedex", "planemqx", "pubsubcoord", "rdds"]))
@click.option("-o", "--output", type=click.Path(file_okay=False), help="The folder to write, instead of out/PAPER.")
@click.option("--quick", is_flag=True, help="Shorter runs: under two minutes, and one more with --live.")
@click.option("--live", is_flag=True, help="firedex: Figures 7 to 9 with real clients on an exchange too.")
@click.option(
    "--trace",
    type=click.Path(exists=True),
    help="brokers: vehicles' positions, beside a generated city; rdds: measured fires, beside generated ones.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@_json
def reproduce(
    paper: str, output: str | None, quick: bool, live: bool, trace: str | None, seed: int, as_json: bool
) -> None:
    """Run a paper's experiments again: report.md, results.json and plots, the paper's values beside ours.

    firedex is the paper on lanes and drop rates; planemqx the one on planning for categories of applications, run with
    real clients; rdds the one on sensors' models, with real traffic, too; pubsubcoord the one on sites joined over a
    WAN, with real brokers and ZooKeeper, which must be installed; brokers the one on balancing topics over a cluster,
    which needs Spark (`pip install 'firelane[pipeline]'`).
    """
    from firelane.reproduce import brokers, firedex, planemqx
    from firelane.reproduce.pubsubcoord import evaluation as sites
    from firelane.reproduce.rdds import evaluation
    from firelane.show import show_section

    output = output or f"out/{paper}"
    place = None if trace is None else Path(trace)
    if paper == "firedex":
        results = firedex.reproduce(Path(output), quick=quick, seed=seed, live=live)
    elif paper == "planemqx":
        results = planemqx.reproduce(Path(output), quick=quick, seed=seed)
    elif paper == "pubsubcoord":
        results = sites.reproduce(Path(output), quick=quick, seed=seed)
    elif paper == "rdds":
        results = evaluation.reproduce(Path(output), quick=quick, seed=seed, trace=place)
    else:
        results = brokers.reproduce(Path(output), quick=quick, seed=seed, trace=place)
    if as_json:
        _print_json(results)
    else:
        report = Path(output) / "report.md"
        show_section(report, "In short")
        click.echo(f"the whole report: {report}")


def _served(command: Any) -> Any:
    """What every running exchange can be told."""
    for option in (
        click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="As exchange.keep_alive=60s."),
        click.option(
            "--data-dir",
            type=click.Path(file_okay=False, path_type=Path),
            default="firelane-data",
            show_default=True,
            help="Where sessions and messages are kept.",
        ),
        click.option(
            "--http-port", type=click.IntRange(0, 65_535), default=8080, show_default=True, help="0: any free port."
        ),
        click.option(
            "--mqtt-port", type=click.IntRange(0, 65_535), default=1883, show_default=True, help="0: any free port."
        ),
        click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all."),
        click.argument("scenario", required=False),
    ):
        command = option(command)
    return command


def _registry_address(context: click.Context, option: click.Parameter, address: str) -> str:
    """What can be a registry of several processes; without kazoo nobody can tell."""
    from importlib.util import find_spec

    from firelane.overlay.registry import RegistryError, parse_registry

    if address.startswith("memory://"):
        problem = "nobody else is met in the memory of one process"
    else:
        try:
            parse_registry(address)
            return address
        except RegistryError as wrong:
            if find_spec("kazoo") is None:
                raise
            problem = str(wrong).rpartition("; ")[0]
    raise click.BadParameter(f"{problem}; write zookeeper://HOST:PORT,HOST:PORT/ROOT", param=option)


def _broker_name(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    from firelane.overlay.joining import check_name

    return _usable(name, check_name, option)


def _reachable_at(context: click.Context, option: click.Parameter, locator: str | None) -> str | None:
    from firelane.overlay.joining import check_locator

    return _usable(locator, check_locator, option)


def _usable(given: str | None, check: Callable[[str], None], option: click.Parameter) -> str | None:
    """What was given, if it passes the check that others make as well."""
    try:
        if given is not None:
            check(given)
    except FirelaneError as problem:
        raise click.BadParameter(str(problem), param=option) from None
    return given


_registry = click.option(
    "--registry",
    required=True,
    metavar="ADDRESS",
    callback=_registry_address,
    help="zookeeper://HOST:PORT,HOST:PORT, where brokers find others.",
)
_named = click.option(
    "--name", metavar="NAME", callback=_broker_name, help="Of this broker, unlike any other's; by default the host's."
)
_locator = click.option(
    "--locator", metavar="HOST:PORT", callback=_reachable_at, help="Where others reach it, if not where it listens."
)


@main.command()
@_served
@click.option("--plan", type=click.Path(dir_okay=False), help="Keep to this plan instead of planning by itself.")
def serve(
    scenario: str | None,
    host: str,
    mqtt_port: int,
    http_port: int,
    data_dir: Path,
    plan: str | None,
    assignments: tuple[str, ...],
) -> None:
    """Run an exchange: an MQTT 3.1.1 and 5 broker that any client can use, and its web side.

    Links in SCENARIO are paced, and a plan says who goes first on them: it is made anew whenever subscriptions or
    traffic change, unless --plan gives one.

    One line says when it is ready. SIGTERM and Ctrl-C end it in order, SIGHUP reads the settings again. Settings are
    under `exchange:` in SCENARIO; --set and variables such as FIRELANE_EXCHANGE__KEEP_ALIVE=60s override them.
    """
    from firelane.scenario.plan import load_plan

    _run_exchange(
        scenario, host, mqtt_port, http_port, data_dir, assignments, plan=None if plan is None else load_plan(plan)
    )


def _run_exchange(
    scenario: str | None,
    host: str,
    mqtt_port: int,
    http_port: int,
    data_dir: Path,
    assignments: tuple[str, ...],
    defaults: dict[str, Any] | None = None,
    **how: Any,
) -> None:
    import os

    from firelane.scenario.overrides import load_exchange
    from firelane.serve import serve as run

    run(
        lambda: load_exchange(scenario, assignments, os.environ, defaults),
        host=host,
        mqtt_port=mqtt_port,
        http_port=http_port,
        data_dir=data_dir,
        ready=click.echo,
        complain=lambda line: click.echo(f"firelane: {line}", err=True),
        **how,
    )


def _join(role: Any, registry: str, name: str | None, locator: str | None, dds: int | None = None) -> Any:
    import socket

    from firelane.overlay.joining import Joining

    name = socket.gethostname() if name is None else name
    return Joining(role=role, registry=registry, name=name, locator=locator, dds=dds)


@main.command()
@_served
@_registry
@_named
@_locator
@click.option("--dds", type=click.IntRange(0, 230), metavar="DOMAIN", help="Join the DDS endpoints of this domain too.")
def edge(registry: str, name: str | None, locator: str | None, dds: int | None, **served: Any) -> None:
    """Run an exchange that joins those of other sites: what clients want elsewhere is passed on, the rest stays here.

    Other sites are found through the registry, messages go through routers (`firelane router`). What has QoS 1 or 2 is
    kept here until every site that wants it has it. All that `firelane serve` does, it does too.
    """
    _run_exchange(join=_join("edge", registry, name, locator, dds), **served)


@main.command()
@_served
@_registry
@_named
@_locator
def router(registry: str, name: str | None, locator: str | None, **served: Any) -> None:
    """Run a router: passes messages on between edges (`firelane edge`), and keeps none.

    Any number of routers share the topics; one of them leads and gives topics to the others, and again when one dies or
    has too much to do (exchange.overlay.strategy). Nothing is written to disk, and limits are as wide as edges need
    them, unless settings say otherwise.
    """
    from firelane.overlay.joining import ROUTER

    _run_exchange(defaults=ROUTER, join=_join("router", registry, name, locator), **served)


@main.group()
def overlay() -> None:
    """Sites that are joined: who is there, and what would be moved."""


@overlay.command("status")
@_registry
@_json
def overlay_status(registry: str, as_json: bool) -> None:
    """Brokers, who leads, the topics that cross sites with their routers, and what was moved last and why."""
    import shutil
    import time

    from firelane.overlay.screen import screen
    from firelane.overlay.showing import state_of

    status = _asked(registry, lambda known: known.status())
    if as_json:
        _print_json(state_of(status))
    else:
        for line in screen(status, now_s=time.time(), width=shutil.get_terminal_size((100, 24)).columns):
            click.echo(line)


@overlay.command("plan")
@_registry
@click.option(
    "--strategy",
    type=click.Choice(["fewest-topics", "least-load", "long-term", "bounded-moves"]),
    default="bounded-moves",
    show_default=True,
    help="Of the leader that is imagined, whatever that of routers is.",
)
@click.option("--moves", type=click.IntRange(0), default=10, show_default=True, help="At most so many.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan here.")
@_json
def overlay_plan(registry: str, strategy: str, moves: int, output: str | None, as_json: bool) -> None:
    """What a leader with this strategy would do next, and why; nothing is moved.

    The registry does not say by which strategy routers lead (exchange.overlay.strategy): give theirs. Over REST a
    router is asked what it would do itself (GET /api/v1/overlay/plan).
    """
    from firelane.overlay.leader.leading import Leading
    from firelane.overlay.showing import dry_run

    plan = dry_run(_asked(registry, lambda known: known.status()), Leading(strategy=strategy, max_moves=moves))
    if output is not None:
        _write(output, json.dumps(plan.to_data(), indent=2))
    if as_json:
        _print_json(plan.to_data())
    else:
        for line in plan.why:
            click.echo(line)


@overlay.command("forget")
@click.argument("edge")
@_registry
def overlay_forget(edge: str, registry: str) -> None:
    """Forget EDGE, which is away and will not come back: others keep nothing for it any more.

    What they have kept for it is dropped. If it does come back, it begins as a new one.
    """
    _asked(registry, lambda known: known.forget_edge(edge))
    click.echo(f"the edge {edge} is forgotten; others drop what they kept for it")


def _asked(address: str, ask: Callable[[Any], Any]) -> Any:
    """What a registry answers; who has to wait for that is told for whom."""
    import asyncio
    from functools import partial

    from firelane.overlay.registry import Registry, parse_registry

    async def answer() -> Any:
        tree = parse_registry(address)
        tell = partial(click.echo, f"firelane: asking {tree.name}", err=True)
        slow = asyncio.get_running_loop().call_later(TOLD_AFTER_S, tell)
        async with Registry(tree, wait_s=REGISTRY_WITHIN_S) as registry:
            answered = await ask(registry)
        slow.cancel()
        return answered

    return asyncio.run(answer())


@main.command()
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Short runs: seconds, and numbers that only show that it works.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Write a page with the numbers here, in Markdown."
)
@_json
def bench(name: str | None, quick: bool, output: str | None, as_json: bool) -> None:
    """Measure Firelane side by side with its peers, in one run.

    NAME is brokers, end-to-end, matching, optimiser, overlay, positions, replan, sense, simulator or streams; else all
    of them.
    """
    from firelane import bench as benchmarks

    measures = benchmarks.run(name, quick=quick)
    if output is not None:
        _write(output, benchmarks.report(measures))
    if as_json:
        benchmarks.say(benchmarks.machine())
        _print_json([one.to_data() for one in measures])
    else:
        benchmarks.show(measures)


@main.command()
def password() -> None:
    """Ask for a password, twice and unseen, and print the argon2id hash that `exchange.users` keeps.

    When something is piped into it, its first line is the password.
    """
    from firelane.exchange.clients.access import hashed

    if sys.stdin.isatty():
        typed = click.prompt("Password", hide_input=True, confirmation_prompt="Again", err=True)
        given = typed.encode(errors="surrogateescape")
    else:
        given = sys.stdin.buffer.readline().rstrip(b"\r\n")
    if not given:
        raise FirelaneError("there is no password in the input; type one, or pipe it in")
    click.echo(hashed(given))


def _counted(things: str, count: int) -> str:
    return f"{count} {things.removesuffix('s') if count == 1 else things}"


def _share(text: str, option: str) -> float:
    from firelane.units import SHARE

    try:
        return SHARE.parse(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint=option) from None


def _window(text: str) -> float:
    """In a second there is one window at most, as tables of loads name it by whole seconds."""
    return _duration(text, "--window", least_s=1.0)


def _duration(text: str, option: str, *, least_s: float) -> float:
    from firelane.units import DURATION

    try:
        seconds = DURATION.parse(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint=option) from None
    if not least_s <= seconds <= YEAR_S:
        raise click.BadParameter(f"write from {least_s:g} s to {YEAR_S} s, a year", param_hint=option)
    return seconds


def _whole_seconds(text: str, option: str) -> int:
    seconds = _duration(text, option, least_s=1.0)
    if seconds != int(seconds):
        raise click.BadParameter("write whole seconds, e.g. 60s", param_hint=option)
    return int(seconds)


def _length(text: str, option: str) -> float:
    from firelane.units import LENGTH

    try:
        return LENGTH.parse(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint=option) from None


def _numbers(text: str, count: int, option: str) -> list[float]:
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise click.BadParameter(f"write {count} numbers with commas between them", param_hint=option)
    return numbers


def _read_plan(plan_file: str | None, scenario: Any) -> Any:
    if plan_file is None:
        return None
    from firelane.scenario.plan import load_plan

    plan = load_plan(plan_file)
    if plan.scenario_digest not in ("", scenario.digest()):
        click.echo(f"firelane: {plan_file} was made for another state of this scenario; subscriptions it does not "
                   "name get the lowest class", err=True)  # fmt: skip
    if strangers := plan.strangers(scenario):
        click.echo(f"firelane: {strangers} subscriptions of {plan_file} are not in this scenario", err=True)
    return plan


def _show(metrics: Any, per_subscription: bool, output: str | None, as_json: bool) -> None:
    from firelane.show import show_metrics

    if output is not None:
        metrics.save(output)
    if as_json:
        _print_json(metrics.to_data(per_subscription=per_subscription))
    else:
        show_metrics(metrics, per_subscription=per_subscription)


def _write(path: str, text: str) -> None:
    from firelane.scenario.save import write_whole

    try:
        write_whole(path, text)
    except OSError as problem:
        raise FirelaneError(f"{path}: this file cannot be written: {problem.strerror}") from None


def _print_json(data: Any) -> None:
    json.dump(data, sys.stdout, allow_nan=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
