"""A link as a fluid: what is sent joins a queue that drains at the link's rate, up to a window.

The exchange before it paces at what it is told to, has so much to send, and keeps what does not fit. Round trips are
the shortest one and the time that the queue takes, smoothed as the kernel does, with noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from firelane.exchange.sockets.kernel import SeenKernel

STEP_S = 0.005
SMOOTHING = 0.3  # of the round trip, a step


@dataclass(kw_only=True)
class Fluid:
    """What happens between two looks at a link of `capacity_bps`, in bytes and seconds."""

    capacity_bps: float
    offered_bps: float
    window_bytes: float = 200_000.0  # of all connections together
    shortest_s: float = 0.001
    noise_s: float = 0.0
    dropped_bps: float = 0.0  # on purpose, unless the link is being probed
    seed: int = 0
    queue: float = 0.0  # bytes in the network
    backlog: float = 0.0  # bytes in the exchange
    grown_s: float = 0.0
    longest_queue_s: float = 0.0
    _random: Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def run(self, seconds: float, pace_bps: float, *, probing: bool = False) -> SeenKernel:
        """Let time pass; what a look finds then."""
        steps = max(1, round(seconds / STEP_S))
        waited = self.backlog > 0
        sent = acked = 0.0
        held = False
        for _ in range(steps):
            offered = self.offered_bps + (self.dropped_bps if probing and self.backlog < pace_bps / 800 else 0.0)
            self.backlog += offered * STEP_S / 8
            may = min(self.backlog, pace_bps * STEP_S / 8)
            goes = min(may, max(0.0, self.window_bytes - self.queue))
            held = goes < may
            self.backlog = min(self.backlog - goes, 1e6)
            self.queue += goes
            done = min(self.queue, self.capacity_bps * STEP_S / 8)
            self.queue -= done
            sent, acked = sent + goes, acked + done
            queue_s = 8 * self.queue / self.capacity_bps
            self.longest_queue_s = max(self.longest_queue_s, queue_s)
            self.grown_s += SMOOTHING * (queue_s - self.grown_s)
        return SeenKernel(
            window_s=steps * STEP_S,
            paced_bytes=sent,
            acked_bytes=acked,
            shortest_s=self.shortest_s,
            grown_s=self.grown_s + self._random.uniform(0, self.noise_s),
            held=float(held),
            waiting=waited and self.backlog > 0,
            withheld=int(self.dropped_bps > 0 and not probing),
        )
