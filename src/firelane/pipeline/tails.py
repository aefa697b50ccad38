"""Whether a few are very large: a Pareto tail fitted to sizes that were counted, with a lognormal one beside it.

Implements: broker-cluster, section V, Figure 2(b).
Differs:    the paper fits a Pareto distribution; ours says how far off it is, and what fits better.
Symbols:    alpha -> exponent, of the share of sizes that are at least x; x_min -> least.
Checked by: tests/pipeline/test_tails.py

A Pareto tail has one exponent wherever one lets it begin, so it is fitted from several sizes on: from those that a
tenth and a twentieth of all reach, and from where the fit is closest (Clauset, Shalizi and Newman 2009). The exponent
is the most likely one (Hill's estimator). Sizes are whole numbers: one of k stands for all from k - 1/2 to k + 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.errors import FirelaneError

TOP_10, TOP_5, CLOSEST = "top 10 %", "top 5 %", "closest"
FEWEST = 50  # sizes in a tail, for the closest fit
STEADY = 0.25  # the most by which the exponent of a Pareto tail may differ between its tenth and its twentieth
UNLIKELY = 0.01  # a chance that is no explanation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sizes:
    """Sizes, rising, and how often each was counted."""

    size: Ints
    count: Ints

    def __post_init__(self) -> None:
        if len(self.size) == 0 or self.size[0] < 1 or not np.all(np.diff(self.size) > 0) or not np.all(self.count > 0):
            raise FirelaneError("there are no sizes to fit anything to; give some of 1 or more")

    @property
    def at_least(self) -> Floats:
        """The share of all that are of this size or larger."""
        return np.asarray(np.cumsum(self.count[::-1])[::-1] / self.count.sum())

    def tail(self, least: int) -> Sizes:
        """Those of this size or larger."""
        there = self.size >= least
        return Sizes(size=self.size[there], count=self.count[there])


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A tail from a size on, as Pareto and as lognormal; a distance is the largest difference between shares (KS).

    `log_ratio` is the logarithm of how much likelier the Pareto tail is, and `by_chance` how probable it is that a
    difference of this size says nothing (Vuong's test, which takes the sizes for independent: those of one topic
    are not, so it is surer than it should be).
    """

    tail: str
    least: int
    n: int
    share: float
    exponent: float
    standard_error: float
    distance: float
    lognormal_mean: float
    lognormal_deviation: float
    lognormal_distance: float
    log_ratio: float
    by_chance: float


def fits(sizes: Sizes) -> list[Fit]:
    """The tail from the three beginnings; fewer if it is too short for them."""
    made = {
        tail: fit(sizes, least, tail)
        for tail, least in _beginnings(sizes)
        if len(sizes.tail(least).size) > 1  # one size alone has no shape
    }
    return list(made.values())


def fit(sizes: Sizes, least: int, tail: str = "") -> Fit:
    """Both distributions, fitted to the sizes from `least` on."""
    there = sizes.tail(least)
    n = int(there.count.sum())
    exponent = hill(sizes, least)
    mean, deviation = _fitted_lognormal(there, least)
    pareto, lognormal = (
        pareto_log_share(there.size, least, exponent),
        lognormal_log_share(there.size, least, mean, deviation),
    )
    log_ratio, by_chance = _vuong(
        _log_probability(pareto, pareto_log_share(there.size + 1, least, exponent)),
        _log_probability(lognormal, lognormal_log_share(there.size + 1, least, mean, deviation)),
        there.count,
    )
    return Fit(
        tail=tail,
        least=least,
        n=n,
        share=n / int(sizes.count.sum()),
        exponent=exponent,
        standard_error=exponent / math.sqrt(n),
        distance=_distance(there, pareto),
        lognormal_mean=mean,
        lognormal_deviation=deviation,
        lognormal_distance=_distance(there, lognormal),
        log_ratio=log_ratio,
        by_chance=by_chance,
    )


def hill(sizes: Sizes, least: int) -> float:
    """The most likely exponent of a Pareto tail from `least` on."""
    there = sizes.tail(least)
    return float(there.count.sum() / np.sum(there.count * np.log(there.size / (least - 0.5))))


