"""An overlay as people see it: who is there, who leads, which topics go where; and what the leader would move."""

from __future__ import annotations

from typing import Any

from firelane.overlay.interest import Interest, edge_of
from firelane.overlay.leader_events import Elected, LoadsReported, Router, RoutersChanged, TopicsChanged
from firelane.overlay.leading import Leader, Leading
from firelane.overlay.owner import owner
from firelane.overlay.registry import Status
from firelane.overlay.router import loads_of, topic_of
from firelane.scenario.plan import Plan

MOST_TOPICS = 1000  # shown


def state_of(status: Status) -> dict[str, Any]:
    """As plain data."""
    routers = set(status.routers)
    interest = _interest(status)
    known = {name: topic_of(name, one, interest) for name, one in status.topics.items()}
    crossing = {name: one for name, one in known.items() if one.crosses}
    return {
        "registry": status.registry,
        "leader": status.leader,
        "epoch": status.epoch,
        "routers": {
            name: {"locator": one.locator, "messages_hz": one.load.messages_hz, "bytes_hz": one.load.bytes_hz}
            for name, one in sorted(status.routers.items())
        },
        "edges": {
            name: {
                "here": one.here,
                "locator": one.locator,
                "filters": len(one.filters),
                "deadlines": sum(wanted.deadline_s is not None for wanted in one.filters.values()),
            }
            for name, one in sorted(status.edges.items())
        },
        "topic_count": len(status.topics),
        "topics": {
            name: {
                "publishers": sorted(one.publishers),
                "subscribers": sorted(one.subscribers),
                "rate_hz": status.topics[name].rate_hz,
                "router": owner(name, one.assignment, routers),
                "direct": list(interest.direct(name)),
                "epoch": 0 if one.assignment is None else one.assignment.epoch,
            }
            for name, one in sorted(crossing.items())[:MOST_TOPICS]
        },
        "problems": list(status.problems),
    }


def dry_run(status: Status, leading: Leading) -> Plan:
    """What a leader with this strategy would move at its next step."""
    leader, interest = Leader(leading), _interest(status)
    leader.handle(
        RoutersChanged(
            now_s=0.0,
            routers={
                name: Router(boot=f"{one.boot:x}", load=one.load.messages_hz) for name, one in status.routers.items()
            },
        )
    )
    leader.handle(
        TopicsChanged(now_s=0.0, topics={name: topic_of(name, one, interest) for name, one in status.topics.items()})
    )
    leader.handle(LoadsReported(now_s=0.0, loads=loads_of(status.topics)))
    leader.handle(Elected(now_s=0.0, epoch=max(1, status.epoch)))
    return leader.plan()


def _interest(status: Status) -> Interest:
    interest = Interest()
    for name, known in status.edges.items():
        interest.change(name, edge_of(known))
    return interest


def shown(status: Status) -> list[str]:
    """In lines, for a terminal."""
    state = state_of(status)
    lines = [f"{status.registry}: leader {status.leader or 'none at present'}, epoch {status.epoch}", ""]
    for name, one in state["routers"].items():
        homes = sum(topic["router"] == name for topic in state["topics"].values())
        lines.append(f"  router {name:16} {one['locator']:24} {homes:5} topics {one['messages_hz']:10.1f} messages/s")
    for name, one in state["edges"].items():
        there = "here" if one["here"] else "away"
        hurried = f", {one['deadlines']} with a deadline" if one["deadlines"] else ""
        lines.append(f"  edge   {name:16} {one['locator'] or '':24} {one['filters']:5} filters {there:>8}{hurried}")
    lines += ["", f"  {len(state['topics'])} of {state['topic_count']} topics cross sites"]
    lines += [
        f"  {name:40.40} {', '.join(one['publishers'])} -> {one['router']} -> {', '.join(one['subscribers'])}"
        + (f", and directly to {', '.join(one['direct'])}" if one["direct"] else "")
        for name, one in list(state["topics"].items())[:25]
    ]
    return lines + [f"  problem: {one}" for one in state["problems"]]
