"""What people see in the terminal: tables on stdout, progress on stderr."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from firelane.metrics import Metrics
from firelane.scenario.plan import Plan
from firelane.units import si

MOST_LINKS = 12


@contextmanager
def progress_bar(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, advanced by calling what it yields; only a terminal shows it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{label} (the first run compiles)", total=total)

        def advance(done: int) -> None:
            progress.update(task, advance=done, description=label)

        yield advance


@contextmanager
def working(label: str) -> Iterator[None]:
    """A spinner on stderr while something without countable steps goes on."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(label):
            yield
    else:
        yield


def show_metrics(metrics: Metrics) -> None:
    """Classes, links and utility of one prediction or simulation."""
    console = Console()
    console.print(_classes(f"{metrics.scenario}, {metrics.source}", metrics))
    _show_stages(console, metrics)
    _show_links(console, metrics)
    console.print(utility_line(metrics), highlight=False)
    _show_notes(console, metrics.notes)


def show_side_by_side(title: str, columns: dict[str, Metrics], *, classes_of: Metrics) -> None:
    """Success and delay of several results, by the classes of one of them, and what each is worth."""
    console = Console()
    table = Table(title=title, title_justify="left")
    table.add_column("class", justify="right")
    for name in columns:
        table.add_column(f"{name}\ndelivered", justify="right")
        table.add_column(f"{name}\nmean delay", justify="right")
    results = [one.classes(of=classes_of) for one in columns.values()]
    for rows in zip(*results, strict=True):
        cells = [cell for row in rows for cell in (_share(row["success"]), _delay(row))]
        table.add_row(str(rows[0]["priority"]), *cells)
    console.print(table)
    for name, one in columns.items():
        console.print(f"{name}: {utility_line(one)}", highlight=False)


def show_plan(plan: Plan) -> None:
    """Why a plan is as it is, and what it promises."""
    console = Console()
    for line in plan.why:
        console.print(f"- {escape(line)}", highlight=False, soft_wrap=True)
    table = Table(title="Plan", title_justify="left")
    for name in ("class", "flows", "mean drop rate", "most dropped"):
        table.add_column(name, justify="right")
    for klass in sorted(set(plan.flow_priority.tolist())):
        drops = plan.flow_drop_rate[plan.flow_priority == klass]
        table.add_row(str(klass), str(len(drops)), _share(float(drops.mean())), _share(float(drops.max())))
    console.print(table)
    promised = plan.promised
    if "utility_rate" in promised:
        bound = promised.get("upper_bound_rate")
        most = f"; no plan can exceed {bound:.1%}" if bound is not None else ""
        console.print(f"promised utility rate {promised['utility_rate']:.1%}{most}", highlight=False)


def utility_line(metrics: Metrics) -> str:
    """One line: what was worth how much."""
    utility = metrics.utility()
    return (
        f"utility rate {utility['rate']:.1%} ({utility['achieved']:.1f} of {utility['maximum']:.1f}; "
        f"mean of ratios {utility['mean_of_ratios']:.1%})"
    )


def _classes(title: str, metrics: Metrics) -> Table:
    simulated = bool(metrics.class_extra)
    table = Table(title=title, title_justify="left")
    names = ["class", "offered", "delivered", "success", "mean delay"]
    for name in [*names, *(["± s.e.", "p95", "p99"] if simulated else []), "utility"]:
        table.add_column(name, justify="right")
    for row in metrics.classes():
        cells = [
            str(row["priority"]),
            si(row["offered_hz"], "Hz"),
            si(row["delivered_hz"], "Hz"),
            _share(row["success"]),
            _delay(row),
        ]
        if simulated:
            cells += [_seconds(row["delay_mean_se_s"]), _seconds(row["delay_p95_s"]), _seconds(row["delay_p99_s"])]
        table.add_row(*cells, f"{row['utility']:.1f}")
    return table


def _show_stages(console: Console, metrics: Metrics) -> None:
    if not metrics.stages:
        return
    classes = sorted(metrics.stages["end_to_end"])
    table = Table(title="mean delay by stage (link: with propagation)", title_justify="left")
    table.add_column("class", justify="right")
    for stage in metrics.stages:
        table.add_column(stage.replace("_", " "), justify="right")
    for klass in classes:
        table.add_row(str(klass), *(_seconds(values.get(klass)) for values in metrics.stages.values()))
    console.print(table)


def _show_links(console: Console, metrics: Metrics) -> None:
    loads = sorted(metrics.links.items(), key=lambda item: -item[1].load)
    for name, link in loads[:MOST_LINKS]:
        state = "" if link.stable else "  saturated: lower classes wait without end or are pushed out"
        console.print(f"link {escape(name)}: load {link.load:.2f}{state}", highlight=False)
    if len(loads) > MOST_LINKS:
        console.print(f"... and {len(loads) - MOST_LINKS} links with lower load", highlight=False)


def _show_notes(console: Console, notes: tuple[str, ...]) -> None:
    for note in notes[:MOST_LINKS]:
        console.print(f"note: {escape(note)}", highlight=False, soft_wrap=True)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _delay(row: dict[str, object]) -> str:
    delay = row["delay_mean_s"]
    return si(delay, "s") if isinstance(delay, float) else ("-" if row["stable"] else "saturated")


def _seconds(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else si(value, "s")
