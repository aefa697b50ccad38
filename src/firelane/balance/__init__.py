"""Topics over brokers: step by step, with few topics switched, so that no broker carries much more than another."""

from firelane.balance.loads import Loads, read_loads
from firelane.balance.result import Balance
from firelane.balance.run import METHODS, balance

__all__ = ["METHODS", "Balance", "Loads", "balance", "read_loads"]
