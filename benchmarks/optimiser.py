"""Subscriptions per second of the optimiser, beside CVXPY on the same problem, and how far their optima differ.

The problem is Eq. 16 of the FireDeX paper: on one link with 1.7 times what it can carry, keep the shares x of
the subscriptions' messages that maximise sum of weight x log(1 + x), with the load kept at most 0.9. Ours is
timed from arrays to shares. CVXPY is timed from arrays to shares too, building and solving; the time that its
solver alone reports stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import perf_counter

import cvxpy
import numpy as np
import numpy.typing as npt

from firelane.bench import OURS, ROUNDS, Measure, Target, interleaved, main
from firelane.scenario.utility import LOG, Utilities
from firelane.tune.optimise import optimal_shares

Floats = npt.NDArray[np.float64]

OVERLOAD = 1.7
ALLOWED = 0.9
UNIT = "subscriptions/s"
LEAST_TIMES_CVXPY = 50
MOST_GAP = 1e-7
# Solvers of CVXPY for exponential cones besides its default; the fastest of those installed takes part.
OTHER_SOLVERS = ("ECOS", "SCS")
# Beyond this only the default one: at 100 000 subscriptions SCS takes more than forty times as long.
MOST_FOR_OTHERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """The subscriptions of one link."""

    weight: Floats
    load: Floats

    def utility(self, share: Floats) -> float:
        """What the shares are worth; a solver's are brought into their bounds first."""
        return float(self.weight @ np.log1p(np.clip(share, 0, 1)))


class Ours:
    """Our optimiser."""

    def __init__(self, problem: Problem) -> None:
        rows = len(problem.weight)
        self._problem = problem
        self._curves = Utilities(kind=np.full(rows, LOG), weight=problem.weight, knee=np.ones(rows), points={})
        self._repeats = max(1, 100_000 // rows)
        self.share = np.empty(0)

    def rate(self) -> float:
        """Subscriptions solved per second: the median of several solutions, as one is soon done."""
        return len(self._problem.weight) / median(self._seconds() for _ in range(self._repeats))

    def _seconds(self) -> float:
        rows = len(self._problem.weight)
        started = perf_counter()
        self.share = optimal_shares(
            self._curves,
            np.arange(rows),
            lane=np.zeros(rows, np.int64),
            load=self._problem.load,
            least=np.zeros(rows),
            gain=np.ones(rows),
            allowed=ALLOWED,
        )
        return perf_counter() - started


class Cvxpy:
    """CVXPY with one of its solvers (None: its default)."""

    def __init__(self, problem: Problem, solver: str | None) -> None:
        self._problem = problem
        self.solver = solver
        self.share = np.empty(0)
        self.solver_seconds: list[float] = []
        self.name = ""

    def rate(self) -> float:
        """Subscriptions solved per second."""
        return len(self._problem.weight) / self.seconds()

    def seconds(self) -> float:
        """The time to build and solve."""
        started = perf_counter()
        share = cvxpy.Variable(len(self._problem.weight))
        goal = cvxpy.Maximize(self._problem.weight @ cvxpy.log1p(share))
        problem = cvxpy.Problem(goal, [self._problem.load @ share <= ALLOWED, share >= 0, share <= 1])
        problem.solve(solver=self.solver)
        seconds = perf_counter() - started
        self.share = np.asarray(share.value, np.float64)
        self.solver_seconds.append(float(problem.solver_stats.solve_time or np.nan))
        self.name = f"CVXPY {problem.solver_stats.solver_name}"
        return seconds


def measures(quick: bool = False) -> list[Measure]:
    """Both sizes."""
    found: list[Measure] = []
    for subscriptions in (100, 1000) if quick else (1000, 100_000):
        found += measure(subscriptions, quick=quick)
    return found


def measure(subscriptions: int, *, quick: bool) -> list[Measure]:
    """Speed, utility and load at one size."""
    problem = made(subscriptions)
    ours, default = Ours(problem), warm(Cvxpy(problem, None))
    ours.rate()  # compiles
    peers = [default, *(fastest_other(problem) if subscriptions <= MOST_FOR_OTHERS else ())]
    contestants = {OURS: ours.rate, **{one.name: one.rate for one in peers}}
    rate = interleaved(f"{subscriptions:,} subscriptions", UNIT, contestants, rounds=1 if quick else ROUNDS)
    rate[f"{default.name}, solver only"] = subscriptions / median(default.solver_seconds)
    our_rate, our_load = rate.pop(OURS), float(problem.load @ ours.share)
    label = f"optimiser, {subscriptions:,} subscriptions"
    utility = {one.name: problem.utility(one.share) for one in peers}
    gap = problem.utility(ours.share) / utility[default.name] - 1
    return [
        Measure(
            name=f"{label}: speed",
            ours=our_rate,
            peers=rate,
            unit=UNIT,
            targets={
                default.name: Target(
                    words=f"at least {LEAST_TIMES_CVXPY} ×", met=our_rate >= LEAST_TIMES_CVXPY * rate[default.name]
                )
            },
        ),
        Measure(
            name=f"{label}: utility reached",
            ours=problem.utility(ours.share),
            peers=utility,
            unit="utility",
            targets={default.name: Target(words=f"within {MOST_GAP:g}", met=abs(gap) < MOST_GAP)},
        ),
        Measure(
            name=f"{label}: load kept",
            ours=our_load,
            peers={one.name: float(problem.load @ one.share) for one in peers},
            unit="of the link",
            targets={OURS: Target(words=f"at most {ALLOWED:g}", met=our_load <= ALLOWED)},
        ),
    ]


def made(subscriptions: int) -> Problem:
    """Weights and loads by chance, the loads long-tailed as sizes and rates are."""
    chance = np.random.default_rng(1)
    load = chance.lognormal(0.0, 1.0, subscriptions)
    return Problem(weight=chance.uniform(0.1, 2.0, subscriptions), load=load * (OVERLOAD / load.sum()))


def warm(peer: Cvxpy) -> Cvxpy:
    """The peer after a small problem, so that what it does once and for all is not timed."""
    once = Cvxpy(made(50), peer.solver)
    once.seconds()
    peer.name = once.name
    return peer


def fastest_other(problem: Problem) -> list[Cvxpy]:
    """CVXPY with the fastest of its other solvers, if one is installed."""
    installed = [one for one in OTHER_SOLVERS if one in cvxpy.installed_solvers()]
    peers = [warm(Cvxpy(problem, solver)) for solver in installed]
    return sorted(peers, key=Cvxpy.seconds)[:1] if len(peers) > 1 else peers


if __name__ == "__main__":
    main(measures)
