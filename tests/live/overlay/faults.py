"""What can fail, and what it does to traffic while it does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from firelane.overlay.messages.sending import SETTLED_S
from live.overlay.cluster import Cluster, until
from live.overlay.history import History, Publisher, Silence, Subscriber

SILENT_S = 2.1  # until a router that hangs is taken for dead: two seconds without a word
TOPICS = {
    "a": {"a/plain/1": 1, "a/plain/2": 1, "a/once/1": 2, "a/once/2": 2, "a/perhaps": 0},
    "b": {"b/plain": 1, "b/once": 2},
}
FILTERS = {"ann": ("a", "b/#"), "ben": ("b", "a/#"), "cleo": ("c", "#")}
RATE_HZ = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """How it begins and ends; until others can notice it; the site that is away until it ends."""

    begin: Callable[[], None]
    end: Callable[[], None]
    noticed_s: float = 0.0
    site: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """How long a topic was silent from when the fault could be noticed (or the site was back), others meanwhile, and
    after how long all that was published before had arrived."""

    name: str
    silent: Silence
    others: Silence
    caught_up_s: float

    def __str__(self):
        return f"{self.name}: {self.silent}, others {self.others.length_s:.2f} s, all there {self.caught_up_s:.1f} s"


def _kill(one, site=None):
    return Fault(begin=one.kill, end=one.start, site=site)


def _pause(one, noticed_s=0.0, site=None):
    return Fault(begin=one.pause, end=one.resume, noticed_s=noticed_s, site=site)


def _cut(whole, name):
    return Fault(begin=lambda: whole.network.cut(name), end=lambda: whole.network.mend(name), site=name)


def _lose_zookeeper(whole):
    def begin():
        for server in whole.servers:
            server.kill()

    def end():
        for server in whole.servers:
            server.launch()
        for server in whole.servers:
            server.wait()

    return Fault(begin=begin, end=end)


FAULTS: dict[str, Callable[[Cluster, Random], Fault]] = {
    "kill a router": lambda whole, chance: _kill(chance.choice(whole.routers)),
    "pause a router": lambda whole, chance: _pause(chance.choice(whole.routers), SILENT_S),
    "kill the leader": lambda whole, chance: _kill(whole.leader),
    "pause the leader": lambda whole, chance: _pause(whole.leader, SILENT_S),
    "kill an edge": lambda whole, chance: _kill(edge := chance.choice(whole.edges), edge.name),
    "pause an edge": lambda whole, chance: _pause(edge := chance.choice(whole.edges), site=edge.name),
    "kill a ZooKeeper server": lambda whole, chance: _kill(chance.choice(whole.servers)),
    "pause a ZooKeeper server": lambda whole, chance: _pause(chance.choice(whole.servers)),
    "cut off a site": lambda whole, chance: _cut(whole, chance.choice(whole.edges).name),
    "lose ZooKeeper": lambda whole, chance: _lose_zookeeper(whole),
}


class Load:
    """Clients at all sites that publish and subscribe."""

    def __init__(self, whole: Cluster) -> None:
        self.whole, self.history = whole, History()
        self._strikes: list[tuple[str, Fault, float, float, float]] = []
        self.subscribers = [
            Subscriber(self.history, name, whole[edge], topic_filter) for name, (edge, topic_filter) in FILTERS.items()
        ]
        until(lambda: all(whole.wanted(topic_filter, edge) for edge, topic_filter in FILTERS.values()))
        self.publishers = [Publisher(self.history, whole[edge], some, RATE_HZ) for edge, some in TOPICS.items()]
        until(lambda: all(len(self.history.arrived[chain]) > RATE_HZ for chain in self.history.chains()))

    def strike(self, name: str, chance: Random, holds_s: float) -> None:
        """One fault at a random instant, until all is as it was before."""
        until(lambda: self.whole.leader)
        fault = FAULTS[name](self.whole, chance)
        time.sleep(chance.uniform(0.0, 1.0))
        began_s = time.monotonic()
        fault.begin()
        time.sleep(holds_s)
        fault.end()
        ended_s = time.monotonic()
        try:
            until(self.whole.joined)
            until(self.history.caught_up())
        except AssertionError as error:
            raise AssertionError(f"after fault {len(self._strikes) + 1}, {name}:\n{self.whole.said()}") from error
        self._strikes.append((name, fault, began_s, ended_s, time.monotonic() - ended_s))

    def struck(self) -> list[Struck]:
        """What each fault did, until the next one began."""
        ends_s = [began_s for _, _, began_s, _, _ in self._strikes[1:]] + [self._stopped_s]
        return [self._struck(*strike, until_s) for strike, until_s in zip(self._strikes, ends_s, strict=True)]

    def _struck(self, name, fault, began_s, ended_s, caught_up_s, until_s) -> Struck:
        since_s = began_s + fault.noticed_s if fault.site is None else ended_s
        others_since_s = since_s if fault.site is None else began_s
        return Struck(
            name=name if fault.site is None else f"{name}, {fault.site}",
            silent=self.history.silence(since_s, until_s, site=fault.site),
            others=self.history.silence(others_since_s, until_s, without=fault.site),
            caught_up_s=caught_up_s,
        )

    def stop(self) -> None:
        """End, and give what is under way time to arrive, also what might come twice."""
        time.sleep(SETTLED_S)  # the last fault may have effects as late as that
        self._stopped_s = time.monotonic()
        for publisher in self.publishers:
            publisher.stop()
        arrived, end_s = self.history.caught_up(), time.monotonic() + 30
        while not arrived() and time.monotonic() < end_s:
            time.sleep(0.05)
        time.sleep(0.5)
        for subscriber in self.subscribers:
            subscriber.leave()

    def acknowledged(self) -> int:
        """How many messages of QoS 1 and 2 were."""
        return sum(map(len, self.history.acknowledged.values()))

    def epochs(self) -> int:
        """How often a topic got a newer one, at any edge."""
        return sum(edge.epochs().changes() for edge in self.whole.edges)

    def problems(self) -> list[str]:
        """What was broken, at clients and at edges."""
        stale = [line for edge in self.whole.edges for line in edge.epochs().problems()]
        return self.history.problems() + stale
