"""Placing topics as a mixed-integer program: which share of a topic, all or nothing, each broker has."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.balance.greedy import NOWHERE
from firelane.errors import FirelaneError

TYPICAL = 1000.0  # what a broker carries in the solver's unit, far above the solver's tolerance of 1e-6
Terms = Iterable[tuple[int, float]]  # column, coefficient


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """What the solver found: a placement, the bound on its cost, and whether it can be no lower."""

    place: Ints
    bound: float
    proved: bool


class Program:
    """The shares a_i^j of the topics that are there (Eq. 4 and 5), and as many extra columns as wanted."""

    def __init__(self, load: Floats, brokers: int, *, extra: int = 0) -> None:
        self.brokers, self.places = brokers, len(load)
        self.topics = np.flatnonzero(load > 0)
        self.scale = TYPICAL * brokers / load.sum() if len(self.topics) else 1.0
        self.columns = len(self.topics) * brokers + extra
        self._load: list[float] = (load[self.topics] * self.scale).tolist()
        self._cost = np.zeros(self.columns)
        self._rows: list[tuple[list[tuple[int, float]], float, float]] = []
        for number in range(len(self.topics)):
            self.row([(self.share(number, j), 1.0) for j in range(brokers)], least=1.0, most=1.0)

    def share(self, number: int, broker: int) -> int:
        """The column of a topic's share on a broker."""
        return number * self.brokers + broker

    def carried(self, broker: int, factor: float = 1.0) -> list[tuple[int, float]]:
        """The load of a broker, in the solver's unit."""
        return [(self.share(number, broker), factor * one) for number, one in enumerate(self._load)]

    def row(self, terms: Terms, *, least: float = -math.inf, most: float = math.inf) -> None:
        """A sum that has to lie between two numbers."""
        self._rows.append((list(terms), least, most))

    def pay(self, terms: Terms) -> None:
        """A sum that is to be minimised, with all others of its kind."""
        for column, cost in terms:
            self._cost[column] += cost

    def solve(self, guess: Ints, *extra: float, time_limit_s: float, whole: bool = False) -> Found:
        """The cheapest placement, begun from a guess; `whole` says that all costs are whole numbers."""
        import highspy

        solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("time_limit", float(time_limit_s))
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("mip_abs_gap", 0.99 if whole else 1e-6)
        solver.passModel(self._model(highspy))
        solver.setSolution(self._start(highspy, guess, extra))
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        if status == highspy.HighsModelStatus.kInfeasible:
            raise FirelaneError("no placement has so small a load difference; allow more with --threshold")
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            raise FirelaneError(f"no placement was found within {time_limit_s:g} s; allow more with --time-limit")
        shares = np.array(solver.getSolution().col_value)[: len(self.topics) * self.brokers]
        place = np.full(self.places, NOWHERE)
        place[self.topics] = shares.reshape(-1, self.brokers).argmax(axis=1)
        return Found(place=place, bound=info.mip_dual_bound, proved=status == highspy.HighsModelStatus.kOptimal)

    def _start(self, highspy: Any, guess: Ints, extra: tuple[float, ...]) -> Any:
        solution = highspy.HighsSolution()
        values = np.zeros(self.columns)
        values[np.arange(len(self.topics)) * self.brokers + guess[self.topics]] = 1.0
        values[self.columns - len(extra) :] = extra
        solution.col_value = values.tolist()
        return solution

    def _model(self, highspy: Any) -> Any:
        model, placing = highspy.HighsLp(), len(self.topics) * self.brokers
        model.num_col_, model.num_row_ = self.columns, len(self._rows)
        model.col_cost_ = self._cost
        model.col_lower_ = np.zeros(self.columns)
        model.col_upper_ = np.where(np.arange(self.columns) < placing, 1.0, math.inf)
        model.row_lower_ = np.array([least for _, least, _ in self._rows])
        model.row_upper_ = np.array([most for _, _, most in self._rows])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.cumsum([0, *(len(terms) for terms, _, _ in self._rows)]).astype(np.int32)
        model.a_matrix_.index_ = np.array([column for terms, _, _ in self._rows for column, _ in terms], np.int32)
        model.a_matrix_.value_ = np.array([value for terms, _, _ in self._rows for _, value in terms])
        kind = highspy.HighsVarType
        model.integrality_ = [kind.kInteger] * placing + [kind.kContinuous] * (self.columns - placing)
        return model
