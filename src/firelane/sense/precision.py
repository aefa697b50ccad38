"""A publisher that keeps its load on target by one factor on all its precisions.

The load is c0 + n c1 gamma^-beta for n sensors. By gamma itself its slope changes with n and with gamma; by log gamma
it is -beta (load - c0), whatever n is, so one pair of gains does before and after a surge.

A wider delta quiets all sensors at once, for a few samples, until their errors have grown into it; a tighter one makes
a burst. So the load answers at first up to five times as much as it does in the end (Eq. 6 finds that, with b_2 against
b_1). A short memory of the error keeps the controller from chasing it.

Implements: rdds, section III-C3, Eq. 7 and the left loop of Fig. 4.
Differs:    Eq. 7 runs on log gamma instead of delta, on the error as a part of the target, and on its moving average. A
            load well above target counts for more than it is, as nobody can measure how much more was asked for; at a
            limit that average is forgotten. The sign is turned (error = load - target), so that gains are positive.
Symbols:    delta(t) -> log gamma, e -> error, U_ref -> target, K_P, K_I -> proportional, integral.
Checked by: tests/sense/test_sense_precision.py, tests/sense/test_surge.py, tests/sense/test_design.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from firelane.errors import FirelaneError

PERIOD_S = 5.0  # Table I
EARLY = 0.05  # a sample may come this part of the period early
LEAST_TARGET, MOST_TARGET = 0.01, 0.95
KNEE = 0.15  # of the way from the target to 1, from where on a load counts as more than it is
SATURATED_ERROR = 1.2  # at a load of 1, if the target is near it
MOST_ERROR = 2.0
FINEST = 0.05  # of gamma_max, unless told otherwise; finer is mostly noise, and a long way back after a surge


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """K_P and K_I of Eq. 7, and how much of the error's moving average stays from sample to sample."""

    proportional: float
    integral: float
    smoothing: float = 0.4

    def __post_init__(self) -> None:
        numbers = (self.proportional, self.integral, self.smoothing)
        if not all(map(math.isfinite, numbers)) or self.integral <= 0 or not 0 <= self.smoothing < 1:
            raise FirelaneError(
                f"these gains do not control: {numbers}; give finite ones, integral above 0, smoothing from 0 up to 1"
            )


SHIPPED = Gains(proportional=0.0, integral=0.6)  # what design() makes of the plant that it ships


class Control(Protocol):
    """What sets the factor on all precisions of a publisher."""

    target: float
    gamma_max: float
    period_s: float

    def due(self, now_s: float) -> bool:
        """Whether it is time for a sample."""
        ...

    def sample(self, now_s: float, load: float) -> float:
        """Take the load since the last one; the factor from now on."""
        ...


class PrecisionController:
    """Eq. 7: from a load every few seconds, the factor that all precisions are multiplied with."""

    def __init__(
        self,
        *,
        target: float,
        gamma_max: float,
        gamma_min: float | None = None,
        gamma: float | None = None,
        gains: Gains = SHIPPED,
        period_s: float = PERIOD_S,
    ) -> None:
        """Begin at gamma (gamma_max by default, what was promised) as if the load had been on target."""
        least = gamma_max * FINEST if gamma_min is None else gamma_min
        start = gamma_max if gamma is None else gamma
        if not (0 < least <= start <= gamma_max < math.inf and 0 < period_s < math.inf):
            raise FirelaneError(
                f"gamma must be from gamma_min to gamma_max, above 0, and the period too: {start:g} from {least:g} to "
                f"{gamma_max:g}, {period_s:g} s"
            )
        self.gains = gains
        self.period_s = period_s
        self.gamma_min, self.gamma_max = least, gamma_max
        self.ignored = 0  # measurements that were none
        self._gamma = start
        self._error = 0.0  # its moving average
        self._next_s = -math.inf
        self.target = target

    @property
    def gamma(self) -> float:
        """The factor in force."""
        return self._gamma

    @property
    def at_limit(self) -> bool:
        """Whether the factor is as large, or as small, as it may be, and the load may stay off target."""
        return self._gamma in (self.gamma_min, self.gamma_max)

    @property
    def target(self) -> float:
        """U_ref: the load to keep; it may be changed at any time."""
        return self._target

    @target.setter
    def target(self, target: float) -> None:
        if not LEAST_TARGET <= target <= MOST_TARGET:  # NaN is not
            raise FirelaneError(f"a load of {target:g} cannot be kept; give one from {LEAST_TARGET} to {MOST_TARGET}")
        self._target = target

    def due(self, now_s: float) -> bool:
        """Whether a period has passed since the last sample, or the clock was set back."""
        return not self._next_s - 2 * self.period_s < now_s < self._next_s - EARLY * self.period_s

    def sample(self, now_s: float, load: float) -> float:
        """Take the load since the last sample; the factor from now on. Between samples nothing changes."""
        if not self.due(now_s):
            return self._gamma
        self._next_s = now_s + self.period_s
        if not 0 <= load < math.inf:  # NaN is not
            self.ignored += 1
            return self._gamma
        before, keep = self._error, self.gains.smoothing
        self._error = keep * before + (1 - keep) * self.error(load)
        step = (self.gains.proportional + self.gains.integral) * self._error - self.gains.proportional * before
        wanted = self._gamma * math.exp(step)
        self._gamma = min(max(wanted, self.gamma_min), self.gamma_max)
        if self._gamma != wanted:
            self._error = 0.0  # at a limit nothing winds up, nor is it remembered when the load turns
        return self._gamma

    def error(self, load: float) -> float:
        """How far a load is from the target, as a part of it; near a load of 1, more than that."""
        error = (load - self._target) / self._target
        knee = self._target + KNEE * (1 - self._target)
        if load > knee:
            at_knee = (knee - self._target) / self._target
            up = (min(load, 1.0) - knee) / (1 - knee)
            error = max(error, at_knee + up * (SATURATED_ERROR - at_knee))
        return min(error, MOST_ERROR)
