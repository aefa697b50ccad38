"""What perfect links make of the very publications of a schedule, by the loops of `simulate`.

A short run differs by chance from what is predicted in the long run, near saturation by tens of percent; from this it
differs only by what the exchange does otherwise, and by which messages a drop rate takes.
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import sum_by
from firelane.reproduce.live.schedule import Schedule
from firelane.reproduce.live.seen import Seen
from firelane.scenario.plan import Plan
from firelane.simulate.kernel import Queues, Tally, count_topics, fan_out, transmit
from firelane.simulate.system import System, build


def replay(schedule: Schedule, plan: Plan, *, warm_up: float, seed: int) -> Seen:
    """The schedule under the plan, counted after the warm-up (a share of the run)."""
    system = build(schedule.routes, plan, independent=False)
    run = _Replay(schedule, system, np.random.Generator(np.random.SFC64(seed)))
    counted_from = warm_up * schedule.seconds
    first = int(np.searchsorted(schedule.at_s, counted_from))
    run.through(slice(0, first), counted_from)
    tally = run.through(slice(first, None), schedule.seconds)
    rows, owner = len(schedule.routes.filters), system.stream_owner
    delivered = sum_by(owner, tally.delivered.astype(np.float64), rows)
    delay = np.full(rows, np.nan)
    np.divide(sum_by(owner, tally.delay_sum, rows), delivered, out=delay, where=delivered > 0)
    dropped = (tally.policy + tally.overflow + tally.superseded).astype(np.float64)
    return Seen(routes=schedule.routes, delivered=delivered, dropped=sum_by(owner, dropped, rows), delay_s=delay)


class _Replay:
    """The links between two parts of a schedule."""

    def __init__(self, schedule: Schedule, system: System, random: np.random.Generator) -> None:
        self._schedule, self._system, self._random = schedule, system, random
        self._queues: Queues = system.queues(self._copies(slice(None)) + 1)

    def through(self, part: slice, until_s: float) -> Tally:
        """Publish a part, let every link send until then, and count what becomes of copies meanwhile."""
        tally = self._system.tally()
        time, topic = self._schedule.at_s[part], self._schedule.topic[part]
        size = self._schedule.size_bytes[part].astype(np.float64)
        copies = self._copies(part)
        born, ready, service = np.empty(copies), np.empty(copies), np.empty(copies)
        stream, kept = np.empty(copies, np.int32), np.empty(copies, np.bool_)
        links = self._system.links
        n = fan_out(self._random, self._system.traffic, links, False, tally,
                    time, time, topic, size, born, ready, stream, service, kept)  # fmt: skip
        transmit(links, self._queues, tally, n, born, ready, stream, service, kept)
        _, one_of_each = np.unique(links.stream_link, return_index=True)
        end, never = np.full(len(one_of_each), until_s), np.zeros(len(one_of_each), np.bool_)
        transmit(
            links, self._queues, tally, len(end), end, end, one_of_each.astype(np.int32), np.zeros(len(end)), never
        )
        return tally

    def _copies(self, part: slice) -> int:
        traffic = self._system.traffic
        return int(count_topics(traffic, self._schedule.topic[part], np.zeros(len(traffic.copy_start) - 1, np.int64)))
