"""What people see of a plan for requirements: each category before and after, and why."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from firelane.errors import printable
from firelane.plan.result import Planned


def show_planned(result: Planned, console: Console) -> None:
    """A row for each category, the highest class first, then the reasons."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("category", overflow="fold")
    for heading in ("class", "drop\n%", "delay\nms", "planned\nms", "bound\nms", "loss\n%", "planned\n%", "bound\n%"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in result.order or result.wanted.categories:
        table.add_row(printable(name), *_cells(result, name))
    console.print(table)
    console.print()
    for line in result.why:
        console.print(f"- {printable(line)}", soft_wrap=True)


def _cells(result: Planned, name: str) -> list[str]:
    number = result.wanted.categories.index(name)
    before, after = result.before[name], result.after[name]
    bounds = {kind: [one.bound for one in result.wanted.bounds if one.category == number and one.kind == kind]
              for kind in ("delay", "loss")}  # fmt: skip
    return [
        str(int(result.found.rank[number])),
        _percent(result.drops[name]),
        _delay(before),
        _delay(after),
        _ms(min(bounds["delay"])) if bounds["delay"] else "",
        _percent(before["loss"]),
        _percent(after["loss"]),
        _percent(min(bounds["loss"])) if bounds["loss"] else "",
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g}"


def _delay(gets: dict[str, float | None]) -> str:
    delay_s = gets["delay_mean_s"]
    if delay_s is None:
        return "-" if gets["loss"] is None else "saturated"  # nothing is published, or too much
    return _ms(delay_s)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.4g}"
