"""What a plan does for everybody together, in four numbers that can be compared: predicted, or measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firelane.control.bounds import Bounds, Outcome
from firelane.scenario.utility import NeedTable

USUAL_ERROR = 0.02  # of a model that has not been compared with anything yet
LARGEST_ERROR = 0.2
FORGETTING = 0.3
NO_DELAY_S = 1e-3  # shorter ones are all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The utility rate, how many bounds are missed, mean delay (null if it only grows) and share of what is lost."""

    utility_rate: float
    missed: int
    delay_mean_s: float | None
    loss: float


def effect(outcome: Outcome, needs: NeedTable, bounds: Bounds, slack: float = 0.0) -> Effect:
    """Of what is known."""
    rows = outcome.known
    curve = needs.curves
    most = float(curve.most[rows].sum())
    due, arrives = outcome.due[rows], (outcome.due * outcome.success)[rows]
    timed = ~np.isnan(outcome.delay_s[rows]) & (arrives > 0)
    delay_s = float(np.average(outcome.delay_s[rows][timed], weights=arrives[timed])) if timed.any() else 0.0
    return Effect(
        utility_rate=float(curve.value(outcome.success)[rows].sum()) / most if most > 0 else 1.0,
        missed=bounds.missed(outcome, slack),
        delay_mean_s=delay_s if np.isfinite(delay_s) else None,
        loss=1 - float(arrives.sum() / due.sum()) if due.sum() > 0 else 0.0,
    )


class ModelError:
    """How far what is measured usually is from what was predicted, relative to that."""

    def __init__(self) -> None:
        self.utility = self.delay = USUAL_ERROR

    def learn(self, measured: Effect, predicted: Effect) -> None:
        """Take one more comparison into account; older ones fade."""
        off = abs(measured.utility_rate - predicted.utility_rate) / max(predicted.utility_rate, 1e-9)
        self.utility = _blended(self.utility, off)
        if measured.delay_mean_s is not None and predicted.delay_mean_s is not None:
            longer, shorter = max(measured.delay_mean_s, NO_DELAY_S), max(predicted.delay_mean_s, NO_DELAY_S)
            self.delay = _blended(self.delay, abs(longer - shorter) / shorter)


def _blended(before: float, off: float) -> float:
    return min(LARGEST_ERROR, before + FORGETTING * (off - before))
