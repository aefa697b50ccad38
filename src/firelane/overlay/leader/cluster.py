"""What a strategy sees, topics and routers as numbered arrays, and what it answers with: who goes where, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.balance.greedy import NOWHERE

EMPTIEST = "each to the router with the least load, the largest first"
FEWEST_NAMED = 3  # routers that are named in a line; of more, their number is told


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster:
    """The living routers and the topics, both by name, at one step.

    Topics that are not `there` need no router now; they are known as they had a load lately.
    """

    topics: tuple[str, ...]
    routers: tuple[str, ...]
    capacity: Floats  # per router, in proportion to each other
    there: Flags  # per topic
    place: Ints  # per topic its router; NOWHERE if it has none that lives
    orphaned: Mapping[int, str]  # topics whose router is gone, and that router
    past: Floats  # steps x topics, without the present step; 0 where a topic was not there
    now: Floats  # per topic; more than 0 where it is there
    idle: bool  # loads are measured, and all of them are 0

    def standing(self, load: Floats) -> Floats:
        """What to add to each router so that all are alike when each carries what its capacity is worth of the load.

        It makes a problem of unequal routers one of equal ones that carry something anyway.
        """
        missing = self.capacity.max() - self.capacity
        return np.asarray(missing * load.sum() / self.capacity.sum())

    def carried(self, place: Ints, load: Floats) -> Floats:
        """What each router carries of the topics that are there."""
        held = self.there & (place != NOWHERE)
        return sum_by(place[held], load[held], len(self.routers))

    def difference(self, place: Ints, load: Floats) -> float:
        """The fullest router's load minus the emptiest's, as if all had the capacity of the largest."""
        total = self.carried(place, load) + self.standing(np.where(self.there, load, 0.0))
        return float(total.max() - total.min())


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Where topics go that have no router yet, that have lost theirs, and that are moved on purpose."""

    new: dict[str, str]
    orphans: dict[str, str]
    moves: dict[str, str]
    why: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)  # the routers that orphans and moved topics had

    @property
    def homes(self) -> dict[str, str]:
        """All of them."""
        return {**self.new, **self.orphans, **self.moves}


def decision(cluster: Cluster, place: Ints, *, rule: str, reason: str) -> Decision:
    """The decision that a new placement amounts to; `rule` says where new topics go, `reason` why others move."""
    new: dict[str, str] = {}
    orphans: dict[str, str] = {}
    moves: dict[str, str] = {}
    left: dict[str, str] = {}
    for i in np.flatnonzero(cluster.there & (place != cluster.place) & (place != NOWHERE)).tolist():
        kind = moves if cluster.place[i] != NOWHERE else orphans if i in cluster.orphaned else new
        kind[cluster.topics[i]] = cluster.routers[place[i]]
        if kind is not new:
            left[cluster.topics[i]] = cluster.orphaned[i] if kind is orphans else cluster.routers[cluster.place[i]]
    why = [f"{_count(len(new), 'new topic')}: {rule}"] if new else []
    lost = Counter(router for i, router in cluster.orphaned.items() if cluster.topics[i] in orphans)
    for router, count in sorted(lost.items()):
        went = {orphans[cluster.topics[i]] for i, name in cluster.orphaned.items() if name == router and place[i] >= 0}
        why.append(f"{router} is gone: its {_count(count, 'topic')} to {_named(went)}")
    if moves:
        why.append(f"{_count(len(moves), 'move')}: {reason}")
    return Decision(new=new, orphans=orphans, moves=moves, why=tuple(why), left=left)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _named(routers: set[str]) -> str:
    names = sorted(routers)
    return ", ".join(names) if len(names) <= FEWEST_NAMED else f"{len(names)} others"
