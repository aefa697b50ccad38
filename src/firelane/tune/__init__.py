"""Who gets which lane: Scenario -> Plan, by priority assignment and drop rates."""

from firelane.tune.bound import upper_bound
from firelane.tune.decide import tune
from firelane.tune.drops import DROP_METHODS
from firelane.tune.priorities import PRIORITY_METHODS

__all__ = ["DROP_METHODS", "PRIORITY_METHODS", "tune", "upper_bound"]
