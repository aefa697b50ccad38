"""Firelane beside others: a plain broker (`demo`), papers (`reproduce`) and its peers (`bench`)."""

from __future__ import annotations

from pathlib import Path

import click

from firelane.cli import options
from firelane.cli.group import main
from firelane.cli.output import print_json, write


@main.command()
@click.option("--seconds", type=options.Number(2, 600), default=20, show_default=True, help="How long the fire takes.")
@click.option("--picture", type=click.Path(dir_okay=False), default="firelane-demo.png", show_default=True)
@options.seed
@options.as_json
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
        print_json(result.to_data())
        return
    show_outcome(result, console)
    click.echo(f"picture: {result.picture}")


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
@options.seed
@options.as_json
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
        print_json(results)
    else:
        report = Path(output) / "report.md"
        show_section(report, "In short")
        click.echo(f"the whole report: {report}")


@main.command()
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Short runs: seconds, and numbers that only show that it works.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Write a page with the numbers here, in Markdown."
)
@options.as_json
def bench(name: str | None, quick: bool, output: str | None, as_json: bool) -> None:
    """Measure Firelane side by side with its peers, in one run.

    NAME is brokers, end-to-end, matching, optimiser, overlay, positions, replan, sense, simulator or streams; else all
    of them.
    """
    from firelane import bench as benchmarks

    measures = benchmarks.run(name, quick=quick)
    if output is not None:
        write(output, benchmarks.report(measures))
    if as_json:
        benchmarks.say(benchmarks.machine())
        print_json([one.to_data() for one in measures])
    else:
        benchmarks.show(measures)
