"""What people see of a balance: the result in a few lines and, on a dry run, before, after and the moves."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from firelane.balance.result import Balance
from firelane.errors import printable


def show_balance(result: Balance, console: Console, *, moves: bool = False) -> None:
    """Why it is as it is, and if asked for, each broker before and after and the topics that move."""
    for line in result.why():
        console.print(f"- {printable(line)}", soft_wrap=True)
    if moves:
        console.print()
        console.print(_brokers(result))
        console.print()
        _show_moves(result, console)


def _brokers(result: Balance) -> Table:
    table = _table(f"load at the last step, {result.loads.unit}", "broker", "before", "after")
    before, after = result.before, result.after
    for name in result.names:
        table.add_row(name, f"{before[name]:,.6g}", f"{after[name]:,.6g}")
    spread = [max(one.values()) - min(one.values()) for one in (before, after)]
    table.add_section()
    table.add_row("difference", *(f"{one:,.6g}" for one in spread))
    return table


def _show_moves(result: Balance, console: Console) -> None:
    moves = result.moves
    if not moves:
        console.print("nothing to move")
        return
    table = _table(f"{len(moves)} move{'s' * (len(moves) != 1)}", "topic", "from", "to", "load")
    for one in moves:
        table.add_row(printable(one.topic), one.source, one.target, f"{one.load:,.6g}")
    console.print(table)


def _table(title: str, *headings: str) -> Table:
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True
    )
    for heading in headings:
        number = heading in ("before", "after", "load")
        table.add_column(heading, justify="right" if number else "left", overflow="fold", no_wrap=number)
    return table
