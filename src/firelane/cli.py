"""The command line: one function per verb, no logic."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import click

from firelane import __version__
from firelane.errors import FirelaneError, printable

PRIORITIES = ("none", "random", "information", "bandwidth-adjusted", "delay-adjusted")
DROPS = ("none", "flat", "linear", "exponential", "optimised")

_scenario = click.argument("scenario", metavar="SCENARIO")
_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, for machines.")
_per_subscription = click.option(
    "--per-subscription", is_flag=True, help="A row per subscription, however many (tables show up to 25 unasked)."
)
_plan = click.option("--plan", "plan_file", type=click.Path(dir_okay=False), help="A plan from `firelane tune -o`.")
_table = click.option("-o", "--output", type=click.Path(), help="Write the Metrics table here, as Parquet.")
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
        except OSError as problem:
            if "--debug" in sys.argv:
                raise
            click.echo(f"firelane: {problem.strerror or problem}; is there room for the output?", err=True)
        except Exception as bug:
            if "--debug" in sys.argv:
                raise
            what = " ".join(str(bug).split())
            click.echo(f"firelane: a bug, sorry: {type(bug).__name__}: {what}; see it whole with --debug", err=True)
        sys.exit(1)


@click.group(cls=_OneLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="firelane %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def main(debug: bool) -> None:
    """Get the data that matters through first.

    SCENARIO is a YAML file, or the name of one that ships with Firelane: office-fire, firedex, firedex-shared, city.

    \b
    A first tour:
      firelane demo                                  a building on fire, live
      firelane predict office-fire                   what will happen, in closed form
      firelane tune office-fire -o plan.json         decide priorities and drop rates
      firelane predict office-fire --plan plan.json  what the plan changes
      firelane simulate office-fire --plan plan.json and check it by simulation
    """


@main.command()
@click.option(
    "--seconds", type=click.FloatRange(2, 600), default=20, show_default=True, help="How long the fire takes."
)
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

    min_share, max_loss and tolerance in the scenario are kept by every method but none.
    """
    from firelane.scenario import load
    from firelane.show import show_plan, working
    from firelane.tune import tune as run

    free = _share(headroom)
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


@main.group()
def generate() -> None:
    """Write scenario files: the FireDeX paper's, a city, an office on fire."""


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
@click.option("--async-weight-factor", type=click.FloatRange(min=0), default=1.0, show_default=True)
@click.option("--shared", is_flag=True, help="One link for all subscribers instead of one each.")
def generate_firedex(output: str, **sizes: Any) -> None:
    """Table 2 of the FireDeX paper; every size of its sweeps can be asked for."""
    from firelane.scenario.generate import firedex

    _generate(firedex, output, **sizes)


@generate.command("city")
@_generator_seed
@_out
@click.option("--zones", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--vehicles", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--cells", type=click.IntRange(min=1), default=20, show_default=True)
def generate_city(output: str, **sizes: Any) -> None:
    """Vehicles that want the news of their zone and its neighbours, over shared radio cells."""
    from firelane.scenario.generate import city

    _generate(city, output, **sizes)


@generate.command("office-fire")
@_generator_seed
@_out
@click.option("--floors", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--rooms", type=click.IntRange(min=1), default=6, show_default=True, help="On each floor.")
@click.option("--load", type=click.FloatRange(min=0, min_open=True), default=1.7, show_default=True)
def generate_office_fire(output: str, **sizes: Any) -> None:
    """A building on fire, its responders, and one thin link to the command post."""
    from firelane.scenario.generate import office_fire

    _generate(office_fire, output, **sizes)


@main.command()
@click.argument("paper", type=click.Choice(["firedex"]))
@click.option("-o", "--output", type=click.Path(file_okay=False), default="out/firedex", show_default=True)
@click.option("--quick", is_flag=True, help="Shorter runs: under two minutes, and one more with --live.")
@click.option("--live", is_flag=True, help="Figures 7 to 9 with real clients on an exchange too: three minutes more.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@_json
def reproduce(paper: str, output: str, quick: bool, live: bool, seed: int, as_json: bool) -> None:
    """Run a paper's experiments again: report.md, results.json and plots, the paper's values beside ours."""
    from firelane.reproduce import firedex
    from firelane.show import show_section

    results = firedex.reproduce(Path(output), quick=quick, seed=seed, live=live)
    if as_json:
        _print_json(results)
    else:
        report = Path(output) / "report.md"
        show_section(report, "In short")
        click.echo(f"the whole report: {report}")


@main.command()
@click.argument("scenario", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option("--mqtt-port", type=click.IntRange(0, 65_535), default=1883, show_default=True, help="0: any free port.")
@click.option("--http-port", type=click.IntRange(0, 65_535), default=8080, show_default=True, help="0: any free port.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="firelane-data",
    show_default=True,
    help="Where sessions and messages are kept.",
)
@click.option("--plan", type=click.Path(dir_okay=False), help="Keep to this plan instead of planning by itself.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="As exchange.keep_alive=60s.")
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
    import os

    from firelane.scenario.overrides import load_exchange
    from firelane.scenario.plan import load_plan
    from firelane.serve import serve as run

    run(
        lambda: load_exchange(scenario, assignments, os.environ),
        host=host,
        mqtt_port=mqtt_port,
        http_port=http_port,
        data_dir=data_dir,
        plan=None if plan is None else load_plan(plan),
        ready=click.echo,
        complain=lambda line: click.echo(f"firelane: {line}", err=True),
    )


@main.command()
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Short runs: seconds, and numbers that only show that it works.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Write a page with the numbers here, in Markdown."
)
@_json
def bench(name: str | None, quick: bool, output: str | None, as_json: bool) -> None:
    """Measure Firelane side by side with its peers, in one run.

    NAME is brokers, matching, simulator, optimiser or end-to-end; without it, all of them.
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
    from firelane.exchange.access import hashed

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


def _share(text: str | None) -> float | None:
    from firelane.units import SHARE

    if text is None:
        return None
    try:
        return SHARE.parse(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--headroom") from None


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
