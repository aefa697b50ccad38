"""Who gets which lane so that requirements are met: Scenario -> Planned, which makes a Plan."""

from firelane.plan.decide import PLANNERS, plan
from firelane.plan.result import Planned

__all__ = ["PLANNERS", "Planned", "plan"]
