"""The chapters of the report: a figure of the paper each, its numbers, and what they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from firelane.reproduce.pubsubcoord.deadlines import MULTI, TABLE_1
from firelane.reproduce.pubsubcoord.figures import ways
from firelane.reproduce.pubsubcoord.foreseen import PERIOD_STEPS
from firelane.reproduce.wording import paragraphs, percent, seconds, table

Results = dict[str, Any]


def locality_chapter(points: list[Results]) -> str:
    """Figure 6."""
    rows = [
        [
            str(one["topics"]),
            percent(one["locality"]),
            seconds(one["expected_s"]),
            *(seconds(one["latency_s"][name]) for name in ("mean", "p99", "max")),
            f"{one['through_routers_hz']:,.0f}",
            percent(one["edge_load"]),
            str(one["lost"]),
        ]
        for one in points
    ]
    columns = [
        "topics",
        "locality",
        "links alone",
        "mean",
        "99 %",
        "largest",
        "routers' messages/s",
        "an edge's core",
        "lost",
    ]
    return paragraphs(
        "## Figure 6: data locality",
        table(columns, rows),
        "A message that stays takes two LAN links, one that leaves two of the WAN too; the rest is what brokers add. "
        "Routers' messages include acknowledgements between edges. What stays local never reaches a router.",
        "![Figure 6](figure-6.png)",
    )


def scale_chapter(more: list[Results], routers: Results) -> str:
    """Figures 7a, 7b, 7d and 7e."""
    topics = [
        [
            str(one["topics"]),
            *(seconds(one["latency_s"][name]) for name in ("mean", "p99", "max")),
            percent(one["edge_load"]),
        ]
        for one in more
    ]
    counts = [
        [
            str(one["routers"]),
            *(seconds(one["latency_s"][name]) for name in ("mean", "p99", "max")),
            ", ".join(percent(share) for share in one["router_loads"]),
            ", ".join(f"{one['passed'][name]:,}" for name in sorted(one["passed"])),
            str(one["lost"]),
        ]
        for one in routers["points"]
    ]
    return paragraphs(
        "## Figures 7a, 7b, 7d, 7e: more topics, more routers",
        table(["topics of a network", "mean", "99 %", "largest", "an edge's core"], topics),
        f"The same with more routers, each with {percent(routers['cores'])} of a core:",
        table(["routers", "mean", "99 %", "largest", "of its share", "messages", "lost"], counts),
        "Routers share the messages, so what these cost falls as 1/N. The rest of what a router does stays (it answers "
        "edges, and one of them leads). So how busy they are falls on a curve that flattens, not on a line.",
        "![Figure 7](figure-7.png)",
    )


def coordination_chapter(points: list[Results]) -> str:
    """Figures 7c and 7f."""
    rows = [
        [
            f"{one['joining']:,}",
            seconds(one["joined_s"]),
            seconds(one["zookeeper_mean_s"]),
            seconds(one["probe"]["median"]),
            seconds(one["answered"]["median"]),
            f"{seconds(one['known']['median'])}, {seconds(one['known']['p99'])}",
            f"{seconds(one['assigned']['median'])}, {seconds(one['assigned']['p99'])}",
        ]
        for one in points
    ]
    held = [
        [
            f"{one['joining']:,}",
            f"{one['leaves']:,}",
            f"{one['znodes']:,.0f}",
            f"{one['watches']:,.0f}",
            f"{one['requests']:,.0f}",
        ]
        for one in points
    ]
    columns = [
        "join",
        "all within",
        "ZooKeeper, mean",
        "asked, median",
        "SUBACK",
        "known elsewhere, median, 99 %",
        "router, median, 99 %",
    ]
    return paragraphs(
        "## Figures 7c, 7f: thousands join at once",
        table(columns, rows),
        "ZooKeeper's mean is what `mntr` says of all requests while subscribers join, asked the same seen by a broker "
        "that asks it every 20 ms. Known elsewhere is from SUBSCRIBE until another broker was told by the registry: an "
        "edge looks ten times a second at what its clients want, and tells it in few requests. Until a topic has a "
        "router, the one that hashing gives carries it.",
        _why_a_router_takes_longer(points),
        _why_a_probe_gets_faster(points),
        table(["join", "edge and topic pairs", "znodes", "watches", "requests"], held),
        "There is a leaf for each edge and topic, however many clients, and a container of subscribers for each topic. "
        "Watches are for whole parts of the tree, and one for each topic that an edge sends to others.",
    )


def _why_a_router_takes_longer(points: list[Results]) -> str:
    last_s = max(one["assigned"]["median"] for one in points)
    return (
        f"A router takes up to {seconds(last_s)} (median), though batches are of 0.1 s, as several things come one "
        "after another: the edge looks at its clients (every 0.1 s) and writes, the leader reads that, looks at what "
        "has changed (every 0.1 s), waits for the batch, and writes 500 topics at a time, looking at nothing new "
        "meanwhile; then the broker that takes the time has to read that. What each of them takes was not measured."
    )


def _why_a_probe_gets_faster(points: list[Results]) -> str:
    first, last = points[0], points[-1]
    if last["probe"]["median"] >= first["probe"]["median"]:
        return ""
    pace = [f"{one['joining'] / one['joined_s']:,.0f}" for one in (first, last)]
    return (
        f"Why a request as a broker sees it gets faster the more join ({seconds(first['probe']['median'])} with "
        f"{first['joining']:,}, {seconds(last['probe']['median'])} with {last['joining']:,}) was not found out. What "
        "is known: that broker is in the process that makes all connections and reads every change, so its own work "
        f"is in these times, and {first['joining']:,} join at {pace[0]} a second, {last['joining']:,} at {pace[1]}."
    )


def paths_chapter(points: list[Results]) -> str:
    """Figure 8 and Table 1."""
    found = ways(points)
    rows = [
        [
            f"{one['name']} ({', '.join(TABLE_1[int(one['name'].removeprefix('case ')) - 1])})",
            "two paths" if way == MULTI else "one path",
            seconds(one["expected_s"]),
            *(seconds(one["latency_s"][name]) for name in ("mean", "p99", "max")),
            *(f"{one['passed'][link] / max(1, one['samples']):,.0f}" for link in ("L1", "L2", "L3")),
            str(one["lost"]),
        ]
        for way, some in found.items()
        for one in some
    ]
    single = [
        [
            seconds(one["first"]["delay_s"]),
            percent(one["first"]["loss"]),
            *(seconds(one["latency_s"][name]) for name in ("mean", "p99", "max")),
        ]
        for one in points
        if one["name"] == "8a"
    ]
    columns = [
        "case (L1, L2, L3)",
        "",
        "links alone",
        "mean",
        "99 %",
        "largest",
        "L1, bytes",
        "L2, bytes",
        "L3, bytes",
        "lost",
    ]
    return paragraphs(
        "## Figure 8, Table 1: one path or two",
        "A link of kind A takes 30 ms, one of kind B 250 ms and loses 1 %. L1 is the direct link between the edges, L2 "
        "and L3 lead to the router and from it: the drawing is not in the paper's text, but only so have just cases 1 "
        "to 5 a path without a bad link, and these are the ones that it finds better.",
        table(columns, rows),
        "Links alone: if nothing is lost. Bytes are those of TCP's payload on the link for each message, both ways, "
        "with acknowledgements between edges and pings; the paper counted packets of a tcpdump."
        + ("" if MULTI in found else " Two paths were not run."),
        _why_more_on_l2() if len(found.get(MULTI, ())) == len(TABLE_1) else "",
        "One path over two equal links (Figure 8a):",
        table(["delay of a link", "lost", "mean", "99 %", "largest"], single),
        "![Figure 8](figure-8.png)",
    )


def _why_more_on_l2() -> str:
    return (
        "Two paths raise the bytes on L2 and L3, too, as the receiving edge acknowledges both copies through the "
        "router, with a note more unless both acknowledgements fall into the same 20 ms; in cases 2, 3 and 8 the "
        "second copy comes with the first of the fifth message after it, 250 ms later. In cases 4 and 8 one path sends "
        "as much as two, as acknowledgements take a second, after which a message is sent again. That follows from the "
        "code and fits the table; notes were not counted."
    )


def balancing_chapter(runs: list[Results]) -> str:
    """A city, live."""
    rows = [
        [
            run["strategy"],
            _difference(run, "counted"),
            f"{_difference(run, 'predicted')} ({_among(run)})",
            *(_difference(run, name) for name in ("exact", "still", "hashed")),
            str(run["moves"]),
            f"{np.median(run['predicted_moves']):.0f} ({run['predicted_moves'][0]} to {run['predicted_moves'][-1]})",
            str(run["exact_moves"]),
            f"{run['as_balance_says']} of {len(run['batches'])}",
            f"{run['messages']:,}",
            f"{run['lost']}, {run['again']}, {run['disordered']}",
        ]
        for run in runs
    ]
    one = runs[0]
    columns = [
        "strategy",
        "live",
        "predicted",
        "known exactly",
        "assigned once",
        "hashed",
        "moves",
        "predicted",
        "known exactly",
        "steps as predicted",
        "messages",
        "lost, twice, disordered",
    ]
    return paragraphs(
        "## Balancing live",
        f"The city of the broker-cluster paper (`firelane.balance.cases`, from 6 o'clock, {one['minutes']} minutes a "
        f"step): {one['topics']} topics published at one site with {one['mean_router_hz'] * one['routers']:,.0f} "
        f"messages a second, wanted at another, through {one['routers']} routers. A step lasts {one['hold_s']:g} s, in "
        f"which the leader decides every {one['step_s']:g} s. Load differences are in % of what a router carries on "
        "average.",
        table(columns, rows),
        "Live is what routers counted in the second half of each step. Predicted is what `firelane balance` makes, "
        "from the same start and at the leader's steps, of what a leader will know of the loads: edges measure over "
        "some ten seconds, and tell what has changed by a twentieth. When they look and when the leader decides cannot "
        f"be known beforehand; so there are {len(one['predicted_moves'])} predictions, for other moments each. This is "
        "their mean, of moves the median, and in brackets the least and the most. Known exactly is the same had the "
        "leader known all loads at once: what is between the two is the price of measuring, in a city that is played "
        f"{one['minutes'] * 60 / one['hold_s']:.0f} times as fast as it lives.",
        "Steps as predicted are those that moved something, and just what `firelane balance` says of the loads in the "
        "registry at that moment, or over the period before: the same topics to the same routers. `long-term` places "
        f"anew after {PERIOD_STEPS} steps of the leader; until then topics stay where they were put when they came, so "
        "until then live, predicted, known exactly and assigned once are one line in the picture. Small differences in "
        "what is known then make another placement, and what that is worth later is chance: hence its range.",
        "![Balancing](balancing.png)",
    )


def _difference(run: Results, name: str) -> str:
    return percent(float(np.mean(run[f"{name}_difference_hz"])) / run["mean_router_hz"], decimals=1)


def _among(run: Results) -> str:
    shares = [one / run["mean_router_hz"] for one in run["predicted_means_hz"]]
    return f"{100 * shares[0]:.1f} to {percent(shares[-1], decimals=1)}"
