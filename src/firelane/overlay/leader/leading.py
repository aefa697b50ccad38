"""The leader among the routers: told what there is, it says which router carries which topic. No input, no output.

Implements: pubsubcoord, section 2.4 (load management, reassignment when a router fails) and 2.6.1, the leader's part.
Differs:    only topics that cross from one edge to another are assigned; new ones in short batches, those of a dead
            router at once; moves for balance have a budget a step.
Symbols:    none of the paper's.
Checked by: tests/overlay/test_leading.py, tests/overlay/test_leader_histories.py, tests/overlay/test_led_city.py
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field

from firelane.errors import FirelaneError
from firelane.overlay.leader.assignment import Strategy, Tuning, strategy
from firelane.overlay.leader.cluster import Cluster, Decision
from firelane.overlay.leader.directory import Directory
from firelane.overlay.leader.dry_run import plan_of
from firelane.overlay.leader.events import (
    Action,
    Assign,
    Deposed,
    Elected,
    Event,
    LoadsReported,
    NotAssigned,
    RoutersChanged,
    Tick,
    TopicsChanged,
    WakeAt,
)
from firelane.overlay.leader.lately import Lately
from firelane.scenario.plan import Plan

PATIENCE_S = 1e-5  # for each topic that crosses: ten times what deciding takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """How a leader goes about it."""

    strategy: str = "bounded-moves"
    tuning: Tuning = field(default_factory=Tuning)
    max_moves: int = 10  # a step, of topics whose router lives
    step_s: float = 10.0
    batch_s: float = 0.1  # how long the first of several new topics waits for others
    most_topics: int = 1_000_000  # beyond them topics stay with the router that hashing gives them

    def __post_init__(self) -> None:
        strategy(self.strategy, self.tuning)  # or it says what is wrong with the name
        for name, least in (("max_moves", 0), ("most_topics", 1)):
            if getattr(self, name) < least:
                raise FirelaneError(f"{name}: {getattr(self, name)} is too few; write e.g. 10")
        if not (0 < self.step_s < math.inf and 0 <= self.batch_s < math.inf):
            raise FirelaneError(f"step_s, batch_s: {self.step_s:g} and {self.batch_s:g} are no times; write 10 and 0.1")


class Leader:
    """Follows what there is all the time, and acts while it is elected."""

    def __init__(self, leading: Leading) -> None:
        self._leading = leading
        self._directory = Directory(leading.most_topics)
        self._epoch = 0
        self._elected = False
        self._step_at_s = self._batch_at_s = self._woken_at_s = math.inf
        self._assigned = self._moved = self._batches = self._stale_elections = 0
        self._begin()

    @property
    def elected(self) -> bool:
        """Does it lead?"""
        return self._elected

    def handle(self, event: Event) -> list[Action]:
        """What is to be done about an event; nothing while another leads."""
        assigned: Decision | None = None
        match event:
            case Elected():
                assigned = self._be_elected(event)
            case Deposed():
                self._elected = False
                self._directory.forget_pending()
                self._begin()
            case RoutersChanged():
                self._directory.routers_changed(event.routers)
                assigned = self._place()
            case TopicsChanged():
                self._directory.topics_changed(event.topics)
            case LoadsReported():
                self._directory.loads_reported(event.loads)
            case NotAssigned():
                self._directory.not_assigned(event.topics)
            case Tick():
                assigned = self._tick(event.now_s)
        return self._actions(assigned, event)

    def plan(self) -> Plan:
        """What the next step would do, and why, without doing it; also while another leads."""
        cluster = self._directory.cluster(self._lately)
        chosen = deepcopy(self._strategy).step(cluster, self._leading.max_moves) if _possible(cluster) else None
        plan = plan_of(cluster, chosen, strategy=self._leading.strategy, version=max(1, self._epoch))
        plan.promised["reported"] = {name: router.load for name, router in sorted(self._directory.routers.items())}
        return plan

    def statistics(self) -> dict[str, int]:
        """What it knows, what it has done, and what it could not use."""
        return {
            **self._directory.statistics(),
            "batches": self._batches,
            "assigned": self._assigned,
            "moves": self._moved,
            "stale_elections": self._stale_elections,
            "loads_not_remembered": self._lately.left_out,
        }

    def _begin(self) -> None:
        """A new leader has no past."""
        self._strategy: Strategy = strategy(self._leading.strategy, self._leading.tuning)
        self._lately = Lately(self._strategy.window_steps, 2 * self._leading.most_topics)
        self._step_at_s = self._batch_at_s = self._woken_at_s = math.inf

    def _be_elected(self, event: Elected) -> Decision | None:
        """Take over the assignments as they are; only topics without a living router get one."""
        if event.epoch <= self._epoch:
            self._stale_elections += 1
            return None
        self._epoch, self._elected = event.epoch, True
        self._directory.forget_pending()
        self._begin()
        self._step_at_s = event.now_s + self._leading.step_s
        return self._step(0)

    def _tick(self, now_s: float) -> Decision | None:
        if now_s >= self._step_at_s:
            self._step_at_s = now_s + self._leading.step_s  # two steps are never closer, also after a late Tick
            return self._step(self._leading.max_moves)
        return self._place() if now_s >= self._batch_at_s else None

    def _step(self, max_moves: int) -> Decision | None:
        if not self._elected:
            return None
        cluster = self._directory.cluster(self._lately)
        decided = self._strategy.step(cluster, max_moves) if _possible(cluster) else None
        loads = zip(cluster.topics, cluster.now.tolist(), strict=True)
        self._lately.record({topic: load for topic, load in loads if load > 0})
        return decided

    def _place(self) -> Decision | None:
        if not self._elected or not self._directory.homeless:
            return None
        cluster = self._directory.cluster(self._lately)
        return self._strategy.place(cluster) if _possible(cluster) else None

    def _actions(self, decided: Decision | None, event: Event) -> list[Action]:
        """The assignment, if there is one, and when to be woken, if that is new."""
        if not self._elected:
            return []
        actions: list[Action] = []
        if decided is not None and decided.homes:
            self._directory.assigned(decided.homes)
            self._batches += 1
            self._assigned += len(decided.homes)
            self._moved += len(decided.moves)
            actions.append(
                Assign(
                    epoch=self._epoch,
                    homes=decided.homes,
                    moves=len(decided.moves),
                    left=decided.left,
                    why=decided.why,
                )
            )
        if not self._directory.homeless or not self._directory.routers:
            self._batch_at_s = math.inf
        elif self._batch_at_s == math.inf:
            patience_s = PATIENCE_S * self._directory.statistics()["crossing"]
            self._batch_at_s = event.now_s + max(self._leading.batch_s, patience_s)
        due_s = min(self._step_at_s, self._batch_at_s)
        if due_s != self._woken_at_s or isinstance(event, Tick):
            self._woken_at_s = due_s
            actions.append(WakeAt(at_s=due_s))
        return actions


def _possible(cluster: Cluster) -> bool:
    return bool(cluster.routers) and bool(cluster.there.any())
