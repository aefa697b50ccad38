"""Whose deadlines count at an edge: subscriptions with a `max_delay`, of clients that may ask for a direct path.

Implements: pubsubcoord, section 2.4.2, which leaves admission control open.
Differs:    who may ask, how short a deadline may be and how many filters may have one are settings of the receiving
            edge; of more filters than that, those that weigh most have one.
Symbols:    deadline QoS -> max_delay.
Checked by: tests/overlay/test_deadlines.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

from firelane.exchange.clients.access import Access, Identity, Verdict
from firelane.exchange.clients.session import Session
from firelane.exchange.protocol.connecting import DDS, is_served
from firelane.mqtt.tree import FilterTree
from firelane.overlay.registry import Wish
from firelane.scenario.need import Need
from firelane.scenario.settings import AccessRule, ExchangeSettings

MOST_REMEMBERED = 50_000  # topics
MOST_IDENTITIES = 1000


class Admission:
    """Who may ask for direct paths to this edge, and which edges may send on them (`exchange.overlay.direct`)."""

    def __init__(self, settings: ExchangeSettings) -> None:
        self._direct = settings.overlay.direct
        self._edges = _only(settings, self._direct.senders)
        self._clients = _only(settings, self._direct.clients)
        self._asks = lru_cache(MOST_IDENTITIES)(lambda one: _is_among(self._clients, replace(one, inside=False)))
        self._sends = lru_cache(MOST_IDENTITIES)(lambda one: _is_among(self._edges, one))

    def sends(self, identity: Identity) -> bool:
        """Whether this is an edge that may send to this one directly."""
        return self._sends(identity)

    def deadline_s(self, identity: Identity, max_delay_s: float | None) -> float | None:
        """The deadline that a client's subscription has; None if it has none, or none that counts."""
        if max_delay_s is None or not self._asks(identity):
            return None
        return max(max_delay_s, self._direct.least_s)

    @property
    def open(self) -> bool:
        """Whether any edge may send to this one directly; without, nobody has a deadline."""
        return self._edges is not None

    @property
    def most_filters(self) -> int:
        """How many filters may have a deadline."""
        return self._direct.filters


@dataclass(slots=True)
class _Asked:
    """What was asked for on one filter."""

    shortest_s: float = inf
    longest_s: float = 0.0  # of QoS 1 and 2; infinite if one of them has no deadline
    weight: float = 0.0
    count: int = 0  # of subscriptions with a deadline


class Deadlines:
    """Those of one edge's clients, by filter, as `update` last saw them."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._by_filter: dict[str, _Asked] = {}
        self._tree: FilterTree[str] = FilterTree()
        self._remembered: dict[str, float | None] = {}
        self.refused = 0  # subscriptions with a max_delay that count as if they had none, now

    def __len__(self) -> int:
        """How many filters have one."""
        return sum(one.shortest_s < inf for one in self._by_filter.values())

    def update(self, sessions: Iterable[Session]) -> None:
        """Look at all subscriptions anew."""
        found: dict[str, _Asked] = {}
        self.refused = 0
        for session in sessions if self._admission.open else ():
            if is_served(session.client_id):
                for one in session.subscriptions.values():
                    self._add(found.setdefault(one.topics, _Asked()), session.identity, one.qos, one.lane.need)
        hurried = [(-asked.weight, topics) for topics, asked in found.items() if asked.shortest_s < inf]
        for _, topics in sorted(hurried)[self._admission.most_filters :]:
            self.refused += found[topics].count
            found[topics] = _Asked(longest_s=inf)
        self._by_filter, self._tree = found if hurried else {}, FilterTree()
        for topics in self._by_filter:
            self._tree.add(topics, topics)
        self._remembered.clear()

    def _add(self, asked: _Asked, identity: Identity, qos: int, need: Need) -> None:
        deadline_s = self._admission.deadline_s(identity, need.max_delay_s)
        if deadline_s is not None:
            asked.shortest_s = min(asked.shortest_s, deadline_s)
            asked.weight = max(asked.weight, need.weight)
            asked.count += 1
        elif need.max_delay_s is not None:
            self.refused += 1
        if qos:  # who wants every message, however late, must not miss one for another's sake; nor a reliable reader
            waits_s = inf if deadline_s is None or identity.client_id == DDS else deadline_s
            asked.longest_s = max(asked.longest_s, waits_s)

    def joined(self, wishes: Mapping[str, Wish]) -> dict[str, Wish]:
        """What clients want, with their deadlines."""
        if not self._by_filter:
            return dict(wishes)
        return {
            one: wish if (deadline_s := self._of(one)) is None else replace(wish, deadline_s=deadline_s)
            for one, wish in wishes.items()
        }

    def _of(self, topic_filter: str) -> float | None:
        asked = self._by_filter.get(topic_filter)
        return None if asked is None or asked.shortest_s == inf else asked.shortest_s

    def patience_s(self, topic: str) -> float | None:
        """How long a gap may be waited for: the longest deadline of those who want it with QoS 1 or 2, without end
        if one of them has none. None if nobody has a deadline."""
        if not self._by_filter:
            return None
        if topic not in self._remembered:
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.clear()
            asked = [self._by_filter[one] for one in self._tree.matching(topic)]
            shortest_s = min((one.shortest_s for one in asked), default=inf)
            longest_s = max((one.longest_s for one in asked), default=0.0)
            self._remembered[topic] = None if shortest_s == inf else longest_s or shortest_s
        return self._remembered[topic]


def _only(settings: ExchangeSettings, names: tuple[str, ...]) -> Access | None:
    """Access rules that fit exactly these users, roles or client ids; None if there are none."""
    rules = tuple(AccessRule(who=name, filter="#", allow=("subscribe",)) for name in names)
    return Access(replace(settings, access=rules)) if rules else None


def _is_among(some: Access | None, identity: Identity) -> bool:
    return some is not None and some.may_subscribe(identity, "#") is Verdict.ALL
