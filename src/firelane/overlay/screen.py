"""An overlay on a terminal: brokers, the topics that cross sites, and what was moved last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from firelane.errors import printable
from firelane.overlay.registry import Status
from firelane.overlay.registry.last_moves import Batch
from firelane.overlay.showing import MOST_TOPICS, Shown

FEW_TOPICS, FEW_BATCHES, FEW_MOVES = 25, 5, 3  # in lines
BROKER_WIDTH, LEAST_WIDTH = 32, 16  # of names
AGES = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def screen(status: Status, *, now_s: float, width: int) -> list[str]:
    """In lines of about this width, at a time since 1970."""
    if not any((status.routers, status.edges, status.topics, status.epoch, status.moves, status.problems)):
        root = status.registry.partition("://")[2].partition("/")[2]
        return [f"{status.registry}: nothing is registered under /{root}"]
    known = Shown(status)
    lines = [f"{status.registry}: leader {status.leader or 'none at present'}, epoch {status.epoch}", ""]
    lines += _brokers(status, known)
    lines += ["", f"  {len(known.crossing)} of {len(status.topics)} topics cross sites"]
    lines += _topics(known, width)
    lines += _moved(status.moves, now_s, width)
    return lines + [f"  problem: {printable(one)}" for one in status.problems]


def _brokers(status: Status, known: Shown) -> Iterator[str]:
    names = [*status.routers, *status.edges]
    wide = min(BROKER_WIDTH, max([LEAST_WIDTH, *map(len, names)]))
    homes = Counter(map(known.router, known.crossing))
    for name, router in known.routers().items():
        leads = ", leads" if name == status.leader else ""
        where, topics = router["locator"], homes[name]
        rate = f"{topics:5} topics {router['messages_hz']:10.1f} packets in/s"
        yield f"  router {shortened(name, wide):{wide}} {where:24} {rate}{leads}"
    for name, edge in known.edges().items():
        there = "here" if edge["here"] else "away"
        hurried = f", {edge['deadlines']} with a deadline" if edge["deadlines"] else ""
        filters = f"{edge['filters']:5} filters {there:>8}{hurried}"
        yield f"  edge   {shortened(name, wide):{wide}} {edge['locator'] or '':24} {filters}"


def _topics(known: Shown, width: int) -> Iterator[str]:
    shown = [(name, _way(known.topic(name))) for name in list(known.crossing)[:FEW_TOPICS]]
    longest = max([len(printable(name)) for name, _ in shown], default=0)
    wide = min(longest, max(LEAST_WIDTH, width - 3 - max([len(way) for _, way in shown], default=0)))
    for name, way in shown:
        yield f"  {shortened(name, wide):{wide}} {way}"
    count = len(known.crossing)
    if count > FEW_TOPICS:
        all_of_them = "them all" if count <= MOST_TOPICS else f"the first {MOST_TOPICS}"
        yield f"  and {count - FEW_TOPICS} more (--json shows {all_of_them})"


def _way(topic: dict[str, Any]) -> str:
    """From edges by a router to edges."""
    way = f"{', '.join(topic['publishers'])} -> {topic['router']} -> {', '.join(topic['subscribers'])}"
    return way + (f", and directly to {', '.join(topic['direct'])}" if topic["direct"] else "")


def _moved(batches: Sequence[Batch], now_s: float, width: int) -> Iterator[str]:
    """The newest first."""
    if batches:
        yield from ("", "  last moves")
    for one in batches[: -FEW_BATCHES - 1 : -1]:
        yield f"  {ago(now_s - one.at_s)}, by {one.leader}: {printable('; '.join(one.why))}"
        moves = one.moves[:FEW_MOVES]
        for move in moves:
            way = f"{move.left} -> {move.to}"
            yield f"    {shortened(move.topic, max(LEAST_WIDTH, width - len(way) - 5))} {way}"
        if one.topics > len(moves):
            yield f"    and {one.topics - len(moves)} more"


def shortened(name: str, width: int) -> str:
    """A name of at most this width: beginnings are often alike, and ends tell names apart."""
    name = printable(name)
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def ago(age_s: float) -> str:
    """How long ago something was, in its largest unit; clocks of others may be ahead."""
    for unit_s, unit in AGES:
        if age_s >= unit_s:
            count = int(age_s / unit_s)
            return f"{count} {unit}{'s' * (count != 1)} ago"
    return "just now"
