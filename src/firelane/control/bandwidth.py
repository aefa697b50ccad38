"""What a link really carries: an estimate of at most its configured bandwidth, from what came of what was sent.

A queue that lasts, somewhere behind the exchange, means that the link is full; what is acknowledged then is what it
carries. So the estimate *shrinks* to that when round trips have grown and the network, not the exchange, holds up what
waits, in three looks in a row (the first may have begun before, so it is not counted). The queue is then drained by
sending less for a while.

It *grows* by probes. While something waits, or is dropped on purpose, a little more is sent for one look. Classes are
strict, so this goes to the lowest that has anything. What was acknowledged counts, unless round trips grew: then
it was too much, and the next probe waits longer. A probe makes a queue of at most STEP times a look. Where there is not
enough to send for a probe, and nothing speaks against it, the link is believed to carry that much more all the same: it
is configured to. What speaks against it is that this much was too much before, unless more has got through since.

Without traffic nothing is learnt and nothing changes. A slow client is no slow link
(`firelane.exchange.sockets.kernel`). No clock, no I/O.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from math import inf

from firelane.exchange.lanes.link import KnownBy
from firelane.exchange.sockets.kernel import SeenKernel

LEAST_LOOK_S, MOST_LOOK_S = 0.2, 5.0  # what is judged by
LEAST_HURRIED_S = 0.08  # while a queue is there
SEGMENT_BITS = 8 * 1514
ROUND_TRIPS = 4  # that a probe takes at least
SEGMENTS = 20  # of the link's time that a look takes at least: an acknowledgement counts whole segments
PROBE_SEGMENTS = 60  # and a probe: routers let a few through at once
HELD = 0.5  # share of the bytes acknowledged whose connections the network holds up, for the link to be the cause
LOST = 0.05  # of what was sent, not acknowledged in the same look: more and more is under way
GROWN_S = 0.005  # round trips vary by as much without any cause
GROWN_SEGMENTS = 4  # and by as many segments in the way
GROWN_SHARE = 0.25  # and by this part of themselves, over radio
LOOKS_TO_SHRINK = 3
LEAST_CUT = 0.05  # where the queue lasts although what is acknowledged seems to say that the link is not too slow
FLOOR = 0.01  # of the configured bandwidth
DRAIN = 0.5  # of the estimate is sent while a queue drains,
DRAIN_PROBE = 0.8  # or the small one of a probe
LOOKS_TO_DRAIN = 30  # at most: round trips may have grown for good
STEP = 0.08  # by which a probe exceeds the estimate
FIRST_WAIT_S = 1.0  # before a probe; doubled when one fails
LONGEST_WAIT_S = 4.0


class State(Enum):
    """What is done about the link."""

    STEADY = 0
    DRAINING = 1  # less is sent than it carries, until no queue is left
    PROBING = 2  # more is sent than it is known to carry


class Bandwidth:
    """The estimate for one link, told at every look what came of what was sent since the last."""

    def __init__(self, configured_bps: float, pace: float, *, known_bps: float | None = None) -> None:
        self.configured_bps = configured_bps
        self.bandwidth_bps = configured_bps if known_bps is None else known_bps
        self.known_by: KnownBy = "configured"
        self.state = State.STEADY
        self._pace = pace
        self._unjudged: SeenKernel | None = None
        self._full: SeenKernel | None = None  # of late, while the link was too slow all the time
        self._looks = 0  # in which the link was too slow, or the queue was drained
        self._wait_s = FIRST_WAIT_S
        self._probe_at = 0.0
        self._grown_before_s = 0.0
        self._too_much_bps = inf  # as was seen
        self._drain_share = DRAIN
        self.growing_since: float | None = None  # when a probe was good, as long as there may soon be more

    @property
    def pace_bps(self) -> float:
        """What to send now."""
        if self.state is State.PROBING:
            return min(self.configured_bps, (1 + STEP) * self.bandwidth_bps)
        return self._pace * self.bandwidth_bps * (self._drain_share if self.state is State.DRAINING else 1.0)

    @property
    def probing(self) -> bool:
        """Whether more is sent than is known to get through."""
        return self.state is State.PROBING

    @property
    def hurried(self) -> bool:
        """Whether there may be a queue now, so that it is worth looking again soon."""
        return self.state is State.DRAINING or self._looks > 0

    def look(self, now: float, seen: SeenKernel) -> None:
        """Judge what has come of what was sent, as soon as it is enough to judge by."""
        seen = seen if self._unjudged is None else joined(self._unjudged, seen)
        self._unjudged = seen
        if seen.window_s < self._enough_s(seen):
            return
        self._unjudged = None
        if self.state is State.PROBING:
            self._judge_probe(now, seen)
        elif self.state is State.DRAINING:
            self._drain(now, seen)
        elif self._too_slow(seen):
            self._full = None if self._looks == 0 else seen if self._full is None else joined(self._full, seen)
            self._looks += 1
            if self._looks >= LOOKS_TO_SHRINK and self._full is not None:
                self._shrink(self._full)
        else:
            self._looks = 0
            if not self._wants_more(seen):
                self.growing_since = None
            elif now >= self._probe_at:
                self._turn(State.PROBING)
                self._grown_before_s = seen.grown_s

    def _enough_s(self, seen: SeenKernel) -> float:
        least_s = LEAST_HURRIED_S if self.hurried else LEAST_LOOK_S
        segments = SEGMENTS
        if self.probing:  # acknowledgements come a round trip later
            least_s, segments = max(least_s, ROUND_TRIPS * seen.shortest_s), PROBE_SEGMENTS
        return min(max(least_s, segments * SEGMENT_BITS / self.bandwidth_bps), MOST_LOOK_S)

    def _too_slow(self, seen: SeenKernel) -> bool:
        """Whether the network holds up what the exchange would send."""
        held_up = (seen.waiting and seen.held >= HELD) or seen.acked_bytes < (1 - LOST) * seen.paced_bytes
        return held_up and seen.acked_bytes > 0 and seen.grown_s > self._much_s(seen)

    def _much_s(self, seen: SeenKernel) -> float:
        """How much longer a round trip must take than the shortest, to say anything."""
        return max(GROWN_S, GROWN_SEGMENTS * SEGMENT_BITS / self.bandwidth_bps, GROWN_SHARE * seen.shortest_s)

    def _shrink(self, seen: SeenKernel) -> None:
        acked_bps = 8 * seen.acked_bytes / seen.window_s
        self._know(min(acked_bps, (1 - LEAST_CUT) * self.bandwidth_bps), "acknowledged")
        self._too_much_bps = self.bandwidth_bps
        self._wait_s, self._grown_before_s = FIRST_WAIT_S, 0.0
        self.growing_since = None
        self._drain_share = DRAIN
        self._turn(State.DRAINING)

    def _turn(self, state: State) -> None:
        self.state, self._looks = state, 0

    def _drain(self, now: float, seen: SeenKernel) -> None:
        self._looks += 1
        short = seen.grown_s - self._grown_before_s <= 2 * self._much_s(seen)  # the kernel's mean is late
        empty = seen.held == 0 and seen.acked_bytes <= (1 + LOST) * seen.paced_bytes  # or more would still come out
        if short or empty or self._looks >= LOOKS_TO_DRAIN:
            self._turn(State.STEADY)
            self._probe_at = now + self._wait_s

    def _wants_more(self, seen: SeenKernel) -> bool:
        return self.bandwidth_bps < self.configured_bps and (seen.waiting or seen.withheld > 0)

    def _judge_probe(self, now: float, seen: SeenKernel) -> None:
        queue_s = seen.grown_s - self._grown_before_s
        if queue_s > self._much_s(seen) / 2 or seen.acked_bytes < (1 - LOST) * seen.paced_bytes:
            self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
            self._too_much_bps = min(self._too_much_bps, self.pace_bps)
            self.growing_since = None
            self._drain_share = DRAIN_PROBE
            self._turn(State.DRAINING)
            return
        proven_bps = 8 * min(seen.acked_bytes, seen.paced_bytes) / seen.window_s  # after losses much is acked at once
        if proven_bps > (1 + STEP) * self._too_much_bps:
            self._too_much_bps = inf
        paced_bps = 8 * seen.paced_bytes / seen.window_s
        if self._too_much_bps == inf and paced_bps < (1 - LOST) * self.pace_bps:
            proven_bps = self.pace_bps  # not proven, but nothing speaks against it
        enough = proven_bps >= (1 + STEP / 2) * self.bandwidth_bps
        if proven_bps > self.bandwidth_bps:
            self._know(proven_bps, "probed")
            self.growing_since = now if self.growing_since is None else self.growing_since
        self._wait_s = FIRST_WAIT_S
        if not enough or self.bandwidth_bps == self.configured_bps:
            self._turn(State.STEADY)
            self._probe_at = now + self._wait_s

    def _know(self, bandwidth_bps: float, known_by: KnownBy) -> None:
        """What was sent without trouble at the configured pace need not be known better."""
        whole = bandwidth_bps >= self._pace * self.configured_bps and known_by == "probed"
        self.bandwidth_bps = self.configured_bps if whole else max(bandwidth_bps, FLOOR * self.configured_bps)
        self.known_by = known_by


def joined(earlier: SeenKernel, later: SeenKernel) -> SeenKernel:
    """Two looks as one."""
    return replace(
        later,
        window_s=earlier.window_s + later.window_s,
        paced_bytes=earlier.paced_bytes + later.paced_bytes,
        acked_bytes=earlier.acked_bytes + later.acked_bytes,
        waiting=earlier.waiting and later.waiting,
        withheld=earlier.withheld + later.withheld,
    )
