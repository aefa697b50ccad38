"""An overlay as people see it: who is there, who leads, which topics go where; and what the leader would move."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from firelane.overlay.interest import Interest, edge_of
from firelane.overlay.leader.events import LoadsReported, RoutersChanged, TopicsChanged
from firelane.overlay.leader.leading import Leader, Leading
from firelane.overlay.leader.moved import moves_as_data
from firelane.overlay.owner import owner
from firelane.overlay.registry import Status
from firelane.overlay.router import loads_of, router_of, topic_of
from firelane.scenario.plan import Plan

T = TypeVar("T")

MOST_TOPICS = 1000  # shown


class Shown:
    """What a status says, as plain data; names in natural order."""

    def __init__(self, status: Status) -> None:
        self._status, self._interest = status, _interest(status)
        self._routers = set(status.routers)
        known = {name: topic_of(name, one, self._interest) for name, one in status.topics.items()}
        self.crossing = {name: one for name, one in _in_order(known) if one.crosses}

    def routers(self) -> dict[str, dict[str, Any]]:
        """All of them."""
        return {
            name: {
                "locator": one.locator,
                "capacity": one.capacity,
                "messages_hz": one.load.messages_hz,
                "bytes_hz": one.load.bytes_hz,
            }
            for name, one in _in_order(self._status.routers)
        }

    def edges(self) -> dict[str, dict[str, Any]]:
        """All of them."""
        return {
            name: {
                "here": one.here,
                "locator": one.locator,
                "filters": len(one.filters),
                "deadlines": sum(wanted.deadline_s is not None for wanted in one.filters.values()),
            }
            for name, one in _in_order(self._status.edges)
        }

    def router(self, topic: str) -> str | None:
        """Who routes a topic that crosses sites."""
        return owner(topic, self.crossing[topic].assignment, self._routers)

    def topic(self, name: str) -> dict[str, Any]:
        """One that crosses sites."""
        one = self.crossing[name]
        return {
            "publishers": sorted(one.publishers, key=natural),
            "subscribers": sorted(one.subscribers, key=natural),
            "rate_hz": self._status.topics[name].rate_hz,
            "router": self.router(name),
            "direct": list(self._interest.direct(name)),
            "epoch": 0 if one.assignment is None else one.assignment.epoch,
        }


def state_of(status: Status) -> dict[str, Any]:
    """As plain data."""
    known = Shown(status)
    return {
        "registry": status.registry,
        "leader": status.leader,
        "epoch": status.epoch,
        "routers": known.routers(),
        "edges": known.edges(),
        "topic_count": len(status.topics),
        "topics": {name: known.topic(name) for name in islice(known.crossing, MOST_TOPICS)},
        "last_moves": moves_as_data(status.moves),
        "problems": list(status.problems),
    }


def natural(name: str) -> list[str | tuple[int, str]]:
    """A key to sort names by as people do: 2 before 10."""
    return [_number(one) if turn % 2 else one for turn, one in enumerate(re.split("([0-9]+)", name))]


def _number(digits: str) -> tuple[int, str]:
    """Of any length, which Python's own numbers in text are not."""
    bare = digits.lstrip("0")
    return len(bare), bare


def _in_order(named: Mapping[str, T]) -> list[tuple[str, T]]:
    return sorted(named.items(), key=lambda item: (natural(item[0]), item[0]))


def dry_run(status: Status, leading: Leading) -> Plan:
    """What a leader with this strategy would do at its next step, if it led now.

    It is not elected: that would place new topics and those of dead routers before it is asked.
    """
    leader, interest = Leader(leading), _interest(status)
    routers = {name: router_of(one) for name, one in status.routers.items()}
    leader.handle(RoutersChanged(now_s=0.0, routers=routers))
    leader.handle(
        TopicsChanged(now_s=0.0, topics={name: topic_of(name, one, interest) for name, one in status.topics.items()})
    )
    leader.handle(LoadsReported(now_s=0.0, loads=loads_of(status.topics)))
    return replace(leader.plan(), version=max(1, status.epoch))


def _interest(status: Status) -> Interest:
    interest = Interest()
    for name, known in status.edges.items():
        interest.change(name, edge_of(known))
    return interest
