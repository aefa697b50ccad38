"""What people see of the demo: a table that lives while it runs, or a line now and then, and a summary at the end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from firelane.demo.arrivals import Row
from firelane.demo.fire import ALARMS, KINDS, LOAD, Fire, kind_of
from firelane.demo.outcome import Demo, Outcome
from firelane.units import si

FIRST_LINE_S, LINE_EVERY = 1.0, 1 / 8  # of the run, without a terminal
BAR_WIDTH = 30
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """How both brokers do at a moment: a row per kind of data, a last one for everything, and Firelane's plan."""

    fire: Fire
    moment_s: float
    plain: list[Row]
    firelane: list[Row]
    plan: dict[str, Any]


class Screen:
    """Shows a run on a console: live on a terminal, else in lines unless it is to be quiet."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._live: Live | None = None
        self._line_at_s = FIRST_LINE_S

    def working(self, label: str) -> AbstractContextManager[object]:
        """A spinner while something goes on that nobody can see."""
        return self._console.status(label) if self._console.is_terminal else nullcontext()

    @contextmanager
    def live(self) -> Iterator[None]:
        """The time in which `show` is called."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as self._live:
            yield

    def wants(self, moment_s: float) -> bool:
        """Whether it would show a snapshot of now."""
        return self._live is not None or (not self._quiet and moment_s >= self._line_at_s)

    def show(self, snapshot: Snapshot) -> None:
        """Show how it goes."""
        if self._live is not None:
            self._live.update(Group(*_view(snapshot)), refresh=True)
        else:
            self._line_at_s = snapshot.moment_s + LINE_EVERY * snapshot.fire.seconds
            self._console.print(_line(snapshot), soft_wrap=True)


def show_outcome(demo: Demo, console: Console) -> None:
    """The whole run: a table, and what a commander would notice."""
    table = _table("The whole run")
    for plain, ours in zip(demo.plain.kinds, demo.firelane.kinds, strict=True):
        cells = [
            cell
            for one in (plain, ours)
            for cell in (_percent(one.utility_rate), _time(one.delay_mean_s), _time(one.age_mean_s), str(one.dropped))
        ]
        table.add_row(plain.name, *cells)
    table.add_section()
    table.add_row(ALL, *(cell for one in (demo.plain, demo.firelane) for cell in _total(one)))
    console.print(table)
    console.print()
    for line in summary(demo):
        console.print(line, soft_wrap=True)


def summary(demo: Demo) -> list[str]:
    """What happened, in a few lines."""
    plain, ours = demo.plain, demo.firelane
    alarm, our_alarm = plain.kind(ALARMS), ours.kind(ALARMS)
    return [
        f"An alarm reached its people after {_time(alarm.delay_mean_s)} with the plain broker "
        f"(99 % within {_time(alarm.delay_p99_s)}), after {_time(our_alarm.delay_mean_s)} with Firelane "
        f"(99 % within {_time(our_alarm.delay_p99_s)}).",
        "Age of the newest reading, plain broker and Firelane: "
        + "; ".join(_ages(demo, name) for name in ("smoke, CO", "vitals", ALARMS))
        + ".",
        f"Alarms lost: {alarm.dropped} of {alarm.due} with the plain broker, {our_alarm.dropped} with Firelane.",
        f"Value delivered: {_percent(plain.utility_rate)} and {_percent(ours.utility_rate)} ({demo.gain:+.0%}); "
        f"counting what came too late for less: {_percent(plain.in_time_rate)} and {_percent(ours.in_time_rate)}.",
        f"Both had the same readings, {LOAD:g} times what the link carries. The fire grew and the crews went in: "
        f"Firelane planned anew {ours.plans} times.",
        "The plain broker is an ideal one: first in, first out, paced like Firelane, a buffer of "
        f"{demo.fire.routes.lanes[0].link.buffer_messages} messages.",
    ]


def _ages(demo: Demo, name: str) -> str:
    plain, ours = (_time(one.kind(name).age_mean_s) for one in (demo.plain, demo.firelane))
    return f"{name} {plain} and {ours}"


def _view(snapshot: Snapshot) -> Iterator[Any]:
    fire, now = snapshot.fire, snapshot.moment_s
    floors = f"floor {fire.burning} burns" + (f", floor {fire.second} too" if fire.spread(now) else "")
    head = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=fire.seconds, completed=now, width=BAR_WIDTH)
    head.add_row(Text(fire.phase_at(now).name, style="bold"), bar, f"{now:.0f} of {fire.seconds:.0f} s", floors)
    yield head
    yield ""
    table = _table(f"The last seconds; Firelane's plan is number {snapshot.plan['version']}", classes=True)
    classes = [*_classes(snapshot.plan), ""]
    for name, plain, ours, klass in zip((*KINDS, ALL), snapshot.plain, snapshot.firelane, classes, strict=True):
        if name == ALL:
            table.add_section()
        table.add_row(name, *_cells(plain), *_cells(ours), klass)
    yield table


def _line(snapshot: Snapshot) -> str:
    place = KINDS.index(ALARMS)
    parts = [
        f"{name}: value {_percent(rows[-1].value)}, alarms {_time(rows[place].delay_s)} late and "
        f"{_time(rows[place].age_s)} old"
        for name, rows in (("plain", snapshot.plain), ("Firelane", snapshot.firelane))
    ]
    phase = snapshot.fire.phase_at(snapshot.moment_s).name
    return f"{snapshot.moment_s:5.1f} s, {phase}. {'; '.join(parts)} (plan {snapshot.plan['version']})"


def _classes(plan: dict[str, Any]) -> list[str]:
    """The classes that a plan gives each kind of data."""
    priority = {flow["id"]: flow["priority"] for flow in plan["flows"]}
    found: dict[str, set[int]] = {name: set() for name in KINDS}
    for one in plan["subscriptions"]:
        found[kind_of(one["subscriber"], one["filter"])].add(priority[one["flow"]])
    return [_range(found[name]) for name in KINDS]


def _range(classes: set[int]) -> str:
    if not classes:
        return "-"
    low, high = min(classes), max(classes)
    return str(low) if low == high else f"{low}-{high}"


def _table(title: str, *, classes: bool = False) -> Table:
    table = Table(title=title, title_justify="left", title_style="", box=SIMPLE_HEAD, show_edge=False, pad_edge=False,
                  collapse_padding=True)  # fmt: skip
    table.add_column("", no_wrap=True)
    for name, style in (("plain", "red"), ("Firelane", "green")):
        for what in ("value", "delay", "age", "drops"):
            heading = f"{name if what == 'delay' else ''}\n{what}"
            table.add_column(heading, justify="right", no_wrap=True, style=style, header_style=style)
    if classes:
        table.add_column("\nclass", justify="right", no_wrap=True, style="green", header_style="green")
    return table


def _cells(row: Row) -> tuple[str, ...]:
    return _percent(row.value), _time(row.delay_s), _time(row.age_s), str(row.dropped)


def _total(one: Outcome) -> tuple[str, ...]:
    return _percent(one.utility_rate), "", "", str(sum(one.dropped.values()))


def _percent(share: float | None) -> str:
    return "-" if share is None or math.isnan(share) else f"{100 * share:.0f} %"


def _time(seconds: float | None) -> str:
    """Two digits: 8.9 ms, 420 ms, 1.7 s."""
    return "-" if seconds is None or math.isnan(seconds) else si(float(f"{seconds:.2g}"), "s")
