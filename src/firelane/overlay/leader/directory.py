"""What a leader knows: the routers that live, the topics with their edges, loads and homes, and what is on its way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from firelane.balance.greedy import NOWHERE
from firelane.overlay.leader.cluster import Cluster
from firelane.overlay.leader.events import Router, Topic
from firelane.overlay.leader.lately import Lately

MOST_LOAD = 1e15
NEXT_TO_NOTHING = 1e-6  # of a typical topic: what one without traffic weighs


@dataclass(slots=True, kw_only=True)
class _Sent:
    """Assignments of a topic on their way to the registry: to which routers, and the newest epoch read so far."""

    epoch: int
    routers: set[str] = field(default_factory=set)


class Directory:
    """Topics beyond the most are not taken, and counted; hashing says who carries them."""

    def __init__(self, most_topics: int) -> None:
        self.routers: dict[str, Router] = {}
        self.homeless: set[str] = set()  # topics that cross and have no living router
        self._topics: dict[str, Topic] = {}
        self._crossing: set[str] = set()
        self._home: dict[str, str] = {}  # as assigned by us or as read, whichever is newer
        self._pending: dict[str, _Sent] = {}  # what we have assigned and not yet read
        self._load: dict[str, float] = {}
        self._most = most_topics
        self._refused_loads = self._not_taken = self._not_written = 0

    def statistics(self) -> dict[str, int]:
        """How much there is, and what was refused."""
        return {
            "routers": len(self.routers),
            "topics": len(self._topics),
            "crossing": len(self._crossing),
            "pending": len(self._pending),
            "refused_loads": self._refused_loads,
            "topics_not_taken": self._not_taken,
            "not_written": self._not_written,
        }

    def routers_changed(self, routers: Mapping[str, Router]) -> None:
        """These live, and no others."""
        self.routers = dict(routers)
        self.homeless = {topic for topic in self._crossing if self._home.get(topic) not in self.routers}

    def topics_changed(self, topics: Mapping[str, Topic | None]) -> None:
        """Some topics have come, changed or gone."""
        for name, topic in topics.items():
            if topic is None:
                self._forget(name)
            elif name in self._topics or len(self._topics) < self._most:
                self._topics[name] = topic
                self._read_home(name, topic)
                self._sort_in(name)
            else:
                self._not_taken += 1

    def loads_reported(self, loads: Mapping[str, float | None]) -> None:
        """Loads of topics that are there; what is no load, or of no topic, is refused and counted."""
        for name, load in loads.items():
            if load is None:
                self._load.pop(name, None)
            elif name in self._topics and 0 <= load <= MOST_LOAD:  # NaN is neither
                self._load[name] = load
            else:
                self._refused_loads += 1

    def assigned(self, homes: Mapping[str, str]) -> None:
        """We have given topics these routers; that is on its way to the registry."""
        for name, router in homes.items():
            assignment = self._topics[name].assignment
            sent = self._pending.setdefault(name, _Sent(epoch=-1 if assignment is None else assignment.epoch))
            sent.routers.add(router)
            self._home[name] = router
            self._sort_in(name)

    def not_assigned(self, topics: frozenset[str]) -> None:
        """That did not arrive: what the registry says holds."""
        for name in topics & self._pending.keys():
            self._not_written += 1
            self._take_back(name)

    def forget_pending(self) -> None:
        """Whatever was on its way, what the registry says holds."""
        for name in list(self._pending):
            self._take_back(name)

    def cluster(self, lately: Lately) -> Cluster:
        """Topics and routers as a strategy sees them, each in the order of their names."""
        names = tuple(sorted(self._crossing | lately.topics))
        routers = tuple(sorted(self.routers))
        number = {name: j for j, name in enumerate(routers)}
        home = [self._home.get(name) for name in names]
        there = np.array([name in self._crossing for name in names], np.bool_)
        known = [load for name in self._crossing if (load := self._load.get(name)) is not None]
        return Cluster(
            topics=names,
            routers=routers,
            capacity=np.array([self.routers[name].capacity for name in routers], np.float64),
            there=there,
            place=np.array([number.get(one or "", NOWHERE) for one in home], np.int64),
            orphaned={i: one for i, one in enumerate(home) if one is not None and one not in number and there[i]},
            past=lately.of(names),
            now=np.where(there, self._weights(names, known), 0.0),
            idle=bool(known) and not any(known),
        )

    def _weights(self, names: tuple[str, ...], known: list[float]) -> list[float]:
        """The load of each topic; one nobody has measured counts as typical, one without traffic as next to nothing."""
        some = [load for load in known if load > 0]
        typical = math.fsum(some) / len(some) if some else 1.0
        least = NEXT_TO_NOTHING * typical
        return [self._load.get(name, typical) or least for name in names]

    def _read_home(self, name: str, topic: Topic) -> None:
        """The registry's word holds, unless it is older than what we have sent there."""
        assignment = topic.assignment
        sent = self._pending.get(name)
        if sent is not None:
            if assignment is None or assignment.epoch <= sent.epoch:
                return
            if assignment.router in sent.routers and assignment.router != self._home[name]:
                sent.epoch = assignment.epoch  # an earlier one of ours: the last is still to come
                return
            del self._pending[name]
        if assignment is None or assignment.router is None:
            self._home.pop(name, None)
        else:
            self._home[name] = assignment.router

    def _take_back(self, name: str) -> None:
        del self._pending[name]
        self._read_home(name, self._topics[name])
        self._sort_in(name)

    def _sort_in(self, name: str) -> None:
        crosses = self._topics[name].crosses
        (self._crossing.add if crosses else self._crossing.discard)(name)
        homeless = crosses and self._home.get(name) not in self.routers
        (self.homeless.add if homeless else self.homeless.discard)(name)

    def _forget(self, name: str) -> None:
        for part in (self._topics, self._home, self._pending, self._load):
            part.pop(name, None)
        self._crossing.discard(name)
        self.homeless.discard(name)
