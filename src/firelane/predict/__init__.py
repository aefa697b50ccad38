"""What will happen, in closed form: Scenario + Plan -> Metrics."""

from firelane.predict.run import predict

__all__ = ["predict"]