def may_be_pareto(made: list[Fit]) -> bool:
    """Whether the tail has one exponent wherever it begins, and a lognormal one does not fit clearly better."""
    by_tail = {one.tail: one for one in made}
    if not {TOP_10, TOP_5} <= by_tail.keys():
        return False
    tenth, twentieth = by_tail[TOP_10], by_tail[TOP_5]
    outdone = tenth.log_ratio < 0 and tenth.by_chance < UNLIKELY
    return abs(twentieth.exponent / tenth.exponent - 1) <= STEADY and not outdone


def pareto_log_share(size: Ints, least: int, exponent: float) -> Floats:
    """The logarithm of the share of a Pareto tail that is of this size or larger."""
    return np.asarray(-exponent * np.log((size - 0.5) / (least - 0.5)))


def lognormal_log_share(size: Ints, least: int, mean: float, deviation: float) -> Floats:
    """The same of a lognormal distribution cut off below `least`."""
    from scipy.special import log_ndtr

    def log_share(one: Floats) -> Floats:
        return np.asarray(log_ndtr((mean - np.log(one - 0.5)) / deviation))

    return log_share(np.asarray(size, float)) - log_share(np.array(least, float))


def _beginnings(sizes: Sizes) -> Iterator[tuple[str, int]]:
    share = sizes.at_least
    for tail, most in ((TOP_10, 0.1), (TOP_5, 0.05)):
        if np.any(share <= most):
            yield tail, int(sizes.size[np.argmax(share <= most)])
    enough = share * sizes.count.sum() >= FEWEST
    candidates = sizes.size[enough & (np.arange(len(sizes.size)) < len(sizes.size) - 1)].tolist()
    if candidates:
        yield CLOSEST, min(candidates, key=lambda least: _pareto_distance(sizes, least))


def _pareto_distance(sizes: Sizes, least: int) -> float:
    there = sizes.tail(least)
    return _distance(there, pareto_log_share(there.size, least, hill(sizes, least)))


def _distance(sizes: Sizes, log_share: Floats) -> float:
    """The largest difference between the shares that were counted and those of a distribution (Kolmogorov-Smirnov)."""
    return float(np.max(np.abs(sizes.at_least - np.exp(log_share))))


def _log_probability(log_share: Floats, log_share_of_larger: Floats) -> Floats:
    return np.asarray(log_share + np.log(-np.expm1(np.minimum(log_share_of_larger - log_share, -1e-300))))


def _fitted_lognormal(sizes: Sizes, least: int) -> tuple[float, float]:
    """Mean and deviation of the logarithm that make the sizes likeliest."""
    from scipy.optimize import minimize

    log_size = np.log(sizes.size)
    mean = float(np.average(log_size, weights=sizes.count))
    deviation = math.sqrt(float(np.average((log_size - mean) ** 2, weights=sizes.count))) or 0.1

    def unlikely(guess: Floats) -> float:
        shares = [lognormal_log_share(sizes.size + more, least, guess[0], math.exp(guess[1])) for more in (0, 1)]
        return -float(np.sum(sizes.count * _log_probability(*shares)))

    # Far below the sizes and very wide, a lognormal tail is a Pareto one; there is no need to look any farther.
    bounds = [(math.log(least) - 100, float(log_size[-1]) + 5), (-8.0, 4.0)]
    start = [
        min(max(one, lowest), highest)
        for one, (lowest, highest) in zip((mean, math.log(deviation)), bounds, strict=True)
    ]
    found = minimize(unlikely, start, method="Nelder-Mead", bounds=bounds, options={"maxiter": 2000})
    return float(found.x[0]), math.exp(float(found.x[1]))


def _vuong(first: Floats, second: Floats, count: Ints) -> tuple[float, float]:
    """The logarithm of the ratio of two likelihoods, and how probable so large a one is if neither is better."""
    difference = first - second
    n = float(count.sum())
    total = float(np.sum(count * difference))
    variance = float(np.average((difference - total / n) ** 2, weights=count))
    return total, math.erfc(abs(total) / math.sqrt(2 * n * variance)) if variance > 0 else 1.0
