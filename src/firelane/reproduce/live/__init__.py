"""A scenario live, under a plan: an exchange in a process of its own, real clients, and what the exchange says of it.

Everything that will be sent is drawn beforehand. The moments of sending do not depend on what the exchange does.
"""

from firelane.reproduce.live.attempt import WARM_UP, Live, run
from firelane.reproduce.live.replay import replay
from firelane.reproduce.live.schedule import Schedule, schedule, typical
from firelane.reproduce.live.seen import Seen, from_metrics

__all__ = ["WARM_UP", "Live", "Schedule", "Seen", "from_metrics", "replay", "run", "schedule", "typical"]
