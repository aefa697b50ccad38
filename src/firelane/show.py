"""What people see in the terminal: tables on stdout, progress on stderr."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from firelane.errors import printable
from firelane.metrics import Metrics
from firelane.scenario.plan import Plan

MOST_LINKS = 12
MOST_SUBSCRIPTIONS = 25  # that are listed without being asked for


@contextmanager
def progress_bar(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, advanced by calling what it yields; only a terminal shows it.

    After Ctrl-C that call ends the thread which makes it, so work in threads stops at its next step.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    hidden = not console.is_terminal
    with (
        _noting_interrupts() as interrupted,
        Progress(*columns, console=console, transient=True, disable=hidden) as bar,
    ):
        task = bar.add_task(f"{label} (the first run compiles)", total=total)

        def advance(done: int) -> None:
            if interrupted.is_set():
                raise KeyboardInterrupt
            bar.update(task, advance=done, description=label)

        yield advance


@contextmanager
def _noting_interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, before it interrupts the main thread as always."""
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield interrupted
        return

    def note(number: int, frame: Any) -> None:
        interrupted.set()
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def working(label: str) -> Iterator[None]:
    """A spinner on stderr while something without countable steps goes on."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(label):
            yield
    else:
        yield


def plain_console() -> Console:
    """Where tables go; names are shown as they are, not as markup or emoji codes."""
    return Console(markup=False, emoji=False, highlight=False)


def show_metrics(metrics: Metrics, *, per_subscription: bool = False, console: Console | None = None) -> None:
    """Subscriptions (all if asked for, else if few), classes, links and utility of one prediction or simulation."""
    console = console or plain_console()
    title = f"{printable(metrics.scenario)}, {metrics.source}"
    simulated = bool(metrics.class_extra)
    count = metrics.table.num_rows
    listed = per_subscription or count <= MOST_SUBSCRIPTIONS
    if listed:
        columns = ["delivered\n%", "mean\nms", "p95\nms"] if simulated else ["delivered\n%", "mean\nms"]
        _print(console, _subscriptions(title, columns, _metrics_rows(metrics, percentiles=simulated)))
    _print(console, _classes(f"{title}, by class", metrics, percentiles=simulated))
    _show_stages(console, metrics)
    _show_links(console, metrics)
    console.print(utility_line(metrics), highlight=False)
    _show_notes(console, metrics.notes)
    if "seed" in metrics.extra:
        runs = metrics.extra["replications"]
        console.print(f"{runs} replication{'s' * (runs != 1)}, seed {metrics.extra['seed']}", highlight=False)
    if not listed:
        console.print(f"--per-subscription lists all {count} subscriptions", highlight=False)


def show_plan(plan: Plan, *, per_subscription: bool = False, console: Console | None = None) -> None:
    """Why a plan is as it is, which lane each subscription got (all if asked for, else if few), and the promise."""
    console = console or plain_console()
    for line in plan.why:
        console.print(f"- {printable(line)}", highlight=False, soft_wrap=True)
    count = len(plan.filter)
    listed = per_subscription or count <= MOST_SUBSCRIPTIONS
    if listed:
        _print(console, _subscriptions("Plan", [], _plan_rows(plan)))
    table = _table("Plan, by class", ["class", "flows", "mean drop %", "most dropped %"])
    for klass in sorted(set(plan.flow_priority.tolist())):
        drops = plan.flow_drop_rate[plan.flow_priority == klass]
        table.add_row(str(klass), str(len(drops)), _percent(float(drops.mean())), _percent(float(drops.max())))
    _print(console, table)
    promised = plan.promised
    if "utility_rate" in promised:
        bound = None if plan.made_by.endswith("+none") else promised.get("upper_bound_rate")
        most = "; the most any plan can reach that keeps the same headroom and bounds: "
        most = "" if bound is None else f"{most}{_percent(bound)} %"
        console.print(f"promised utility rate {_percent(promised['utility_rate'])} %{most}", highlight=False)
    if not listed:
        console.print(f"`firelane tune --per-subscription` lists all {count} subscriptions", highlight=False)


def show_section(report: Path, heading: str, *, console: Console | None = None) -> None:
    """One section of a Markdown report, up to the next heading of any level."""
    lines = report.read_text(encoding="utf-8").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("#")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        if lines[start].lstrip("# ") == heading:
            (console or plain_console()).print(Markdown("\n".join(lines[start + 1 : end])))


def utility_line(metrics: Metrics) -> str:
    """One line: what was worth how much."""
    utility = metrics.utility()
    return (
        f"utility rate {_percent(utility['rate'])} % ({utility['achieved']:.1f} of {utility['maximum']:.1f}; "
        f"mean of ratios {_percent(utility['mean_of_ratios'])} %)"
    )


def _subscriptions(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    """A row per subscription, the first class first."""
    table = _table(title, ["subscriber", "filter", "class", "drop\n%", *columns], names=2)
    for subscriber, wanted, *numbers in sorted(rows, key=lambda row: int(row[2])):
        table.add_row(printable(subscriber), printable(wanted), *numbers)
    return table


def _plan_rows(plan: Plan) -> list[list[str]]:
    flow = plan.subscription_flow
    lanes = zip(plan.flow_priority[flow].tolist(), plan.flow_drop_rate[flow].tolist(), strict=True)
    names = zip(plan.subscriber, plan.filter, strict=True)
    return [[*name, str(klass), _percent(drop)] for name, (klass, drop) in zip(names, lanes, strict=True)]


def _metrics_rows(metrics: Metrics, *, percentiles: bool) -> list[list[str]]:
    rows = []
    for row in metrics.table.to_pylist():
        cells = [row["subscriber"], row["filter"], str(row["priority"]), _percent(row["drop_rate"])]
        cells += [_percent(row["success"]), _delay(row)]
        rows.append([*cells, _ms(row["delay_p95_s"])] if percentiles else cells)
    return rows


def _classes(title: str, metrics: Metrics, *, percentiles: bool) -> Table:
    errors = {"s.e.\nms": "delay_mean_se_s", "p95\nms": "delay_p95_s", "p99\nms": "delay_p99_s"} if percentiles else {}
    table = _table(title, ["class", "delivered\nHz", "delivered\n%", "mean\nms", *errors, "utility"])
    for row in metrics.classes():
        cells = [str(row["priority"]), _short(row["delivered_hz"]), _percent(row["success"]), _delay(row)]
        table.add_row(*cells, *(_ms(row[key]) for key in errors.values()), f"{row['utility']:.1f}")
    return table


def _show_stages(console: Console, metrics: Metrics) -> None:
    if not metrics.stages:
        return
    stages = [stage.replace("_", " ") for stage in metrics.stages]
    table = _table("mean delay by stage, ms (link: with propagation)", ["class", *stages])
    for klass in sorted(metrics.stages["end_to_end"]):
        table.add_row(str(klass), *(_ms(values.get(klass)) for values in metrics.stages.values()))
    _print(console, table)


def _show_links(console: Console, metrics: Metrics) -> None:
    loads = sorted(metrics.links.items(), key=lambda item: -item[1].load)
    for name, link in loads[:MOST_LINKS]:
        state = "" if link.stable else ", saturated: offered all it can carry, or more"
        console.print(f"link {printable(name)}: load {link.load:.2f}{state}", highlight=False)
    if len(loads) > MOST_LINKS:
        console.print(f"... and {len(loads) - MOST_LINKS} with lower load", highlight=False)


def _show_notes(console: Console, notes: tuple[str, ...]) -> None:
    for note in notes[:MOST_LINKS]:
        console.print(f"note: {printable(note)}", highlight=False, soft_wrap=True)


def _table(title: str, headings: Iterable[str], *, names: int = 0) -> Table:
    """A table that is readable at 80 columns: the leading names may fold, numbers never do."""
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True
    )
    for number, heading in enumerate(headings):
        if number < names:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    return table


def _print(console: Console, table: Table) -> None:
    console.print(table)
    console.print()


def _percent(share: float | None) -> str:
    return "-" if share is None or math.isnan(share) else f"{100 * share:.1f}"


def _delay(row: dict[str, Any]) -> str:
    known = row["delay_mean_s"] is not None
    return _ms(row["delay_mean_s"]) if known or row["stable"] else "saturated"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None or math.isnan(seconds) else _short(1e3 * seconds)


def _short(value: float) -> str:
    """Three digits, or all before the point: 0.0123, 48.8, 16.0, 1,854."""
    return f"{value:,.0f}" if value == 0 or 99.95 <= value < 1e6 else f"{value:#.3g}"
