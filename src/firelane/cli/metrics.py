"""What will happen to a scenario, in closed form and by simulation: `predict` and `simulate`."""

from __future__ import annotations

from typing import Any

import click

from firelane.cli import options
from firelane.cli.group import main
from firelane.cli.output import print_json, tell

_plan = click.option("--plan", "plan_file", type=click.Path(dir_okay=False), help="A plan from `firelane tune -o`.")
_table = click.option("-o", "--output", type=click.Path(), help="Write the Metrics table here, as Parquet.")


@main.command()
@options.scenario
@_plan
@click.option(
    "--arrivals",
    type=click.Choice(["fan-out", "independent", "paper"]),
    default="fan-out",
    show_default=True,
    help="Model of the link: batches (exact), Cobham, or the paper's Eq. 4-5.",
)
@options.per_subscription
@_table
@options.as_json
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
@options.scenario
@_plan
@click.option("--publications", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="In each run.")
@click.option(
    "--replications", type=click.IntRange(min=1, max=10_000), default=4, show_default=True, help="Independent runs."
)
@click.option("--seed", type=click.IntRange(min=0), help="Makes chance repeatable.")
@click.option("--independent", is_flag=True, help="No fan-out: every subscription its own Poisson stream.")
@options.per_subscription
@_table
@options.as_json
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


def _read_plan(plan_file: str | None, scenario: Any) -> Any:
    if plan_file is None:
        return None
    from firelane.scenario.plan import load_plan

    plan = load_plan(plan_file)
    if plan.scenario_digest not in ("", scenario.digest()):
        tell(
            f"{plan_file} was made for another state of this scenario; subscriptions it does not name get the lowest "
            "class"
        )
    if strangers := plan.strangers(scenario):
        tell(f"{strangers} subscriptions of {plan_file} are not in this scenario")
    return plan


def _show(metrics: Any, per_subscription: bool, output: str | None, as_json: bool) -> None:
    from firelane.show import show_metrics

    if output is not None:
        metrics.save(output)
    if as_json:
        print_json(metrics.to_data(per_subscription=per_subscription))
    else:
        show_metrics(metrics, per_subscription=per_subscription)
