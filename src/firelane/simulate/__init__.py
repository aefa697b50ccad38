"""What will happen, by simulation: Scenario + Plan -> Metrics."""

from firelane.simulate.run import simulate

__all__ = ["simulate"]
