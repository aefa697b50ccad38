"""What was asked for on delay and loss, and which of it is missed: measured, or as it is predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from firelane.arrays import Flags, Floats, sum_by
from firelane.exchange.measuring.measuring import Reading
from firelane.metrics import Metrics
from firelane.scenario.model import Category
from firelane.scenario.utility import NeedTable

LEAST_SAMPLES = 20  # of a subscription, to say anything of it
CHANCE = 3.0  # standard deviations that a measured loss may be above its bound
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What became of subscriptions, or would: how many messages, the share that arrives, the mean delay.

    Infinite is a delay that only grows; what is not `known` counts nowhere.
    """

    due: Floats
    success: Floats
    delay_s: Floats
    samples: Floats  # behind the success; infinite if it is predicted
    known: Flags

    def only(self, known: Flags) -> Outcome:
        """The same where this is true."""
        return Outcome(
            due=self.due,
            success=self.success,
            delay_s=self.delay_s,
            samples=self.samples,
            known=self.known & known,
        )


def foretold(metrics: Metrics) -> Outcome:
    """The outcome of a prediction."""
    due, delay_s = metrics.column("offered_hz"), metrics.column("delay_mean_s")
    growing = np.isnan(delay_s) & (metrics.column("delivered_hz") > 0)
    return Outcome(
        due=due,
        success=np.nan_to_num(metrics.column("success")),
        delay_s=np.where(growing, np.inf, delay_s),
        samples=np.full(len(due), np.inf),
        known=due > 0,
    )


def measured(reading: Reading, places: Sequence[int], rows: int) -> Outcome:
    """The outcome of a reading, of which each row is in one of so many places, or nowhere (-1)."""
    place = np.asarray(places, np.int64)
    here = place >= 0
    at = place[here]
    settled = sum_by(at, reading.settled[here].astype(float), rows)
    arrived = sum_by(at, np.nan_to_num(reading.success * reading.settled)[here], rows)
    timed = sum_by(at, reading.timed[here].astype(float), rows)
    delays_s = sum_by(at, reading.delays_s[here], rows)
    return Outcome(
        due=settled,
        success=np.divide(arrived, settled, out=np.zeros(rows), where=settled > 0),
        delay_s=np.divide(delays_s, timed, out=np.full(rows, np.nan), where=timed >= LEAST_SAMPLES),
        samples=settled,
        known=settled >= LEAST_SAMPLES,
    )


class Bounds:
    """The bounds of subscriptions, and those of whole categories."""

    def __init__(self, needs: NeedTable, categories: Mapping[str, Category]) -> None:
        self._delay_s, self._share = needs.max_delay_s, needs.asked_share
        asked = {name: one for name, one in categories.items() if (one.max_delay_s, one.max_loss) != (None, None)}
        self._categories = [(name, one, needs.within(name)) for name, one in asked.items()]

    @property
    def any(self) -> bool:
        """Whether there is any."""
        of_categories = any(inside.any() for _, _, inside in self._categories)
        return bool(of_categories or np.isfinite(self._delay_s).any() or (self._share > 0).any())

    def late(self, outcome: Outcome, slack: float = 0.0) -> Flags:
        """Which subscriptions wait longer than they asked for, by more than this part of it."""
        late: Flags = outcome.delay_s > self._delay_s * (1 + slack) * (1 + ROUNDING)
        return outcome.known & late

    def lossy(self, outcome: Outcome) -> Flags:
        """Which lose more than they asked for, and more than chance would have them."""
        chance = CHANCE * np.sqrt(self._share * (1 - self._share) / np.maximum(outcome.samples, 1))
        lossy: Flags = outcome.success < self._share - chance - ROUNDING
        return outcome.known & lossy

    def of_categories(self, outcome: Outcome, slack: float = 0.0) -> list[str]:
        """What categories as a whole miss, in words."""
        found = []
        for name, asked, inside in self._categories:
            rows = inside & outcome.known
            due, arrives = outcome.due[rows], (outcome.due * outcome.success)[rows]
            if due.sum() <= 0:
                continue
            timed = ~np.isnan(outcome.delay_s[rows]) & (arrives > 0)
            delay_s = np.average(outcome.delay_s[rows][timed], weights=arrives[timed]) if timed.any() else 0.0
            loss = 1 - arrives.sum() / due.sum()
            chance = CHANCE * np.sqrt(loss * (1 - loss) / max(1.0, min(outcome.samples[rows].sum(), 1e18)))
            if asked.max_delay_s is not None and delay_s > asked.max_delay_s * (1 + slack) * (1 + ROUNDING):
                found.append(f"{name}: delay {delay_s:.3g} s, {asked.max_delay_s:.3g} s asked for")
            if asked.max_loss is not None and loss > asked.max_loss + chance + ROUNDING:
                found.append(f"{name}: loss {loss:.1%}, {asked.max_loss:.1%} asked for")
        return found

    def missed(self, outcome: Outcome, slack: float = 0.0) -> int:
        """How many bounds are missed."""
        single = int(self.late(outcome, slack).sum() + self.lossy(outcome).sum())
        return single + len(self.of_categories(outcome, slack))

    def words(self, outcome: Outcome, names: Sequence[str], slack: float = 0.0) -> list[str]:
        """What is missed, in words; `names` are the subscriptions'."""
        late, lossy = (np.flatnonzero(one).tolist() for one in (self.late(outcome, slack), self.lossy(outcome)))
        return [
            *(f"{names[i]}: delay {outcome.delay_s[i]:.3g} s, {self._delay_s[i]:.3g} s asked for" for i in late),
            *(f"{names[i]}: {outcome.success[i]:.1%} arrives, {self._share[i]:.1%} asked for" for i in lossy),
            *self.of_categories(outcome, slack),
        ]
