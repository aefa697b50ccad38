"""What people see of a replay: the result in two lines, and the sensors that were sent most."""

from __future__ import annotations

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from firelane.errors import printable
from firelane.sense.replay import Replay

MOST_SENSORS = 12


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
