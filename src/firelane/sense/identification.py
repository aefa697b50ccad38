"""How a publisher's load answers to the factor on its precisions: a difference equation found by least squares.

Implements: rdds, section III-C3, Eq. 6 (system identification).
Differs:    the input is the logarithm of gamma, whose effect does not depend on the number of sensors (precision.py has
            why); a constant stands for the operating point, which the paper's equation leaves out; the order is chosen
            by Akaike's criterion, up to three.
Symbols:    U -> load, delta -> gamma, a_i -> a, b_i -> b, p -> order.
Checked by: tests/sense/test_identify.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Floats
from firelane.errors import FirelaneError
from firelane.sense.series import Series

MOST_ORDER = 3
LEAST_SAMPLES = 40
LEAST_SWING = 0.01  # standard deviation of log gamma: a per cent
LEAST_EXCITATION = 0.02  # of the eigenvalues of what gamma was lately, the least to the largest
# A load that does not answer to gamma seems to, by more than this (chi square, 99.9 %), once in a thousand series.
BY_CHANCE = (0.0, 10.83, 13.82, 16.27)


class IdentifyError(FirelaneError):
    """A series that says too little about its plant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """U(t) = sum of a_i U(t-i) + b_i ln gamma(t-i), plus a constant."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    constant: float
    period_s: float
    fit: float  # R^2 one sample ahead
    simulated_fit: float  # R^2 of the load from gamma alone

    @property
    def order(self) -> int:
        """p of Eq. 6."""
        return len(self.a)

    @property
    def gain(self) -> float:
        """By how much the load changes, in the long run, for each e-fold of gamma."""
        return sum(self.b) / (1 - sum(self.a))

    @property
    def stable(self) -> bool:
        """Whether the load stays bounded for a bounded gamma."""
        return bool(np.all(np.abs(np.roots([1.0, *(-one for one in self.a)])) < 1))

    def simulate(self, gamma: Floats, first: Floats) -> Floats:
        """The load that follows from gamma alone, after the first samples."""
        load = np.empty(len(gamma))
        load[: self.order] = first[: self.order]
        pushes = np.log(gamma)
        for t in range(self.order, len(gamma)):
            past = slice(t - self.order, t)
            load[t] = self.constant + np.dot(self.a[::-1], load[past]) + np.dot(self.b[::-1], pushes[past])
        return load

    def to_data(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        return {
            "order": self.order,
            "a": list(self.a),
            "b": list(self.b),
            "constant": self.constant,
            "period_s": self.period_s,
            "gain": self.gain,
            "fit": self.fit,
            "simulated_fit": self.simulated_fit,
            "stable": self.stable,
        }


def identify(series: Series, *, most_order: int = MOST_ORDER) -> Plant:
    """The plant that explains a series best for its order; an IdentifyError if the series cannot tell."""
    if len(series) < LEAST_SAMPLES:
        raise IdentifyError(f"{len(series)} samples are too few to tell a plant; record {LEAST_SAMPLES} or more")
    pushes = np.log(series.gamma)
    _check_excitation(pushes, most_order)
    fits = [_least_squares(series.load, pushes, order, most_order) for order in range(1, most_order + 1)]
    found, left = min(fits, key=lambda one: _akaike(one[1], len(series) - most_order, len(one[0])))
    order = (len(found) - 1) // 2
    _check_answer(series.load, pushes, order, most_order, left)
    return _plant(series, found, left, order, most_order)


def _least_squares(load: Floats, pushes: Floats, order: int, skip: int, *, pushed: bool = True) -> tuple[Floats, float]:
    """Coefficients (a, b, constant) and the sum of squares left, over the same samples for every order."""
    rows = range(skip, len(load))
    columns = [load[skip - i : len(load) - i] for i in range(1, order + 1)]
    if pushed:
        columns += [pushes[skip - i : len(load) - i] for i in range(1, order + 1)]
    past = np.column_stack([*columns, np.ones(len(rows))])
    found, *_ = np.linalg.lstsq(past, load[skip:], rcond=None)
    return np.asarray(found, np.float64), float(np.sum((load[skip:] - past @ found) ** 2))


def _akaike(left: float, samples: int, coefficients: int) -> float:
    """Akaike's criterion with the correction for few samples."""
    spare = samples - coefficients - 1
    return samples * math.log(left / samples + 1e-300) + 2 * coefficients * samples / spare


def _check_excitation(pushes: Floats, order: int) -> None:
    remedy = "record it while gamma follows excite()"
    if float(np.std(pushes)) < LEAST_SWING:
        raise IdentifyError(f"gamma hardly changes in this series, so it does not tell what gamma does; {remedy}")
    lately = np.lib.stride_tricks.sliding_window_view(pushes - pushes.mean(), order)
    eigenvalues = np.linalg.eigvalsh(lately.T @ lately)
    if eigenvalues[0] < LEAST_EXCITATION * eigenvalues[-1]:
        raise IdentifyError(f"gamma changes too slowly or too regularly in this series to tell a plant; {remedy}")


def _check_answer(load: Floats, pushes: Floats, order: int, skip: int, left: float) -> None:
    _, without = _least_squares(load, pushes, order, skip, pushed=False)
    samples = len(load) - skip
    if samples * np.log((without + 1e-300) / (left + 1e-300)) < BY_CHANCE[order]:
        raise IdentifyError("the load does not answer to gamma in this series; swing gamma more, or record longer")


def _plant(series: Series, found: Floats, left: float, order: int, skip: int) -> Plant:
    spread = float(np.sum((series.load[skip:] - series.load[skip:].mean()) ** 2))
    a, b, constant = found[:order], found[order:-1], float(found[-1])
    plant = Plant(
        a=tuple(map(float, a)),
        b=tuple(map(float, b)),
        constant=constant,
        period_s=series.period_s,
        fit=1 - left / spread,
        simulated_fit=np.nan,
    )
    missed = float(np.sum((plant.simulate(series.gamma, series.load) - series.load)[skip:] ** 2))
    return Plant(
        a=plant.a,
        b=plant.b,
        constant=constant,
        period_s=plant.period_s,
        fit=plant.fit,
        simulated_fit=1 - missed / spread,
    )
