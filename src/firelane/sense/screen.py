"""What people see of replays and of live streams: results in a line or two, and tables of sensors."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from firelane.errors import printable
from firelane.sense.replaying import Replay
from firelane.sense.subscriber import FollowedStream, SensorSubscriber

MOST_SENSORS = 12
MOST_STREAMS = 20


def show_replay(replay: Replay, console: Console) -> None:
    """Readings, updates, errors; then a row per sensor, those with the most updates first."""
    data, trace = replay.to_data(), replay.trace
    seconds = trace.times_s[-1] - trace.times_s[0]
    console.print(
        f"{data['sent']:,} of {data['readings']:,} readings sent, {data['suppressed']:.1%} suppressed "
        f"({replay.model}, delta {replay.delta:g}; {len(trace.names)} sensors, {seconds:g} s)",
        soft_wrap=True,
    )
    console.print(
        f"a subscriber is off by {data['rmse']:.3g} (root mean square), and never by {replay.delta:g} or more\n",
        soft_wrap=True,
    )
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("sensor")
    for heading in ("sent", "suppressed", "lowest", "highest"):
        table.add_column(heading, justify="right")
    sent = replay.sent_of
    for place in np.argsort(-sent, kind="stable")[:MOST_SENSORS]:
        values = trace.values[:, place]
        share = 1 - sent[place] / len(values)
        name = printable(trace.names[place])
        table.add_row(name, f"{sent[place]:,}", f"{share:.1%}", f"{values.min():.4g}", f"{values.max():.4g}")
    console.print(table)
    if len(sent) > MOST_SENSORS:
        console.print(f"and {len(sent) - MOST_SENSORS} sensors that were sent less")


class StreamsScreen:
    """Shows streams that are followed: live on a terminal, and how they were in the end."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._last: Table | None = None

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._live.__exit__(*problem)
        if self._last is not None and not self._quiet:
            self._console.print(self._last)

    def show(self, sensors: SensorSubscriber, now: float) -> None:
        """How they are now."""
        if not self._quiet:
            self._last = streams_table(sensors, now, most_topic=max(20, self._console.width // 3))
            if self._console.is_terminal:
                self._live.update(self._last, refresh=True)


def streams_table(sensors: SensorSubscriber, now: float, *, most_topic: int = 40) -> Table:
    """A row per stream: how it is, and what its first sensors read now."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, expand=True)
    for heading in ("stream", "sensors", "within", "updates", "missed", "state"):
        table.add_column(heading, justify="left" if heading in ("stream", "state") else "right", no_wrap=True)
    table.add_column("now", no_wrap=True, ratio=1)
    for topic in sorted(sensors.streams)[:MOST_STREAMS]:
        stream = sensors.streams[topic]
        table.add_row(
            _shortened(printable(topic), most_topic), f"{len(stream):,}", f"{stream.delta:g}", f"{stream.updates:,}",
            f"{stream.missed:,}", _state(stream, now), _values(stream, now),
        )  # fmt: skip
    if not sensors.streams:
        table.add_row("none offered yet")
    return table


def _shortened(topic: str, most: int) -> str:
    """A topic without its middle, if it is long."""
    return topic if len(topic) <= most else f"{topic[: most // 2]}…{topic[len(topic) - (most - 1) // 2 :]}"


def _state(stream: FollowedStream, now: float) -> str:
    known = stream.read(now)
    if stream.incompatible:
        return "too coarse"
    if len(known.lost) == 0 or known.lost.all():
        return "lost" if len(known.lost) else "waiting"
    lost, missing = int(known.lost.sum()), len(stream.missing())
    if lost or missing:
        return ", ".join(f"{count} {word}" for count, word in ((lost, "lost"), (missing, "unsure")) if count)
    return "stale" if known.stale.any() else "good"


def _values(stream: FollowedStream, now: float, most: int = 4) -> str:
    known = stream.read(now)
    pairs = list(zip(stream.names, known.value.tolist(), strict=True))[:most]
    more = " ..." if len(known.value) > most else ""
    told = (
        f"{printable(name)} {value:.5g}" if math.isfinite(value) else f"{printable(name)} ?" for name, value in pairs
    )
    return "  ".join(told) + more
