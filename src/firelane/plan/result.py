"""What planning came to: the best plan, what it changes for each category, and why."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

from firelane.plan.knowledge import Categories, plan_of
from firelane.plan.nearest import Nearest
from firelane.plan.problem import Found
from firelane.plan.requirements import Requirement, Requirements
from firelane.scenario.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned:
    """A decision on the order and the drops of categories."""

    planner: str
    wanted: Requirements
    found: Found
    tried: int  # plans there are on the grid
    levels: dict[str, list[float]]
    before: Categories
    after: Categories
    missed: list[tuple[Requirement, float]]
    nearest: Nearest | None
    conflict: list[str]
    why: tuple[str, ...]
    seconds: float

    @property
    def order(self) -> list[str]:
        """The categories, the highest first; none, if nothing is done."""
        return [] if self.found.nothing else [self.wanted.categories[one] for one in self.found.order]

    @property
    def drops(self) -> dict[str, float]:
        """The drop rate of each category."""
        return dict(zip(self.wanted.categories, self.found.drop_rate.tolist(), strict=True))

    def to_data(self) -> dict[str, Any]:
        """The document of `--json`."""
        return {**self._promise(), "seconds": self.seconds, "why": list(self.why)}

    def to_plan(self, *, version: int = 1) -> Plan:
        """As a Plan like any other."""
        found = self.found
        return plan_of(
            self.wanted,
            found.rank,
            found.drop_rate,
            made_by=f"plan {self.planner}",
            promised=self._promise(),
            why=self.why,
            version=version,
        )

    def _nearest(self, near: Nearest) -> dict[str, Any]:
        drops = dict(zip(self.wanted.categories, near.drop_rate.tolist(), strict=True))
        return {"drops": drops, "granted": self._values(near.granted)}

    def _values(self, some: list[tuple[Requirement, float]]) -> dict[str, float | None]:
        return {self.wanted.name(one): None if isnan(value) else value for one, value in some}

    def _promise(self) -> dict[str, Any]:
        return {
            "planner": self.planner,
            "cost": self.found.cost.to_data(),
            "lower_bound": self.found.lower_bound.to_data(),
            "proven_optimal": self.found.proven,
            "plans": self.tried,
            "levels": self.levels,
            "order": self.order,
            "drops": self.drops,
            "before": self.before,
            "after": self.after,
            "missed": self._values(self.missed),
            "nearest": None if self.nearest is None else self._nearest(self.nearest),
            "conflict": self.conflict,
        }
