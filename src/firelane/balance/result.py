"""What a method of balancing came to: placements, scores, the moves that lead there, and the Plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Ints
from firelane.balance.greedy import NOWHERE
from firelane.balance.loads import Loads
from firelane.balance.score import Score
from firelane.scenario.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A topic that changes its broker, and its load at the last step."""

    topic: str
    source: str
    target: str
    load: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Balance:
    """Topics over brokers, step by step."""

    method: str
    how: str  # the method's settings, in words
    brokers: int
    loads: Loads
    start: Ints  # per topic the broker it had before the first step, NOWHERE if it is free
    placed: Ints  # steps x topics
    score: Score
    seconds: float
    proved: bool | None = None  # for `exact`: is every step's result proved to be the best?

    @property
    def names(self) -> list[str]:
        """The brokers' names."""
        return broker_names(self.brokers)

    @property
    def placement(self) -> dict[str, str]:
        """The broker of every topic that is there at the last step."""
        names = self.names
        pairs = zip(self.loads.topics, self._last.tolist(), strict=True)
        return {topic: names[broker] for topic, broker in pairs if broker != NOWHERE}

    @property
    def moves(self) -> list[Move]:
        """From before to the last step, the largest first: topics that are there in both, on another broker."""
        now, names = self.loads.load[-1], self.names
        moved = np.flatnonzero((self._before != self._last) & (self._before != NOWHERE) & (self._last != NOWHERE))
        return [
            Move(
                topic=self.loads.topics[i],
                source=names[self._before[i]],
                target=names[self._last[i]],
                load=float(now[i]),
            )
            for i in moved[np.argsort(-now[moved], kind="stable")].tolist()
        ]

    @property
    def before(self) -> dict[str, float]:
        """What each broker would carry at the last step had nothing been moved; new topics count where they are."""
        return self._carried(np.where(self._before == NOWHERE, self._last, self._before))

    @property
    def after(self) -> dict[str, float]:
        """What each broker carries at the last step."""
        return self._carried(self._last)

    def to_data(self, *, series: bool = False, moves: bool = False) -> dict[str, Any]:
        """The document of `--json`."""
        data: dict[str, Any] = {
            "method": self.method,
            "how": self.how,
            "brokers": self.brokers,
            "topics": len(self.loads.topics),
            "steps": len(self.loads.times_s),
            "load": self.loads.unit,
            **self.score.summary(),
            "seconds": self.seconds,
        }
        if self.proved is not None:
            data["proved"] = self.proved
        if moves:
            data["before"], data["after"] = self.before, self.after
            data["moves"] = [
                {"topic": one.topic, "from": one.source, "to": one.target, "load": one.load} for one in self.moves
            ]
        if series:
            data["series"] = {"time_s": self.loads.times_s.tolist(), **self.score.series()}
        return data

    def to_plan(self, *, version: int = 1) -> Plan:
        """The placement of the last step as a Plan."""
        none = np.empty(0, np.int64)
        return Plan(
            version=version,
            made_by=f"balance {self.method}",
            flow_id=none,
            flow_subscriber=[],
            flow_priority=none,
            flow_drop_rate=np.empty(0),
            subscriber=[],
            filter=[],
            subscription_flow=none,
            delta=[],
            placement=self.placement,
            promised=self.to_data(),
            why=tuple(self.why()),
        )

    def why(self) -> list[str]:
        """The result in a few lines for people."""
        numbers, unit = self.score.summary(), self.loads.unit
        lines = [
            f"{self.method}{f' ({self.how})' if self.how else ''}: {len(self.loads.topics)} topics over "
            f"{self.brokers} brokers, {len(self.loads.times_s)} steps",
            f"load difference {numbers['load_difference_mean']:,.1f} {unit} on average, "
            f"{numbers['load_difference_max']:,.1f} at most; {numbers['excess_mean']:,.1f} on average above what "
            "the largest topic alone forces",
            f"{numbers['switches']:,} switch{'es' * (numbers['switches'] != 1)} in "
            f"{numbers['reconfigurations']:,} reconfiguration{'s' * (numbers['reconfigurations'] != 1)}",
        ]
        if self.proved is not None:
            lines.append("proved to be the best" if self.proved else "the time limit came before the proof of the best")
        return lines

    @property
    def _before(self) -> Ints:
        return (
            self.start if (self.start != NOWHERE).any() else np.where(self.loads.load[0] > 0, self.placed[0], NOWHERE)
        )

    @property
    def _last(self) -> Ints:
        return np.where(self.loads.load[-1] > 0, self.placed[-1], NOWHERE)

    def _carried(self, place: Ints) -> dict[str, float]:
        there = self._last != NOWHERE
        carried = np.bincount(place[there], self.loads.load[-1][there], minlength=self.brokers)
        return dict(zip(self.names, carried.tolist(), strict=True))


def broker_names(brokers: int) -> list[str]:
    """What so many brokers are called."""
    return [f"broker-{number}" for number in range(1, brokers + 1)]
