"""Topics whose load is not what it is expected to be: by the scenario, or else by how it has been.

A topic drifts when its deliveries due a second are more than twice, or less than half, of what is expected, by more
than chance explains: counts of messages scatter as those of a Poisson stream do, and those of samples more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from firelane.arrays import sum_by
from firelane.scenario.model import Scenario
from firelane.scenario.routes import routes

FACTOR = 2.0
ERRORS = 3.0  # thousands of topics are looked at in every window
SLOWNESS = 0.1  # how much of the last window is in the average
NOTHING = 1e-3  # messages a window
MOST_TOPICS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Deliveries of a topic in a window: records, the messages they stand for, and the sum of squared weights."""

    records: int
    messages: float
    squares: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """A topic that has drifted: deliveries a second, measured and expected, and the records behind it."""

    topic: str
    measured: float
    expected: float
    records: int


@dataclass(slots=True, kw_only=True)
class Drift:
    """Looks at one window after the other."""

    expected_hz: Mapping[str, float] = field(default_factory=dict)  # by the scenario
    average_hz: dict[str, float] = field(default_factory=dict)  # of all other topics
    begun: bool = False

    def look(self, counts: Mapping[str, Count], window_s: float) -> list[Drifted]:
        """Compare the topics of a window, and those that should have been in it, with what is expected of them.

        Nothing is expected of the first: it had begun before anybody looked.
        """
        if not self.begun:
            self.begun = True
            return []
        messages = sum(one.messages for one in counts.values())
        typical = sum(one.squares for one in counts.values()) / messages if messages else 1.0  # weight of a record
        found = []
        for topic, expected in [*self.expected_hz.items(), *self.average_hz.items()]:
            count = counts.get(topic, Count(records=0, messages=0.0, squares=0.0))
            if _differs(count, expected * window_s, typical):
                measured = count.messages / window_s
                found.append(Drifted(topic=topic, measured=measured, expected=expected, records=count.records))
        self._learn(counts, window_s)
        return found

    def _learn(self, counts: Mapping[str, Count], window_s: float) -> None:
        for topic in self.average_hz.keys() - counts.keys():
            self.average_hz[topic] *= 1 - SLOWNESS
            if self.average_hz[topic] * window_s < NOTHING:
                del self.average_hz[topic]
        for topic, count in counts.items():
            if topic in self.expected_hz:
                continue
            now_hz = count.messages / window_s
            before_hz = self.average_hz.get(topic, now_hz)
            if topic in self.average_hz or len(self.average_hz) < MOST_TOPICS:
                self.average_hz[topic] = before_hz + SLOWNESS * (now_hz - before_hz)


def expected_hz(scenario: Scenario) -> dict[str, float]:
    """Deliveries due a second of every topic that anybody in a scenario subscribes to."""
    network = routes(scenario)
    copies = sum_by(network.stream_topic, np.ones(len(network.stream_topic)), len(network.topics))
    due_hz = (network.topic_rate_hz * copies).tolist()
    return {topic: one for topic, one in zip(network.topics, due_hz, strict=True) if one > 0}


def _differs(count: Count, expected: float, typical: float) -> bool:
    """Whether so many messages are too many, or too few, for what was expected."""
    more = count.messages - ERRORS * np.sqrt(count.squares)
    least = expected / FACTOR
    return bool(more > FACTOR * expected or count.messages + ERRORS * np.sqrt(least * typical) < least)
