"""Who goes first, what is dropped, and where topics are: `tune`, `plan` and `balance`."""

from __future__ import annotations

from typing import Any

import click

from firelane.cli import options
from firelane.cli.group import main
from firelane.cli.output import print_json
from firelane.errors import FirelaneError

PRIORITIES = ("none", "random", "information", "bandwidth-adjusted", "delay-adjusted")
DROPS = ("none", "flat", "linear", "exponential", "optimised")
PLANNERS = ("search", "enhsp")
BALANCE_METHODS = (
    "bounded-moves", "long-term", "long-term-causal", "threshold", "greedy", "naive-move", "exact",
)  # fmt: skip

_output = click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan here, as JSON.")


@main.command()
@options.scenario
@click.option("--priorities", type=click.Choice(PRIORITIES), default="delay-adjusted", show_default=True)
@click.option("--drops", type=click.Choice(DROPS), default="optimised", show_default=True)
@click.option("--headroom", help="Share of every link to keep free, instead of the scenario's; e.g. 10 %.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For --priorities random.")
@options.per_subscription
@_output
@options.as_json
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

    free = None if headroom is None else options.share(headroom, "--headroom")
    with working("planning"):
        plan = run(load(scenario), priorities=priorities, drops=drops, seed=seed, headroom=free)
    if output is not None:
        plan.save(output)
    if as_json:
        print_json(plan.to_data())
    else:
        show_plan(plan, per_subscription=per_subscription)
        if output is not None:
            click.echo(f"written to {output}")


@main.command("plan")
@options.scenario
@click.option("--data", type=click.Path(), help="A data set of `firelane pipeline sweep`, instead of predictions.")
@click.option("--planner", type=click.Choice(PLANNERS), default="search", show_default=True)
@click.option("--pddl", type=click.Path(file_okay=False), help="Write domain.pddl and problem.pddl to this folder.")
@click.option(
    "--time-limit",
    type=options.Number(min=0, min_open=True),
    default=24,
    show_default=True,
    help="Seconds after which the best so far is taken (search), or none (enhsp).",
)
@click.option("--spare", metavar="SHARE", default="0 %", show_default=True, help="Drop less; see above.")
@_output
@options.as_json
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
            spare=options.share(spare, "--spare"),
            seconds=time_limit,
        )
    if output is not None:
        result.to_plan().save(output)
    if as_json:
        print_json(result.to_data())
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
@click.option("--time-limit", "time_limit_s", type=options.Number(min=0, min_open=True), help="Seconds a step.")
@click.option("--current", type=click.Path(dir_okay=False), help="A plan with the placement to start from.")
@click.option("--dry-run", is_flag=True, help="Show before, after and the moves; write nothing.")
@click.option("--series", is_flag=True, help="With --json: the numbers of every step too.")
@_output
@options.as_json
def balance(
    loads: str,
    load: str | None,
    current: str | None,
    dry_run: bool,
    series: bool,
    output: str | None,
    as_json: bool,
    **how: Any,
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
        result = run(read_loads(loads, load=load), current=before.placement if before else None, **how)
    plan = result.to_plan(version=before.version + 1 if before else 1)
    if output is not None and not dry_run:
        plan.save(output)
    if as_json:
        print_json(result.to_data(series=series, moves=dry_run))
    else:
        show_balance(result, plain_console(), moves=dry_run)
        if output is not None:
            click.echo("dry run: nothing written" if dry_run else f"written to {output}")
