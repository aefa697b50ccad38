"""What subscribers of one broker really received, and when: all that the demo shows comes from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.demo.fire import KINDS, Fire, Phase
from firelane.scenario.utility import utilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of data: how much of its value arrives, how late, how old the newest reading is; NaN is unknown."""

    value: float
    delay_s: float
    age_s: float
    dropped: int


class Arrivals:
    """Times in seconds since the start of the run: when publications were sent, and received by each subscriber."""

    def __init__(self, fire: Fire) -> None:
        subscribers = len(fire.routes.subscribers)
        self.fire = fire
        self.sent_s = np.full(len(fire.at_s), np.nan)
        self.received_s = np.full((len(fire.at_s), subscribers), np.nan)
        self.doubled = 0
        self._subscription = fire.subscription[fire.topic]  # by publication and subscriber
        self._kind = np.append(fire.kind, -1)
        self._pairs = np.nonzero(fire.subscription >= 0)  # topic and subscriber
        self._pair_kind = self._kind[fire.subscription[self._pairs]]
        self._carrying_s = fire.holding_s + fire.routes.lanes[0].link.propagation_s
        self._ordinal = _ordinals(fire.topic)
        self._topic = fire.topic.tolist()
        self._newest_s = np.zeros(fire.subscription.shape)
        self._passed = np.zeros(fire.subscription.shape, np.int64)  # publications known to be received or dropped
        self._got = np.zeros(fire.subscription.shape, np.int64)
        self._age_sum = np.zeros(len(KINDS))
        self._age_samples = 0

    # ---------------------------------------------------------------------------------------- while it runs

    def sent(self, number: int, now: float) -> None:
        """A publication is sent."""
        self.sent_s[number] = now

    def received(self, number: int, subscriber: int, now: float) -> None:
        """And is received. A topic's messages keep their order, so those left out before this one were dropped."""
        if not np.isnan(self.received_s[number, subscriber]):
            self.doubled += 1
            return
        self.received_s[number, subscriber] = now
        place = self._topic[number], subscriber
        self._newest_s[place] = self.sent_s[number]
        self._passed[place] = self._ordinal[number] + 1
        self._got[place] += 1

    def sample_ages(self, now: float) -> None:
        """Note how old the newest reading is, by kind, over all topics and their subscribers."""
        self._age_sum += _mean_by(self._pair_kind, self._ages(now), len(KINDS))
        self._age_samples += 1

    def lately(self, now: float, window_s: float, phase: Phase) -> list[Row]:
        """A row per kind and one for everything, over the last while: of what was sent and what was received then."""
        got = self.received_s > now - window_s
        due = self.due & (self.sent_s > now - window_s)[:, None]
        publication, _ = np.nonzero(got)
        delay_s = self.received_s[got] - self.sent_s[publication] + self._carrying_s[publication]
        columns = (
            self._values(self._count(due), self._count(got), phase),
            _means(self._kind[self._subscription[got]], delay_s),
            _means(self._pair_kind, self._ages(now)),
            _sums(self._pair_kind, (self._passed - self._got)[self._pairs]),
        )
        rows = zip(*(one.tolist() for one in columns), strict=True)
        return [Row(value=a, delay_s=b, age_s=c, dropped=int(d)) for a, b, c, d in rows]

    def _values(self, due: Ints, got: Ints, phase: Phase) -> Floats:
        """The utility rate of each kind, and of all, when so much was due and received."""
        share = np.minimum(1.0, got / np.maximum(due, 1))  # some was due before and comes now
        some, curve = due > 0, utilities(phase.needs)
        most = _sums(self._kind[:-1], np.where(some, curve.most, 0.0))
        return _ratio(_sums(self._kind[:-1], np.where(some, curve.value(share), 0.0)), most)

    def _ages(self, now: float) -> Floats:
        """Of every topic and subscriber of it."""
        ages: Floats = now - self._newest_s[self._pairs]
        return ages

    # --------------------------------------------------------------------------------------------- afterwards

    @property
    def due(self) -> Flags:
        """By publication and subscriber: what was sent and wanted."""
        due: Flags = (self._subscription >= 0) & ~np.isnan(self.sent_s)[:, None]
        return due

    @property
    def got(self) -> Flags:
        """By publication and subscriber: what had arrived when the run ended."""
        return self.received_s <= self.fire.seconds

    @property
    def arrived(self) -> Flags:
        """By publication and subscriber: what arrived in the end."""
        arrived: Flags = ~np.isnan(self.received_s)
        return arrived

    @property
    def late(self) -> Flags:
        """By publication and subscriber: what was still queued then, and arrived afterwards."""
        return self.received_s > self.fire.seconds

    @property
    def delay_s(self) -> Floats:
        """As plans reckon it: clients have a message when the paced link starts to carry it, so that time is added."""
        delay_s: Floats = self.received_s - self.sent_s[:, None] + self._carrying_s[:, None]
        return delay_s

    def of_kind(self, kind: int) -> Flags:
        """By publication and subscriber: what is of this kind."""
        inside: Flags = self._kind[self._subscription] == kind
        return inside

    def ages_s(self) -> Floats:
        """The mean age of the newest reading by kind."""
        return self._age_sum / max(1, self._age_samples)

    def utilities(self, chosen: Flags, start_s: float, end_s: float, phase: Phase) -> tuple[Floats, Floats, Floats]:
        """By subscription, when the chosen of what was sent between two moments counts: achieved, in time, the most.

        In time, a late subscription (mean delay above its bound) keeps bound / delay of it, as in `delay_discounted`.
        """
        sent = ((self.sent_s >= start_s) & (self.sent_s < end_s))[:, None]
        due, counted = self._count(self.due & sent), chosen & sent
        some, curve = due > 0, utilities(phase.needs)
        achieved = np.where(some, curve.value(self._count(counted) / np.maximum(due, 1)), 0.0)
        bound = np.array([np.inf if need.max_delay_s is None else need.max_delay_s for need in phase.needs])
        delay = _mean_by(self._subscription[counted], self.delay_s[counted], len(due))
        kept = np.where(np.nan_to_num(delay) > bound, bound / delay, 1.0)
        return achieved, achieved * kept, np.where(some, curve.most, 0.0)

    def _count(self, chosen: Flags) -> Ints:
        return np.bincount(self._subscription[chosen], minlength=len(self.fire.routes.filters))


def _ordinals(topic: Ints) -> list[int]:
    """The number of each publication within its topic, from 0."""
    seen: dict[int, int] = {}
    result = []
    for one in topic.tolist():
        seen[one] = seen.get(one, -1) + 1
        result.append(seen[one])
    return result


def _sums(kind: Ints, values: npt.NDArray[Any]) -> Floats:
    """The sum of each kind, and of all."""
    return np.append(sum_by(kind, values, len(KINDS)), values.sum())


def _means(kind: Ints, values: Floats) -> Floats:
    return _ratio(_sums(kind, values), _sums(kind, np.ones(len(values))))


def _ratio(values: Floats, weights: Floats) -> Floats:
    ratio: Floats = np.divide(values, weights, out=np.full(len(values), np.nan), where=weights > 0)
    return ratio


def _mean_by(group: Ints, values: Floats, groups: int) -> Floats:
    """The mean of each group, NaN without members."""
    return _ratio(sum_by(group, values, groups), sum_by(group, np.ones(len(values)), groups))
